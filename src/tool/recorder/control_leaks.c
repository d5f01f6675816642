/* SPDX-License-Identifier: MIT
 *
 * The control command `leaks`: the recorder's part of a leak search (record/leaks.h). It creates
 * the exchange, signals the program to copy itself, and in mode `live` copies the table of live
 * blocks while the program is paused. The client then uses the exchange until it sends `leaks=end`
 * or another client starts a search.
 *
 * With an attached agent the recorder stops all threads instead, and no signal is sent
 * (attach/copy.h). A thread saves the live blocks meanwhile.
 *
 * Otherwise the recorder signals the thread that the signal disturbs least: one that runs, or one
 * blocked in a call that the kernel restarts. Without such a thread, one call of the program
 * returns EINTR.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/message.h"
#include "base/parse.h"
#include "recorder/control.h"
#include "recorder/monitor/monitor_thread.h"
#include "recorder/monitor/outside/attached.h"
#include "recorder/monitor/thread_file.h"
#include "recorder/process_facts.h"
#include "os/os.h"
#include "record/leaks.h"
#include "sonde/status.h"

/* Address space of the exchange; memory is used as it is written. */
#define EXCHANGE_BYTES (UINT64_C(4) << 30)
/* How long to wait for a signaled thread before another one is signaled; how many are signaled;
 * and how long all of this may take. */
#define SIGNAL_WAIT_NS UINT64_C(300000000)
#define SIGNALS_MAX    4
#define SIGNALS_NS     UINT64_C(1500000000)
#define REAP_MS        20
#define COPIES_MAX     16
#define TIMEOUT_NS     UINT64_C(10000000000)

static struct {
  int fd; /* 0: none */
  leaks_exchange_t *map;
  pid_t copies[COPIES_MAX]; /* not yet reaped; 0: unused */
  pid_t attached_copy;      /* what the program calls a copy of its own; 0: none */
} exchange;

/* Ends the waits of the program, the copy and the keeper. */
static void fail_exchange(void) {
  if (load_acquire(&exchange.map->state) >= LEAKS_READY) return;
  store_release(&exchange.map->state, (uint32_t)LEAKS_FAILED);
  (void)os_futex_wake_shared(&exchange.map->state, INT32_MAX);
}

static void end_exchange(void) {
  if (exchange.map) {
    fail_exchange();
    munmap(exchange.map, sizeof *exchange.map);
  }
  if (exchange.fd > 0) close(exchange.fd);
  exchange.fd = 0;
  exchange.map = NULL;
}

static void add_copy(pid_t copy) {
  for (int i = 0; i < COPIES_MAX; i++)
    if (!exchange.copies[i]) {
      exchange.copies[i] = copy;
      return;
    }
}

/* A copy of the command is a child of the recorder (clone(2), CLONE_PARENT). It ends when it has
 * finished its search, or when it sees that the search was cancelled. */
static void reap_copies(void) {
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int i = 0; i < COPIES_MAX; i++) {
    pid_t copy = exchange.copies[i], gone = 0;
    for (int ms = 0; copy && ms < REAP_MS; ms++) {
      if ((gone = waitpid(copy, NULL, (int)__WALL | WNOHANG)) != 0) break;
      nanosleep(&moment, NULL);
    }
    if (gone) exchange.copies[i] = 0;
  }
}

static bool begin_exchange(const control_t *c) {
  exchange.fd = memfd_create("sonde-leaks", MFD_CLOEXEC);
  if (exchange.fd < 0) return false;
  void *map = MAP_FAILED;
  if (ftruncate(exchange.fd, (off_t)EXCHANGE_BYTES) == 0)
    map = mmap(NULL, sizeof *exchange.map, PROT_READ | PROT_WRITE, MAP_SHARED, exchange.fd, 0);
  if (map == MAP_FAILED) {
    close(exchange.fd);
    exchange.fd = 0;
    return false;
  }
  exchange.map = map;
  exchange.map->magic = LEAKS_MAGIC;
  exchange.map->size = EXCHANGE_BYTES;
  exchange.map->recorder_pid = c->recording->control->recorder_pid;
  exchange.map->requester_pid = (uint32_t)c->client_pid;
  store_release(&exchange.map->state, (uint32_t)LEAKS_REQUESTED);
  return true;
}

/* ---- choosing --------------------------------------------------------------------------- */

/* How much a signal disturbs the thread, from 0, not at all; negative: it must not be signaled.
 * *AT is the call that blocks the thread. */
static int disturbance_of(pid_t pid, pid_t tid, os_blocked_t *at) {
  char text[1024];
  os_thread_t about;
  at->call = -1;
  if (!thread_file_read(-1, pid, tid, "stat", text, sizeof text) ||
      os_parse_thread(text, &about) != 0)
    return -1;
  if (os_blocks_signal(&about) || strchr("ZXTt", about.state)) return -1;
  if (about.state == 'R') return 0;
  if (about.state == 'D') return 4;
  if (!thread_file_read(-1, pid, tid, "syscall", text, sizeof text)) return 4;
  if (os_parse_blocked(text, at) != 0) {
    at->call = -1;
    return 0;
  }
  /* The type of a descriptor, on which a restart may depend, is not examined. */
  if (at->call < 0 || os_call_restarts(at)) return 1;
  if (os_call_resumes(at)) return 2;
  return os_waits_for_signals(at->call) ? -1 : 3;
}

/* Selects the thread to signal, except the CALLS threads that did not respond. *BLOCKED is the call
 * that blocks it. */
static pid_t choose_thread(pid_t pid, const pid_t *called, int calls, os_blocked_t *blocked) {
  char path[40];
  pid_t best = 0;
  int least = 5;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *folder = opendir(path);
  for (struct dirent *e; folder && (e = readdir(folder));) {
    pid_t tid = (pid_t)atoi(e->d_name);
    os_blocked_t at = {.call = -1};
    int disturbance = tid > 0 ? disturbance_of(pid, tid, &at) : -1;
    for (int i = 0; i < calls; i++)
      if (called[i] == tid) disturbance = -1;
    if (disturbance < 0 || disturbance >= least) continue;
    least = disturbance;
    best = tid;
    *blocked = at;
  }
  if (folder) closedir(folder);
  return best;
}

static bool has_ended(pid_t pid, pid_t tid) {
  char text[16];
  return !thread_file_read(-1, pid, tid, "comm", text, sizeof text);
}

/* Notes for the handler of TID, which the program calls OWN, that it must resume the call AT. A
 * thread that has not handled an earlier signal runs, or waits for a CPU, because of that signal:
 * the call is still the one of that signal. False if all entries are in use. */
static bool note_call(const control_t *c, pid_t tid, uint32_t own, const os_blocked_t *at) {
  shm_asked_t *table = c->recording->control->asked;
  os_blocked_t before;
  if (shm_take_asked(table, own, &before) && at->call < 0) at = &before;
  for (shm_asked_t *a = table; a < table + SHM_ASKED; a++) {
    uint32_t there = load_acquire(&a->tid);
    if (there && (!has_ended(c->pid, (pid_t)a->outer) || !cas_acq_rel(&a->tid, &there, 0u)))
      continue;
    a->outer = (uint32_t)tid;
    a->at = *at;
    store_release(&a->tid, own);
    return true;
  }
  return false;
}

/* Signals the thread TID, which AT blocks. */
static bool ask(const control_t *c, pid_t tid, os_blocked_t *at) {
  uint32_t own = (uint32_t)process_facts_own_pid(tid);
  if (!own || !note_call(c, tid, own, at)) return false;
  if (os_signal_process(c->pid, tid) == 0) return true;
  (void)shm_take_asked(c->recording->control->asked, own, at);
  return false;
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* Waits until the state is at least WANTED, or for TIMEOUT_NS; returns the state. */
static uint32_t wait_for(uint32_t wanted, uint64_t timeout_ns) {
  uint64_t until = os_monotonic_ns() + timeout_ns;
  for (;;) {
    uint32_t state = load_acquire(&exchange.map->state);
    uint64_t now = os_monotonic_ns();
    if (state >= wanted || now >= until) return state;
    (void)os_futex_wait_shared(&exchange.map->state, state, until - now);
  }
}

/* Signals threads until one responds; false if none does. It retries because all threads may block
 * signals for a short time: posix_spawn(3) does so until the child runs. */
static bool signal_program(const control_t *c) {
  const struct timespec moment = {.tv_nsec = 2000000};
  shm_control_t *s = c->recording->control;
  uint64_t until = os_monotonic_ns() + SIGNALS_NS;
  pid_t called[SIGNALS_MAX];
  s->leaks_fd = exchange.fd;
  store_release(&s->leaks_state, (uint32_t)LEAKS_REQUESTED);
  for (int calls = 0; calls < SIGNALS_MAX && os_monotonic_ns() < until;) {
    os_blocked_t at = {.call = -1};
    called[calls] = choose_thread(c->pid, called, calls, &at);
    if (!called[calls] || !ask(c, called[calls], &at)) {
      nanosleep(&moment, NULL);
      continue;
    }
    calls++;
    if (wait_for(LEAKS_ACCEPTED, SIGNAL_WAIT_NS) >= LEAKS_ACCEPTED) return true;
  }
  uint32_t requested = LEAKS_REQUESTED;
  if (cas_acq_rel(&s->leaks_state, &requested, 0u)) return false;
  return wait_for(LEAKS_ACCEPTED, TIMEOUT_NS) >= LEAKS_ACCEPTED;
}

/* Copies the table of live blocks while the program is paused. Returns a descriptor, -1 if no copy
 * is needed, or a negative status. */
static int copy_live(const control_t *c) {
  uint32_t held = LEAKS_STOPPED;
  int kept = -1;
  if (wait_for(LEAKS_STOPPED, TIMEOUT_NS) == LEAKS_STOPPED) {
    if (load_relaxed(&c->recording->control->mode) & RECORD_LIVE)
      kept = recording_copy_live(c->recording);
    if (cas_acq_rel(&exchange.map->state, &held, (uint32_t)LEAKS_RECORDED))
      (void)os_futex_wake_shared(&exchange.map->state, INT32_MAX);
  }
  return kept;
}

static bool refuse(FILE *reply, const char *text) {
  fputs(text, reply);
  end_exchange();
  return false;
}

/* ---- the copy ----------------------------------------------------------------------------- */

typedef struct keeper {
  control_t *control;
  int kept; /* as of copy_live */
} keeper_t;

static void *keep(void *context) {
  keeper_t *k = context;
  k->kept = copy_live(k->control);
  return NULL;
}

/* *KEPT: as of copy_live. False with a reason in REPLY. */
static bool copy_attached(control_t *c, int *kept, FILE *reply) {
  problem_t problem;
  monitor_thread_t thread;
  keeper_t keeper = {.control = c, .kept = -1};
  if (!monitor_thread_start(&thread, keep, &keeper)) return refuse(reply, "out of memory");
  bool good = attached_copy(c, exchange.fd, &exchange.attached_copy, &problem);
  if (!good) fail_exchange();
  monitor_thread_join(&thread);
  *kept = keeper.kept;
  return good || refuse(reply, problem.text);
}

static bool copy_signaled(const control_t *c, int *kept, FILE *reply) {
  if (!signal_program(c))
    return refuse(reply, "no thread of the program responded: all are stopped or block SIGURG, "
                         "or the program handles SIGURG");
  *kept = copy_live(c);
  bool copied = wait_for(LEAKS_COPIED, TIMEOUT_NS) == LEAKS_COPIED;
  if (exchange.map->copy_pid) add_copy((pid_t)exchange.map->copy_pid);
  return copied;
}

static bool copy(control_t *c, FILE *reply) {
  recording_t *r = c->recording;
  uint32_t mode = load_relaxed(&r->control->mode);
  if (load_acquire(&r->control->stop_reason) || r->header.state != RECORD_OPEN)
    return refuse(reply, "the recording of this program was stopped");
  if (!(mode & (RECORD_BLOCKS | RECORD_LIVE)))
    return refuse(reply, "not all blocks are recorded; start the program with 'sonde record "
                         "--malloc=live' or --malloc=all");
  if (!begin_exchange(c)) return refuse(reply, "out of memory");
  int kept = -1;
  bool copied = c->is_attached ? copy_attached(c, &kept, reply) : copy_signaled(c, &kept, reply);
  if (!exchange.map) return false; /* REPLY has the reason */
  if (copied && kept >= 0) copied = recording_snapshot_of_copy(r, kept, exchange.map->time) == 0;
  if (kept >= 0) close(kept);
  if (!copied) {
    int error = exchange.map->error;
    fprintf(reply, "cannot copy the process: %s",
            error < LEAKS_ERRNO ? strerror(LEAKS_ERRNO - error) : sonde_strerror(error));
    end_exchange();
    return false;
  }
  recording_refresh(r);
  fprintf(reply, "recorder %d\nexchange %d\nrecording %d\n", (int)getpid(), exchange.fd,
          r->file_fd);
  return true;
}

bool control_leaks(control_t *c, const char *argument, FILE *reply) {
  end_exchange();
  reap_copies();
  attached_reap(c, exchange.attached_copy);
  exchange.attached_copy = 0;
  if (!strcmp(argument, "end")) return true;
  if (!strcmp(argument, "copy") && load_relaxed(&c->recording->control->from_outside) &&
      !c->is_attached) {
    fprintf(reply, "the program has no agent: record it with 'sonde record -p %d --malloc'",
            (int)c->pid);
    return false;
  }
  if (!strcmp(argument, "copy")) return copy(c, reply);
  fprintf(reply, "leaks takes copy or end");
  return false;
}
