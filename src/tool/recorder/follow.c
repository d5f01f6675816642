/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/follow.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/message.h"
#include "recorder/notes.h"
#include "recorder/monitor/outside/attached.h"
#include "recorder/monitor/outside/observed.h"
#include "record/settings.h"

/* Processes without the agent that a search finds, of many. */
#define AGENTLESS_AT_ONCE 64
/* Of loading the agent into one program, a second apart. */
#define ATTEMPTS_MAX 3

struct followed {
  followed_t *next;
  /* of a child that is recorded from outside; zeros: the agent is in the child */
  observed_t observed;
  recording_t recording;
  control_t control;
  monitors_t monitors;
  agentless_t agentless;
  /* what the agent is to record, if it is loaded; how often that failed */
  uint32_t attached_mode;
  int attempts;
  pid_t pid;
  int pidfd;
  bool ended;
  char path[PATH_MAX];
};

/* run.sonde of process 12: run.12.sonde */
static bool name_file(const char *main, pid_t pid, char *out, size_t size) {
  size_t n = strlen(main), ending = strlen(".sonde");
  if (n > ending && !strcmp(main + n - ending, ".sonde")) n -= ending;
  return snprintf(out, size, "%.*s.%d.sonde", (int)n, main, (int)pid) < (int)size;
}

static followed_t *find(const follow_t *f, pid_t pid) {
  for (followed_t *c = f->first; c; c = c->next)
    if (c->pid == pid && !c->ended) return c;
  return NULL;
}

/* Loads the agent into a child that is found from outside. A child that has just executed a program
 * may not be ready for it. */
static void attach(const follow_t *f, followed_t *c) {
  problem_t problem;
  if (!f->attaches || c->ended || c->control.is_attached || c->attempts == ATTEMPTS_MAX) return;
  c->attempts++;
  if (attached_begin(&c->control, c->attached_mode, f->main->recording->control->sample_bytes,
                     &problem))
    c->attempts = 0;
  else if (c->attempts == ATTEMPTS_MAX && !observed_has_ended(&c->observed))
    message_note("child %d has no agent: %s", (int)c->pid, problem.text);
}

/* A new program does not have the agent of the one before. */
static void execute(followed_t *c) {
  (void)add_relaxed(&c->recording.control->exec_index, 1);
  observed_record(&c->observed, &c->recording);
  c->control.is_attached = false;
  c->attempts = 0;
}

/* RUNS: its program is recorded from now on. */
static followed_t *add(follow_t *f, pid_t pid, bool runs, char *error, size_t size) {
  const shm_control_t *main = f->main->recording->control;
  bool from_outside = load_relaxed(&main->from_outside);
  /* An audit that the program starts by itself is not its children's. */
  uint32_t mode = load_relaxed(&main->mode) & ~RECORD_SWITCHING;
  if (!main->policy_size) mode &= ~RECORD_AUDIT;
  const uint32_t attached_mode = mode;
  if (f->attaches) mode &= ~(uint32_t)RECORD_ANY_BLOCKS; /* until the agent is complete */
  followed_t *c = calloc(1, sizeof *c);
  if (!c || f->count == FOLLOWED_MAX) {
    snprintf(error, size, c ? "too many children at the same time" : "out of memory");
    free(c);
    return NULL;
  }
  c->pid = pid;
  c->attached_mode = attached_mode;
  problem_t problem;
  if (from_outside && !observed_open(&c->observed, pid, 0, true, &problem)) {
    snprintf(error, size, "%s", problem.text);
    free(c);
    return NULL;
  }
  c->pidfd = from_outside ? c->observed.pidfd : (int)syscall(SYS_pidfd_open, pid, 0);
  bool named = (c->pidfd >= 0 || from_outside) && name_file(f->path, pid, c->path, sizeof c->path);
  if (!named) snprintf(error, size, "process %d: %s", (int)pid, strerror(errno));
  if (!named || recording_create(&c->recording, c->path, (uint32_t)pid, mode, main->sample_bytes,
                                 f->limit_bytes, error, size) < 0) {
    if (c->pidfd >= 0) close(c->pidfd);
    free(c);
    return NULL;
  }
  c->recording.keep_free_bytes = f->keep_free_bytes;
  c->recording.control->sample_interval_ns = main->sample_interval_ns;
  c->recording.control->pace = load_relaxed(&main->pace);
  c->recording.control->follows_async = main->follows_async;
  c->recording.control->python_lines = main->python_lines;
  c->recording.control->policy_fd = main->policy_fd;
  c->recording.control->policy_size = main->policy_size;
  memcpy(c->recording.control->trace_pattern, main->trace_pattern, sizeof main->trace_pattern);
  memcpy(c->recording.control->trace_given, main->trace_given, sizeof main->trace_given);
  c->recording.control->trace_waits = main->trace_waits;
  c->recording.control->trace_filter = main->trace_filter;
  recording_set_tracing(&c->recording, load_relaxed(&main->trace_generation) & 1);
  control_open(&c->control, &c->recording, c->path, pid);
  c->control.agent_fd = -1;
  c->control.listener = f->main;
  control_name(&c->control, c->recording.control->recorder_name);
  if (from_outside) observed_begin(&c->observed, &c->recording);
  agentless_open(&c->agentless, f->agentless, &c->recording, &c->monitors, false);
  if (runs) {
    monitors_new(&c->monitors, &c->recording, mode & RECORD_STALLS, f->monitor_options);
    monitors_run_wall(&c->monitors);
    monitors_run(&c->monitors);
  }
  c->next = f->first;
  f->first = c;
  f->count++;
  attach(f, c);
  return c;
}

bool follow_child(follow_t *f, pid_t pid, char *settings, size_t size, char *error,
                  size_t error_size) {
  static const char not_created[] = "its recording could not be created";
  followed_t *c = find(f, pid);
  if (!c) c = add(f, pid, true, error, error_size);
  processes_record(f->processes, pid, c ? c->path : NULL, c ? NULL : not_created);
  if (!c) {
    message_note("a child is not recorded: %s", error);
    return false;
  }
  control_settings(&c->control, false, settings, size);
  return true;
}

/* ---- programs without the agent ---------------------------------------------------------- */

void follow_announce(follow_t *f, pid_t pid, bool is_known) {
  char error[PATH_MAX + 64];
  if (!f->agentless->records) return;
  followed_t *c = find(f, pid);
  if (!c) c = add(f, pid, false, error, sizeof error);
  if (c) agentless_announce(&c->agentless, is_known);
}

void follow_stay(follow_t *f, pid_t pid) {
  followed_t *c = find(f, pid);
  if (c) agentless_stay(&c->agentless);
}

static void note_agentless(follow_t *f, pid_t pid) {
  const process_row_t *row = processes_last(f->processes, pid);
  const char *command = row && row->command ? row->command : "a child";
  char name[PATH_MAX];
  if (f->has_noted) return;
  f->has_noted = true;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(command, " "), command);
  agentless_note(name, f->agentless->is_default);
}

void follow_agentless(follow_t *f) {
  for (followed_t *c = f->first; c; c = c->next) {
    if (c->ended || !agentless_poll(&c->agentless)) continue;
    processes_record_outside(f->processes, c->pid, c->path);
    note_agentless(f, c->pid);
  }
}

void follow_search_agentless(follow_t *f) {
  pid_t pids[AGENTLESS_AT_ONCE];
  size_t count =
      f->agentless->records ? processes_static(f->processes, pids, AGENTLESS_AT_ONCE) : 0;
  for (size_t i = 0; i < count; i++)
    if (!find(f, pids[i])) follow_announce(f, pids[i], true);
}

uint64_t follow_agentless_left_ns(const follow_t *f, uint64_t limit_ns) {
  for (const followed_t *c = f->first; c; c = c->next)
    limit_ns = agentless_time_left_ns(&c->agentless, limit_ns);
  return limit_ns;
}

/* ---- all children ------------------------------------------------------------------------ */

void follow_each(follow_t *f, void (*each)(void *context, control_t *control), void *context) {
  for (followed_t *c = f->first; c; c = c->next)
    if (!c->ended) each(context, &c->control);
}

control_t *follow_find(const follow_t *f, const char *token) {
  for (followed_t *c = f->first; c; c = c->next)
    if (!c->ended && !strcmp(c->control.token, token)) return &c->control;
  return NULL;
}

void follow_poll(const follow_t *f, struct pollfd *fds) {
  for (const followed_t *c = f->first; c; c = c->next) {
    *fds++ = (struct pollfd){.fd = c->pidfd, .events = POLLIN};
    *fds++ = (struct pollfd){.fd = c->control.fd, .events = POLLIN};
  }
}

static void finish(const follow_t *f, followed_t *c) {
  const shm_control_t *control = c->recording.control;
  bool runs = c->observed.pid && !observed_has_ended(&c->observed);
  agentless_close(&c->agentless);
  uint32_t wait_status = runs ? RECORD_STATUS_RUNNING : RECORD_STATUS_UNKNOWN;
  if (!runs)
    processes_end(f->processes, c->pid, control->exec_index,
                  c->recording.agentless_program ? 0 : control->executing,
                  control->threads.process_ns);
  if (runs) attached_end(&c->control);
  monitors_end_time(&c->monitors);
  monitors_stop(&c->monitors, runs ? (int)wait_status : 0); /* only its parent gets the status */
  control_close(&c->control);
  if (c->pidfd >= 0) close(c->pidfd);
  c->observed.pidfd = -1;
  observed_close(&c->observed);
  int status = recording_finish(&c->recording, (int)wait_status);
  if (status < 0) message_note("cannot write the end of '%s'", c->path);
  notes_of_programs(c->recording.control, true, NULL);
  uint32_t reason = c->recording.header.stop_reason;
  if (reason) message_note("recording '%s' stopped early: %s", c->path, record_stop_text(reason));
  if (!c->recording.header.exec_count) unlink(c->path); /* its agent recorded nothing */
  recording_release(&c->recording);
  c->ended = true;
}

static void forget_ended(follow_t *f) {
  for (followed_t **at = &f->first; *at;) {
    followed_t *c = *at;
    if (!c->ended) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    f->count--;
    free(c);
  }
}

void follow_serve(follow_t *f, const struct pollfd *fds) {
  for (followed_t *c = f->first; c; c = c->next, fds += 2) {
    if (fds[1].revents) control_serve(&c->control);
    if (fds[0].revents) finish(f, c);
  }
  forget_ended(f);
}

/* ---- from outside ------------------------------------------------------------------------- */

void follow_observe(follow_t *f) {
  char settings[SETTINGS_MAX], error[PATH_MAX + 64];
  for (pid_t pid; (pid = processes_unrecorded(f->processes)) > 0;)
    (void)follow_child(f, pid, settings, sizeof settings, error, sizeof error);
  for (followed_t *c = f->first; c; c = c->next)
    if (c->pidfd < 0 && observed_has_ended(&c->observed)) finish(f, c);
  forget_ended(f);
}

void follow_leave(follow_t *f) {
  for (followed_t *c = f->first; c; c = c->next)
    finish(f, c);
  forget_ended(f);
}

/* Whether the initial environment of process PID contains SETTINGS. */
static bool has_settings(const char *pid, const char *settings) {
  char path[300], text[1 << 16];
  snprintf(path, sizeof path, "/proc/%s/environ", pid);
  FILE *f = fopen(path, "re");
  if (!f) return false;
  size_t n = fread(text, 1, sizeof text, f);
  fclose(f);
  return memmem(text, n, settings, strlen(settings)) != NULL;
}

bool follow_remains(const char *settings) {
  DIR *processes = opendir("/proc");
  bool found = false;
  for (struct dirent *e; processes && !found && (e = readdir(processes));)
    found = e->d_name[0] >= '0' && e->d_name[0] <= '9' && has_settings(e->d_name, settings);
  if (processes) closedir(processes);
  return found;
}

void follow_refresh(follow_t *f) {
  for (followed_t *c = f->first; c; c = c->next) {
    if (c->observed.pid && observed_has_executed(&c->observed)) execute(c);
    attach(f, c);
    recording_refresh(&c->recording);
  }
}
