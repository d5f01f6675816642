/* SPDX-License-Identifier: MIT
 *
 * The recorder's part in a look at the memory graph (record/leaks.h): it makes the exchange, calls
 * the program, and, where only what is live is recorded, sets that aside while the program is held.
 * The exchange is left to whoever asked, until he says that he is done, or another one asks.
 *
 * The thread that is called is chosen so that the call is not felt: one that runs, or else one that
 * is blocked in a call that goes on after a signal. Where there is none, one call ends with EINTR.
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
#include "recorder/monitor/thread_file.h"
#include "os/os.h"
#include "record/leaks.h"
#include "sonde/status.h"

#define EXCHANGE_BYTES (UINT64_C(4) << 30) /* of addresses; memory where it is used */
#define CALL_NS        UINT64_C(300000000) /* for a thread to come, before another one is called */
#define CALLS          4
#define CALLING_NS     UINT64_C(1500000000)
#define REAP_MS        20
#define COPIES         16
#define PATIENCE_NS    UINT64_C(10000000000)

static struct {
  int fd; /* 0: there is none */
  leaks_exchange_t *map;
  pid_t copies[COPIES]; /* not yet reaped; 0: a free place */
} exchange;

static void end_exchange(void) {
  if (exchange.map) {
    if (load_acquire(&exchange.map->state) < LEAKS_READY) {
      store_release(&exchange.map->state, (uint32_t)LEAKS_FAILED);
      (void)os_futex_wake_shared(&exchange.map->state, INT32_MAX);
    }
    munmap(exchange.map, sizeof *exchange.map);
  }
  if (exchange.fd > 0) close(exchange.fd);
  exchange.fd = 0;
  exchange.map = NULL;
}

static void remember(pid_t copy) {
  for (int i = 0; i < COPIES; i++)
    if (!exchange.copies[i]) {
      exchange.copies[i] = copy;
      return;
    }
}

/* Copies of our own child are our children (clone(2), CLONE_PARENT); of a child of its, its. One
 * that has answered ends at once; another ends when it sees that nobody wants it. */
static void reap(void) {
  const struct timespec moment = {.tv_nsec = 1000000};
  for (int i = 0; i < COPIES; i++) {
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

/* ---- whom to call ------------------------------------------------------------------------- */

/* How much a signal would be felt: 0 not at all; negative: it must not be sent. *AT is where the
 * thread is blocked. */
static int burden_of(pid_t pid, pid_t tid, os_blocked_t *at) {
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
  /* What stands behind a descriptor is not ours to look at from here. */
  if (at->call < 0 || os_call_restarts(at)) return 1;
  if (os_call_resumes(at)) return 2;
  return os_waits_for_signals(at->call) ? -1 : 3;
}

/* The thread to call after those that did not come; what it is blocked in goes to the exchange. */
static pid_t choose(pid_t pid, const pid_t *called, int calls) {
  char path[40];
  pid_t best = 0;
  int least = 5;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *folder = opendir(path);
  for (struct dirent *e; folder && (e = readdir(folder));) {
    pid_t tid = (pid_t)atoi(e->d_name);
    os_blocked_t at = {.call = -1};
    int burden = tid > 0 ? burden_of(pid, tid, &at) : -1;
    for (int i = 0; i < calls; i++)
      if (called[i] == tid) burden = -1;
    if (burden < 0 || burden >= least) continue;
    least = burden;
    best = tid;
    leaks_exchange_t *x = exchange.map;
    x->called = (uint32_t)tid;
    x->call = at.call;
    x->call_sp = at.sp;
    x->call_pc = at.pc;
    memcpy(x->call_arguments, at.arguments, sizeof x->call_arguments);
  }
  if (folder) closedir(folder);
  return best;
}

/* ---- waiting ------------------------------------------------------------------------------ */

/* Until the state is at least WANTED, or the time is over; returns the state. */
static uint32_t wait_for(uint32_t wanted, uint64_t patience_ns) {
  uint64_t until = os_monotonic_ns() + patience_ns;
  for (;;) {
    uint32_t state = load_acquire(&exchange.map->state);
    uint64_t now = os_monotonic_ns();
    if (state >= wanted || now >= until) return state;
    (void)os_futex_wait_shared(&exchange.map->state, state, until - now);
  }
}

/* Nobody may be there to be called at one moment, and at the next: posix_spawn(3) blocks all
 * signals until the child runs. False when nobody came. */
static bool call_program(const control_t *c) {
  const struct timespec moment = {.tv_nsec = 2000000};
  shm_control_t *s = c->recording->control;
  uint64_t until = os_monotonic_ns() + CALLING_NS;
  pid_t called[CALLS];
  s->leaks_fd = exchange.fd;
  store_release(&s->leaks_state, (uint32_t)LEAKS_REQUESTED);
  for (int calls = 0; calls < CALLS && os_monotonic_ns() < until;) {
    called[calls] = choose(c->pid, called, calls);
    if (!called[calls] || os_signal_process(c->pid, called[calls]) != 0) {
      nanosleep(&moment, NULL);
      continue;
    }
    calls++;
    if (wait_for(LEAKS_ACCEPTED, CALL_NS) >= LEAKS_ACCEPTED) return true;
  }
  uint32_t asked = LEAKS_REQUESTED;
  if (cas_acq_rel(&s->leaks_state, &asked, 0u)) return false;
  return wait_for(LEAKS_ACCEPTED, PATIENCE_NS) >= LEAKS_ACCEPTED;
}

/* Sets aside what is live while the program is held. A descriptor, -1 where there is no need, or a
 * negative status. */
static int keep(const control_t *c) {
  uint32_t held = LEAKS_STOPPED;
  int kept = -1;
  if (wait_for(LEAKS_STOPPED, PATIENCE_NS) == LEAKS_STOPPED) {
    if (load_relaxed(&c->recording->control->mode) & RECORD_LIVE)
      kept = recording_copy_live(c->recording);
    if (cas_acq_rel(&exchange.map->state, &held, (uint32_t)LEAKS_RECORDED))
      (void)os_futex_wake_shared(&exchange.map->state, INT32_MAX);
  }
  return kept;
}

static bool refuse(FILE *answer, const char *text) {
  fputs(text, answer);
  end_exchange();
  return false;
}

static bool copy(const control_t *c, FILE *answer) {
  recording_t *r = c->recording;
  uint32_t mode = load_relaxed(&r->control->mode);
  if (load_acquire(&r->control->stop_reason) || r->header.state != RECORD_OPEN)
    return refuse(answer, "the recording of this program was stopped");
  if (!(mode & (RECORD_BLOCKS | RECORD_LIVE)))
    return refuse(answer, "blocks are not recorded, or only some: 'sonde record --malloc=live' or "
                          "--malloc=all, from the program's start");
  if (!begin_exchange(c)) return refuse(answer, "there is no memory");
  if (!call_program(c))
    return refuse(answer, "no thread of the program came: all are stopped, block SIGURG, or the "
                          "program handles that signal itself");
  int kept = keep(c);
  bool copied = wait_for(LEAKS_COPIED, PATIENCE_NS) == LEAKS_COPIED;
  if (exchange.map->copy_pid) remember((pid_t)exchange.map->copy_pid);
  if (copied && kept >= 0) copied = recording_snapshot_of_copy(r, kept, exchange.map->time) == 0;
  if (kept >= 0) close(kept);
  if (!copied) {
    int error = exchange.map->error;
    fprintf(answer, "the process could not be copied: %s",
            error < LEAKS_ERRNO ? strerror(LEAKS_ERRNO - error) : sonde_strerror(error));
    end_exchange();
    return false;
  }
  recording_refresh(r);
  fprintf(answer, "recorder %d\nexchange %d\nrecording %d\n", (int)getpid(), exchange.fd,
          r->file_fd);
  return true;
}

bool control_leaks(control_t *c, const char *argument, FILE *answer) {
  end_exchange();
  reap();
  if (!strcmp(argument, "end")) return true;
  if (!strcmp(argument, "copy")) return copy(c, answer);
  fprintf(answer, "leaks takes copy or end");
  return false;
}
