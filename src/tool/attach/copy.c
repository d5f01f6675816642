/* SPDX-License-Identifier: MIT
 *
 * The threads are stopped only while the agent runs. A thread inside a realloc has a block that is
 * recorded at neither address: the agent then makes no copy, and all is repeated a moment later.
 */
#define _GNU_SOURCE
#include "attach/copy.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/attach_block.h"
#include "attach/session.h"
#include "attach/stop_all.h"
#include "attach/tracer.h"
#include "base/bits.h"
#include "base/proc_file.h"
#include "os/os.h"
#include "target/registers.h"

#define LIMIT_MS     10000u
#define AGAIN_US     2000u
#define END_TRIES    500
#define END_US       10000u
#define VECTORS_SIZE ((uint64_t)LEAKS_THREADS * CPU_VECTOR_MAX)
#define VIEW_SIZE    (sizeof(leaks_exchange_t) + VECTORS_SIZE)

/* Of the tracer, which inherits it. */
typedef struct copying {
  leaks_exchange_t *exchange; /* mapped with VIEW_SIZE bytes, shared */
  stop_all_t all;
  uint64_t begun_ns;
} copying_t;

/* ---- in the tracer ------------------------------------------------------------------------ */

static void note_registers(leaks_thread_t *t, const cpu_regs_t *words) {
  regs_t regs;
  if (!registers_read(MACHINE_HERE, words, sizeof *words, &regs)) return;
  t->register_count = REGS_COUNT < LEAKS_REGISTERS ? REGS_COUNT : LEAKS_REGISTERS;
  for (uint32_t i = 0; i < t->register_count; i++)
    t->registers[i] = regs_has(&regs, (int)i) ? regs.r[i] : 0;
}

/* Vector registers go to *AT, an offset behind the exchange's head. */
static bool note_thread(leaks_exchange_t *x, const stopped_thread_t *stopped, uint64_t *at) {
  static cpu_state_t state; /* too large for the stack of a tracer */
  leaks_thread_t *t = &x->threads[x->thread_count];
  if (!cpu_read(stopped->tid, &state)) return false;
  *t = (leaks_thread_t){.tid = (uint32_t)stopped->tid,
                        .state = LEAKS_THREAD_STOPPED,
                        .call = -1,
                        .sp = cpu_sp(&state.regs),
                        .pc = cpu_pc(&state.regs),
                        .vectors = *at,
                        .vectors_size = state.vector_size};
  note_registers(t, &state.regs);
  memcpy((uint8_t *)x + *at, state.vector, state.vector_size);
  *at = ALIGN_UP(*at + state.vector_size, UINT64_C(64));
  x->thread_count++;
  return true;
}

static bool begin(attach_t *attach, pid_t own, problem_t *problem) {
  copying_t *c = attach->around->context;
  uint64_t at = ALIGN_UP(sizeof *c->exchange, UINT64_C(64));
  if (!filters_permit_reaping(attach->pid, &attach->shared->filters, problem)) return false;
  c->all.except = own;
  c->begun_ns = os_monotonic_ns();
  c->exchange->thread_count = 0;
  if (!stop_all_begin(&c->all, attach->pid, problem)) return false;
  for (size_t i = 0; i < c->all.threads.count; i++) {
    const stopped_thread_t *stopped = &c->all.threads.items[i];
    if (!stopped->is_stopped) continue; /* it has ended */
    if (c->exchange->thread_count == LEAKS_THREADS) {
      problem_set(problem, "process %d has more than %u threads", attach->pid, LEAKS_THREADS);
      return false;
    }
    (void)note_thread(c->exchange, stopped, &at); /* else it was killed meanwhile */
  }
  return true;
}

static void end(attach_t *attach) {
  copying_t *c = attach->around->context;
  stop_all_end(&c->all);
  c->exchange->pause_ns = os_monotonic_ns() - c->begun_ns;
}

/* ---- the copy ----------------------------------------------------------------------------- */

/* Whether the process CHILD is called PID in its own namespace. */
static bool is_called(pid_t child, pid_t pid) {
  char status[8192];
  if (proc_file_read(child, "status", status, sizeof status) <= 0) return false;
  const char *line = strstr(status, "\nNSpid:");
  char *end = NULL;
  long last = -1;
  for (line = line ? line + 7 : NULL; line && *line && *line != '\n'; line = end) {
    long number = strtol(line, &end, 10);
    if (end == line) break;
    last = number;
  }
  return last == pid;
}

/* The child of PARENT whose number in its namespace is PID; 0: not found. */
static pid_t find_child(pid_t parent, pid_t pid) {
  char status[8192];
  pid_t found = 0;
  DIR *folder = opendir("/proc");
  for (const struct dirent *e; folder && !found && (e = readdir(folder));) {
    pid_t child = (pid_t)atoi(e->d_name);
    if (child > 0 && proc_file_read(child, "status", status, sizeof status) > 0 &&
        proc_file_number(status, "\nPPid:") == parent && is_called(child, pid))
      found = child;
  }
  if (folder) closedir(folder);
  return found;
}

static bool try(attach_t *attach, leaks_exchange_t *x, problem_t *problem) {
  for (x->tries = 1; x->tries <= LEAKS_TRIES; x->tries++) {
    if (!attach_run(attach, ATTACH_COPY, NULL, LIMIT_MS, problem)) return false;
    if (load_acquire(&x->state) == LEAKS_COPIED) return true;
    usleep(AGAIN_US);
  }
  problem_set(problem, "process %d was not copied", attach->pid);
  return false;
}

bool copy_make(attach_t *attach, int exchange_fd, pid_t *reaped_as, problem_t *problem) {
  copying_t copying = {.begun_ns = 0};
  const around_t around = {begin, end, &copying};
  bool nested = process_of(attach->target)->nested;
  *reaped_as = 0;
  void *map = mmap(NULL, VIEW_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, exchange_fd, 0);
  if (map == MAP_FAILED) {
    problem_set(problem, "out of memory");
    return false;
  }
  leaks_exchange_t *x = copying.exchange = map;
  if (nested) x->recorder_pid = x->requester_pid = 0;
  attach->around = &around;
  bool good = try(attach, x, problem);
  if (!good && !x->error) x->error = LEAKS_ERRNO - ECANCELED;
  attach->around = NULL;
  *reaped_as = (pid_t)x->copy_pid;
  if (nested && *reaped_as) x->copy_pid = (uint32_t)find_child(attach->pid, *reaped_as);
  munmap(map, VIEW_SIZE);
  return good;
}

/* ---- its end ------------------------------------------------------------------------------ */

static bool runs(pid_t pid) {
  char text[8192];
  if (proc_file_read(pid, "status", text, sizeof text) <= 0) return false;
  const char *state = strstr(text, "\nState:\t");
  return state && state[8] != 'Z' && state[8] != 'X';
}

bool copy_reap(attach_t *attach, pid_t reaped_as, problem_t *problem) {
  bool nested = process_of(attach->target)->nested;
  pid_t copy = nested ? find_child(attach->pid, reaped_as) : reaped_as;
  for (int i = 0; copy && i < END_TRIES && runs(copy); i++)
    usleep(END_US);
  return attach_reap(attach, reaped_as, problem);
}
