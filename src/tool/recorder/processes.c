/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/processes.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/message.h"
#include "os/os.h"
#include "recorder/process_facts.h"
#include "target/births.h"

#define COMMAND_MAX 4096

static const char not_started[] = "the agent did not start in it";
static const char too_short[] = "it ended before sonde could read it";

/* A child that is about to execute a program does so within this time. */
#define EXEC_NS UINT64_C(20000000)

/* ---- rows ---------------------------------------------------------------------------------- */

static process_row_t *running(const processes_t *p, size_t i) {
  return &p->items[p->running.items[i]];
}

/* The row of the running process PID; NULL: there is none. */
static process_row_t *find(const processes_t *p, pid_t pid) {
  for (size_t i = 0; i < p->running.count; i++)
    if (running(p, i)->pid == pid) return running(p, i);
  return NULL;
}

static void forget_running(processes_t *p, const process_row_t *r) {
  size_t i = 0;
  while (i < p->running.count && running(p, i) != r)
    i++;
  if (i < p->running.count) p->running.items[i] = p->running.items[--p->running.count];
}

static void set_text(char **to, const char *text) {
  char *copy = text && *text ? strdup(text) : NULL;
  if (!copy) return;
  free(*to);
  *to = copy;
}

/* Of a process that has announced a program, only the command line of that program counts: not that
 * of the program before it, nor of one that it executes itself. */
static void read_command(process_row_t *r) {
  char command[COMMAND_MAX];
  if (r->announced && !process_facts_runs(r->pid, r->announced)) return;
  process_facts_command(r->pid, command, sizeof command);
  set_text(&r->command, command);
}

static void watch(processes_t *p, process_row_t *r) {
  if (p->watched == PROCESSES_WATCHED_MAX || r->pidfd >= 0) return;
  r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
  p->watched += r->pidfd >= 0;
}

static void unwatch(processes_t *p, process_row_t *r) {
  if (r->pidfd < 0) return;
  close(r->pidfd);
  r->pidfd = -1;
  p->watched--;
}

static process_row_t *add(processes_t *p, pid_t pid) {
  process_facts_t facts = {0};
  bool room = p->count < PROCESSES_MAX &&
              ARRAY_RESERVE(p->running.items, p->running.count + 1, p->running.capacity);
  process_row_t *r = room ? ARRAY_ADD(*p) : NULL;
  if (!r) {
    p->excess++;
    return NULL;
  }
  p->running.items[p->running.count++] = p->count - 1;
  bool known = process_facts_read(pid, &facts);
  *r = (process_row_t){.pid = pid,
                       .parent = facts.parent,
                       .birth = known ? facts.birth : 0,
                       .cpu_ns = facts.cpu_ns,
                       .start_ns = recording_now_ns(p->recording),
                       .pidfd = -1};
  return r;
}

static void end_row(processes_t *p, process_row_t *r) {
  unwatch(p, r);
  forget_running(p, r);
  if (!p->settings && r->state != PROCESS_RECORDED && !r->why) r->why = too_short;
  if (r->state == PROCESS_FOUND && !r->executed && !r->why)
    r->why = "it is a fork and recorded no event";
  if (r->state != PROCESS_RECORDED && !r->why) r->why = not_started;
  r->state = PROCESS_ENDED;
  r->end_ns = recording_now_ns(p->recording);
}

/* The program that a recorded process executed last, without its agent, gets a row of its own. */
static void split_last_program(processes_t *p, process_row_t *r) {
  process_row_t last = {.state = PROCESS_ENDED,
                        .pid = r->pid,
                        .parent = r->parent,
                        .start_ns = r->end_ns,
                        .end_ns = r->end_ns,
                        .pidfd = -1,
                        .executed = true,
                        .command = r->next_command,
                        .why = r->next_why ? r->next_why : not_started};
  r->next_command = NULL;
  process_row_t *to = p->count < PROCESSES_MAX ? ARRAY_ADD(*p) : NULL;
  if (to)
    *to = last;
  else
    free(last.command);
}

bool processes_start(processes_t *p, recording_t *recording, const char *settings, pid_t pid,
                     const char *file, char **command) {
  char text[COMMAND_MAX] = "";
  *p = (processes_t){.recording = recording, .settings = settings};
  process_row_t *r = add(p, pid);
  if (!r) return false;
  for (size_t n = 0; *command && n < sizeof text; command++)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", *command);
  r->state = PROCESS_RECORDED;
  if (settings)
    r->parent = getpid();
  else
    watch(p, r);
  set_text(&r->file, file);
  set_text(&r->command, text);
  return r->file && r->command;
}

/* ---- what the kernel reports ----------------------------------------------------------------- */

#define BIRTHS_MAX 64

/* Any process of that number: pids are rarely used twice in a run. */
static bool is_listed(const processes_t *p, pid_t pid) {
  for (size_t i = p->count; i-- > 0;)
    if (p->items[i].pid == pid) return true;
  return false;
}

/* Since the start of the recording. */
static uint64_t time_of(const processes_t *p, const birth_t *b) {
  uint64_t now = recording_now_ns(p->recording), age = os_monotonic_ns() - b->time_ns;
  return age < now ? now - age : 0;
}

static void on_birth(void *context, const birth_t *b) {
  processes_t *p = context;
  process_row_t *r = find(p, b->pid);
  if (b->kind == BIRTH_FORK && !is_listed(p, b->pid) && (r = add(p, b->pid))) {
    if (!r->parent) r->parent = b->parent;
    r->start_ns = time_of(p, b);
    watch(p, r);
  } else if (b->kind == BIRTH_EXEC && r && r->state == PROCESS_FOUND) {
    r->executed = true;
    set_text(&r->command, b->name);
    read_command(r);
  } else if (b->kind == BIRTH_EXIT && r && r->state == PROCESS_FOUND) {
    end_row(p, r);
    r->end_ns = time_of(p, b);
  }
}

static void read_births(processes_t *p) {
  for (size_t i = 0; i < p->births.count; i++)
    births_read(p->births.items[i], on_birth, p);
}

/* The process PID is about to execute a program without the agent. */
static void report_births(processes_t *p, pid_t pid) {
  births_t *births = p->births.count < BIRTHS_MAX ? births_open(pid) : NULL;
  births_t **place = births ? ARRAY_ADD(p->births) : NULL;
  if (place)
    *place = births;
  else
    births_close(births);
}

/* ---- what agents tell ---------------------------------------------------------------------- */

void processes_record(processes_t *p, pid_t pid, const char *file, const char *why) {
  process_row_t *r = find(p, pid);
  if (r && r->state == PROCESS_EXECUTES && r->why && r->announced &&
      !process_facts_runs(pid, r->announced)) {
    end_row(p, r); /* the announced program has executed this one */
    r = NULL;
  }
  if (!r) r = add(p, pid);
  if (!r) return;
  unwatch(p, r);
  free(r->announced);
  r->announced = NULL;
  r->state = PROCESS_RECORDED;
  r->is_outside = false;
  r->why = why;
  free(r->next_command);
  r->next_command = NULL;
  set_text(&r->file, file);
  read_command(r);
}

void processes_record_outside(processes_t *p, pid_t pid, const char *file) {
  if (file)
    processes_record(p, pid, file, NULL);
  else
    processes_stay(p, pid);
  process_row_t *r = find(p, pid);
  if (!r) return;
  r->is_outside = true;
  watch(p, r); /* its children are not announced */
}

/* A fork of a statically linked program runs it, too. */
static bool is_static(const processes_t *p, const process_row_t *r) {
  const process_row_t *parent = r->executed ? NULL : find(p, r->parent);
  return r->why == process_facts_statically || (!r->why && parent && parent->is_outside);
}

size_t processes_static(const processes_t *p, pid_t *pids, size_t max) {
  uint64_t now_ns = recording_now_ns(p->recording);
  size_t count = 0;
  for (size_t i = 0; i < p->running.count && count < max; i++) {
    const process_row_t *r = running(p, i);
    if (r->state == PROCESS_FOUND && now_ns - r->start_ns >= EXEC_NS && is_static(p, r))
      pids[count++] = r->pid;
  }
  return count;
}

void processes_execute(processes_t *p, pid_t pid, const char *file, const char *why) {
  process_row_t *r = find(p, pid);
  if (!r) r = add(p, pid);
  if (!r) return;
  if (r->state == PROCESS_RECORDED && r->file) {
    set_text(&r->next_command, file);
    r->next_why = why;
    if (why) report_births(p, pid);
    return;
  }
  set_text(&r->announced, file);
  set_text(&r->command, file);
  r->state = PROCESS_EXECUTES;
  r->executed = true;
  r->why = why;
  watch(p, r);
  if (why) report_births(p, pid);
}

void processes_spawn(processes_t *p, pid_t pid, pid_t parent, const char *file, const char *why) {
  process_row_t *r = find(p, pid);
  if (r && r->state == PROCESS_RECORDED) return; /* its agent was faster */
  processes_execute(p, pid, file, why);
  r = find(p, pid);
  if (r && !r->parent) r->parent = parent;
}

void processes_stay(processes_t *p, pid_t pid) {
  process_row_t *r = find(p, pid);
  if (!r) return;
  free(r->next_command);
  r->next_command = NULL;
  if (r->state != PROCESS_EXECUTES) return;
  free(r->announced);
  r->announced = NULL;
  r->state = PROCESS_FOUND;
  r->executed = false;
  r->why = NULL;
}

void processes_end(processes_t *p, pid_t pid, bool is_recorded, uint32_t executing,
                   uint64_t cpu_ns) {
  process_row_t *r = find(p, pid);
  process_facts_t facts;
  if (!r) return;
  if (process_facts_read(pid, &facts) && facts.birth == r->birth && facts.cpu_ns > r->cpu_ns)
    r->cpu_ns = facts.cpu_ns;
  if (cpu_ns > r->cpu_ns) r->cpu_ns = cpu_ns;
  if (!is_recorded) {
    free(r->file);
    r->file = NULL;
    if (!r->why) r->why = "its agent could not open the recording";
  }
  end_row(p, r);
  if (executing == SHM_EXECUTING_APART) {
    set_text(&r->next_command, "(its last program)");
    r->next_why = process_facts_apart;
  }
  if (r->next_command && executing) split_last_program(p, r);
}

/* ---- what /proc shows ---------------------------------------------------------------------- */

/* Whether the row is that of the process which FACTS describe: pids are reused. */
static bool is_same(const process_row_t *r, const process_facts_t *facts) {
  return !r->birth || r->birth == facts->birth;
}

static void update(processes_t *p, process_row_t *r, const process_facts_t *facts) {
  if (facts->cpu_ns > r->cpu_ns) r->cpu_ns = facts->cpu_ns;
  if (r->state == PROCESS_RECORDED || facts->state == 'Z') return;
  const process_row_t *parent = find(p, r->parent);
  read_command(r);
  r->executed |= !parent || !parent->command || !r->command || strcmp(parent->command, r->command);
  bool announced = r->state == PROCESS_EXECUTES; /* its agent may not have started yet */
  if (p->settings && r->executed && !announced && !r->why)
    r->why = process_facts_why(r->pid, p->settings);
}

static void look_at(processes_t *p, pid_t pid) {
  process_facts_t facts;
  if (!process_facts_read(pid, &facts)) return;
  process_row_t *r = find(p, pid);
  if (r && !is_same(r, &facts)) {
    end_row(p, r);
    r = NULL;
  }
  if (!r) {
    if (facts.state == 'Z' || !find(p, facts.parent)) return;
    r = add(p, pid);
    if (!r) return;
    watch(p, r);
    return; /* it may be about to execute a program or to request a recording */
  }
  update(p, r, &facts);
}

static void end_missing(processes_t *p) {
  process_facts_t facts;
  for (size_t i = p->running.count; i-- > 0;) {
    process_row_t *r = running(p, i);
    if (r->state != PROCESS_RECORDED &&
        (!process_facts_read(r->pid, &facts) || !is_same(r, &facts)))
      end_row(p, r);
  }
}

void processes_scan(processes_t *p) {
  read_births(p);
  DIR *all = opendir("/proc");
  for (struct dirent *e; all && (e = readdir(all));)
    if (e->d_name[0] >= '1' && e->d_name[0] <= '9') look_at(p, (pid_t)atoi(e->d_name));
  if (all) closedir(all);
  end_missing(p);
}

/* The children of the first thread, which nearly always is the one that forks. */
static void look_at_children(processes_t *p, pid_t pid) {
  char path[64];
  int child;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
  FILE *f = fopen(path, "re");
  while (f && fscanf(f, "%d", &child) == 1)
    look_at(p, child);
  if (f) fclose(f);
}

/* A process that has not run since the last scan has no new child, and executes what it did. */
void processes_scan_unrecorded(processes_t *p) {
  read_births(p);
  for (size_t i = 0; i < p->running.count; i++) {
    pid_t pid = running(p, i)->pid;
    if (p->settings && running(p, i)->pidfd < 0) continue;
    if (process_facts_idle(pid, &running(p, i)->scanned_ns)) continue;
    look_at(p, pid);
    look_at_children(p, pid); /* may move the rows */
  }
}

pid_t processes_unrecorded(const processes_t *p) {
  uint64_t now_ns = recording_now_ns(p->recording);
  for (size_t i = 0; i < p->running.count; i++) {
    const process_row_t *r = running(p, i);
    if (r->state == PROCESS_FOUND && !r->why && now_ns - r->start_ns >= EXEC_NS) return r->pid;
  }
  return 0;
}

void processes_pids(const processes_t *p, pid_t *pids) {
  for (size_t i = 0; i < p->running.count; i++)
    pids[i] = running(p, i)->pid;
}

void processes_poll(const processes_t *p, struct pollfd *fds) {
  for (size_t i = 0; i < p->running.count; i++)
    if (running(p, i)->pidfd >= 0)
      *fds++ = (struct pollfd){.fd = running(p, i)->pidfd, .events = POLLIN};
}

static process_row_t *watched_by(const processes_t *p, int pidfd) {
  for (size_t i = 0; i < p->running.count; i++)
    if (running(p, i)->pidfd == pidfd) return running(p, i);
  return NULL;
}

void processes_serve(processes_t *p, const struct pollfd *fds, size_t count) {
  process_facts_t facts;
  pid_t ended[PROCESSES_WATCHED_MAX];
  size_t n = 0;
  for (size_t i = 0; i < count; i++) {
    const process_row_t *r = fds[i].revents ? watched_by(p, fds[i].fd) : NULL;
    if (r) ended[n++] = r->pid;
  }
  read_births(p); /* what they did before; opens and closes descriptors */
  for (size_t i = 0; i < n; i++) {
    process_row_t *r = find(p, ended[i]);
    if (!r || r->state == PROCESS_RECORDED) continue;
    if (process_facts_read(r->pid, &facts) && is_same(r, &facts) && facts.cpu_ns > r->cpu_ns)
      r->cpu_ns = facts.cpu_ns;
    end_row(p, r);
  }
}

/* ---- the list ------------------------------------------------------------------------------ */

const process_row_t *processes_last(const processes_t *p, pid_t pid) {
  for (size_t i = p->count; i-- > 0;)
    if (p->items[i].pid == pid) return &p->items[i];
  return NULL;
}

size_t processes_write(processes_t *p, size_t *unrecorded) {
  read_births(p);
  *unrecorded = 0;
  for (size_t i = 0; i < p->count; i++) {
    process_row_t *r = &p->items[i];
    if (r->state != PROCESS_ENDED && !r->file && !r->why)
      r->why = "it still runs, and has recorded no event";
    *unrecorded += !r->file;
    const recorded_process_t row = {.pid = (uint64_t)r->pid,
                                    .parent = (uint64_t)r->parent,
                                    .start_ns = r->start_ns,
                                    .end_ns = r->end_ns,
                                    .cpu_ns = r->cpu_ns,
                                    .command = r->command ? r->command : "",
                                    .file = r->file ? r->file : "",
                                    .why = r->file ? "" : r->why};
    (void)recording_add_process(p->recording, &row);
  }
  return p->count;
}

static bool is_first_with_reason(const processes_t *p, size_t row) {
  for (size_t i = 0; i < row; i++)
    if (!p->items[i].file && !strcmp(p->items[i].why, p->items[row].why)) return false;
  return true;
}

void processes_print_unrecorded(const processes_t *p) {
  for (size_t i = 0; i < p->count; i++) {
    const process_row_t *r = &p->items[i];
    if (r->file || !r->why || !is_first_with_reason(p, i)) continue;
    size_t count = 0;
    for (size_t k = i; k < p->count; k++)
      count += !p->items[k].file && !strcmp(p->items[k].why, r->why);
    const char *command = r->command ? r->command : "unknown";
    size_t word = strcspn(command, " ");
    char remedy[PATH_MAX + 64];
    process_facts_remedy(r->why, r->command ? r->command : "", remedy, sizeof remedy);
    if (count == 1)
      message_note("process %d (%.*s) is not recorded: %s%s", (int)r->pid, (int)word, command,
                   r->why, remedy);
    else
      message_note("%zu processes are not recorded (%.*s and others): %s%s", count, (int)word,
                   command, r->why, remedy);
  }
}

void processes_free(processes_t *p) {
  for (size_t i = 0; i < p->births.count; i++)
    births_close(p->births.items[i]);
  free(p->births.items);
  for (size_t i = 0; i < p->count; i++) {
    unwatch(p, &p->items[i]);
    free(p->items[i].command);
    free(p->items[i].file);
    free(p->items[i].next_command);
    free(p->items[i].announced);
  }
  free(p->items);
  free(p->running.items);
  *p = (processes_t){0};
}
