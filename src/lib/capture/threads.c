/* SPDX-License-Identifier: MIT
 *
 * The threads of this process and their stacks. This file decides which thread is captured
 * passively, which one is signaled, and what is reported for the others.
 *
 * First, passive capture reads a thread that is blocked (capture/passive_capture.h). A running
 * thread is signaled (capture/signal_capture.h), unless the caller forbids it, the thread blocks
 * the signal, or the thread is in a state that no signal ends. A blocked thread is signaled too if
 * its passive stack ends at a register that the kernel does not report (a leaf whose caller is in
 * the link register) and its system call restarts transparently after the signal. If no stack
 * arrives, the passive one remains. When all threads are captured, signals are sent as soon as they
 * are needed and the stacks are collected at the end, so they arrive while other threads are read.
 */
#include "sonde/thread.h"

#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/os.h"
#include "capture/signal_capture.h"
#include "capture/passive_capture.h"
#include "capture/capture.h"
#include "capture/frame_table.h"

#define TIMEOUT_NS     1000000000u
#define LEAVING_NS     20000000u
#define LEAVING_CPU_NS 1000000

/* ---- lists ---------------------------------------------------------------------------------- */

typedef struct thread_list {
  sonde_thread_t *threads;
  pid_t *tids;
  /* NULL: any. */
  const char *name;
  int max, count;
} thread_list_t;

static int status_of(int os_error) {
  return os_error == -3 /* ESRCH */ ? SONDE_ENOTHREAD : SONDE_EUNSUPPORTED;
}

_Static_assert(OS_THREAD_NAME == sizeof((sonde_thread_t *)0)->name, "names are of one size");

static int read_thread(int folder, pid_t tid, sonde_thread_t *out) {
  os_thread_t thread;
  int r = os_thread_read(folder, tid, &thread);
  if (r != 0) return status_of(r);
  out->tid = tid;
  out->state = thread.state;
  memcpy(out->name, thread.name, sizeof out->name);
  return 0;
}

static bool same_name(const char *name, const char *requested) {
  for (int i = 0; i < OS_THREAD_NAME - 1; i++)
    if (name[i] != requested[i] || name[i] == '\0') return name[i] == requested[i];
  /* The kernel keeps no more bytes. */
  return true;
}

static bool list_thread(pid_t tid, uint64_t identity, void *context) {
  (void)identity;
  thread_list_t *l = context;
  sonde_thread_t thread;
  if (read_thread(-1, tid, &thread) != 0) return true;
  if (l->name != NULL && !same_name(thread.name, l->name)) return true;
  if (l->count < l->max && l->threads != NULL) l->threads[l->count] = thread;
  if (l->count < l->max && l->tids != NULL) l->tids[l->count] = tid;
  l->count++;
  return true;
}

int sonde_threads(sonde_thread_t *threads, int max) {
  thread_list_t l = {.threads = threads, .max = max};
  if (max < 0 || (threads == NULL && max > 0)) return SONDE_EINVAL;
  return os_threads(list_thread, &l) == 0 ? l.count : SONDE_EUNSUPPORTED;
}

int sonde_threads_named(const char *name, pid_t *tids, int max) {
  thread_list_t l = {.tids = tids, .name = name, .max = max};
  if (name == NULL || max < 0 || (tids == NULL && max > 0)) return SONDE_EINVAL;
  return os_threads(list_thread, &l) == 0 ? l.count : SONDE_EUNSUPPORTED;
}

int sonde_thread(pid_t tid, sonde_thread_t *thread) {
  if (tid <= 0 || thread == NULL) return SONDE_EINVAL;
  return read_thread(-1, tid, thread);
}

pid_t sonde_main_thread(void) { return os_main_thread(); }

static pid_t living(pid_t tid) {
  if (tid < 0) return status_of(tid);
  return os_thread_alive(tid) ? tid : SONDE_ENOTHREAD;
}

pid_t sonde_thread_of_pthread(pthread_t thread) {
  return living(os_thread_of_handle((uint64_t)thread));
}

pid_t sonde_thread_of_mach_port(uint32_t port) { return living(os_thread_of_port(port)); }

pid_t sonde_thread_of_nsthread(const void *thread) {
  int tid = thread ? os_thread_of_object((uint64_t)(uintptr_t)thread) : -22 /* EINVAL */;
  return tid == -22 ? SONDE_EINVAL : living(tid);
}

/* ---- one thread ----------------------------------------------------------------------------- */

static int unavailable(sonde_capture_t *capture, int reason) {
  capture->count = 0;
  capture->status = SONDE_STACK_UNAVAILABLE;
  capture->reason = reason;
  capture->flags = 0;
  return reason;
}

typedef struct thread_time {
  uint64_t at_ns;
  /* The thread's CPU time; negative: unknown. */
  int64_t cpu_ns;
} thread_time_t;

/* True if a thread that has blocked the signal since SINCE must have left sonde's handler by now. A
 * thread that only waits for a CPU has executed nothing, however long that takes. */
static bool must_have_left_handler(pid_t tid, char state, const thread_time_t *since,
                                   uint64_t now_ns) {
  if (now_ns - since->at_ns < LEAVING_NS) return false;
  return state != 'R' || since->cpu_ns < 0 ||
         os_thread_cpu_ns(tid) - since->cpu_ns >= LEAVING_CPU_NS;
}

/* Returns SONDE_EBLOCKED for a thread that blocks the signal itself; such a thread is never
 * signaled. A thread that was signaled before may be in the first or last instructions of sonde's
 * handler, where it blocks the signal too, and may have lost its CPU there. It gets time to leave.
 */
static int check_signal_mask(int folder, pid_t tid, os_thread_t *thread, uint64_t deadline_ns) {
  static const uint32_t never_woken;
  thread_time_t since = {0, 0};
  while (os_blocks_signal(thread)) {
    uint64_t now = os_monotonic_ns();
    if (signal_capture_in_handler(tid)) return 0;
    if (!signal_capture_was_requested(tid)) return SONDE_EBLOCKED;
    if (now >= deadline_ns) return SONDE_ETIMEDOUT;
    if (since.at_ns == 0) since = (thread_time_t){now, os_thread_cpu_ns(tid)};
    if (must_have_left_handler(tid, thread->state, &since, now)) return SONDE_EBLOCKED;
    (void)os_futex_wait(&never_woken, 0, LEAVING_NS / 64);
    int r = os_thread_read(folder, tid, thread);
    if (r != 0) return status_of(r);
  }
  return 0;
}

/* Returns 0 if the thread may be signaled. The signal mask is read as late as possible. If the
 * thread blocks the signal after that, the signal stays pending, and the handler later ignores it.
 */
static int may_signal(int folder, pid_t tid, bool running, uint64_t deadline_ns) {
  os_thread_t thread;
  os_blocked_t at;
  int r = os_thread_read(folder, tid, &thread);
  if (r != 0) return status_of(r);
  if (thread.state == 'Z' || thread.state == 'X') return SONDE_ENOTHREAD;
  r = check_signal_mask(folder, tid, &thread, deadline_ns);
  if (r != 0) return r;
  if (thread.state == 'D' || thread.state == 'T' || thread.state == 't')
    return SONDE_EUNINTERRUPTIBLE;
  if (running) return 0;
  if (os_thread_blocked(folder, tid, &at) == 0 && os_waits_for_signals(at.call))
    return SONDE_EBLOCKED;
  return 0;
}

/* If the system does not report where a thread is blocked, its state still shows whether it is. */
static int unreadable_reason(int folder, pid_t tid) {
  os_thread_t thread;
  int r = os_thread_read(folder, tid, &thread);
  if (r != 0) return status_of(r);
  switch (thread.state) {
  case 'R': return SONDE_ERUNNING;
  case 'Z':
  case 'X': return SONDE_ENOTHREAD;
  case 'D':
  case 'T':
  case 't': return SONDE_EUNINTERRUPTIBLE;
  default: return SONDE_EUNSUPPORTED;
  }
}

/* True if TID is to be signaled without a passive capture first. If the caller requested that, *WHY
 * is the reason why it is not possible. */
static bool signal_first(int folder, pid_t tid, sonde_capture_t *capture, unsigned flags,
                         uint64_t deadline_ns, int *why) {
  bool requested = flags & SONDE_SIGNAL_BLOCKED;
  *why = requested ? may_signal(folder, tid, false, deadline_ns) : 0;
  (void)unavailable(capture, *why);
  return requested && *why == 0;
}

/* True if a signal would complete a passive stack that ends at an unknown register, and the
 * thread's system call would restart transparently. */
static bool signal_completes(int folder, pid_t tid, const sonde_capture_t *read, unsigned flags,
                             uint64_t deadline_ns) {
  os_blocked_t at;
  if (read->status != SONDE_STACK_BROKEN || read->reason != SONDE_ENOTFOUND) return false;
  /* Signaled first, or never. */
  if (flags & (SONDE_NO_SIGNAL | SONDE_SIGNAL_BLOCKED)) return false;
  return may_signal(folder, tid, false, deadline_ns) == 0 &&
         os_thread_blocked(folder, tid, &at) == 0 && os_call_restarts(&at);
}

/* Decides by R, the result of passive_capture for TID. Returns the count, or sets *SIGNAL if the
 * thread must be signaled, or returns a status. WHY is from signal_first. */
static int decide(int folder, pid_t tid, sonde_capture_t *capture, unsigned flags,
                  uint64_t deadline_ns, int why, int r, bool *signal) {
  *signal = r >= 0 && signal_completes(folder, tid, capture, flags, deadline_ns);
  if (r >= 0) return r;
  if (r == SONDE_EUNSUPPORTED) r = unreadable_reason(folder, tid);
  if (r == SONDE_ERUNNING && !(flags & SONDE_NO_SIGNAL)) {
    if (!(flags & SONDE_SIGNAL_BLOCKED)) why = may_signal(folder, tid, true, deadline_ns);
    *signal = why == 0;
    if (why != 0) r = why;
  }
  return unavailable(capture, r);
}

static uint64_t deadline_of(const sonde_thread_options_t *options) {
  uint64_t timeout = options->timeout_ns != 0 ? options->timeout_ns : TIMEOUT_NS;
  uint64_t now = os_monotonic_ns();
  return timeout < UINT64_MAX - now ? now + timeout : UINT64_MAX;
}

static int signal_one(pid_t tid, sonde_capture_t *capture, uint64_t deadline_ns) {
  signal_request_t request;
  int r = signal_capture_send(tid, capture, &request);
  if (r == 0)
    signal_capture_collect(&request, 1, deadline_ns);
  else
    signal_capture_set_unavailable(capture, r);
  return capture->status == SONDE_STACK_UNAVAILABLE ? capture->reason : capture->count;
}

static int capture_other_thread(pid_t tid, sonde_capture_t *capture,
                                const sonde_thread_options_t *options) {
  passive_buffer_t copy;
  int r = 0, why;
  if (!os_thread_alive(tid)) return unavailable(capture, SONDE_ENOTHREAD);
  if (!frame_table_init() || !passive_open(&copy)) return unavailable(capture, SONDE_ENOMEM);
  uint64_t deadline_ns = deadline_of(options);
  bool signal = signal_first(copy.folder, tid, capture, options->flags, deadline_ns, &why);
  if (!signal) {
    r = passive_capture(&copy, tid, 0, capture);
    r = decide(copy.folder, tid, capture, options->flags, deadline_ns, why, r, &signal);
  }
  passive_close(&copy);
  return signal ? signal_one(tid, capture, deadline_ns) : r;
}

static bool flags_are_valid(unsigned flags) {
  bool both = (flags & SONDE_NO_SIGNAL) && (flags & SONDE_SIGNAL_BLOCKED);
  return !both && !(flags & ~(SONDE_NO_SIGNAL | SONDE_SIGNAL_BLOCKED | SONDE_NO_THREAD_NAMES));
}

static bool capture_is_valid(const sonde_capture_t *c) {
  return c != NULL && c->pcs != NULL && c->max > 0 && c->skip >= 0 && c->ucontext == NULL &&
         c->pc == 0 && c->sp == 0 && c->fp == 0;
}

__attribute__((used)) HIDDEN int capture_thread_here(pid_t tid, sonde_capture_t *capture,
                                                     const sonde_thread_options_t *options,
                                                     uint64_t pc, uint64_t sp, uint64_t fp);
int capture_thread_here(pid_t tid, sonde_capture_t *capture, const sonde_thread_options_t *options,
                        uint64_t pc, uint64_t sp, uint64_t fp) {
  static const sonde_thread_options_t none;
  if (options == NULL) options = &none;
  if (!capture_is_valid(capture) || tid <= 0 || !flags_are_valid(options->flags))
    return SONDE_EINVAL;
  if (tid == os_tid()) return capture_here(capture, pc, sp, fp);
  return capture_other_thread(tid, capture, options);
}
ENTRY_3(sonde_capture_thread, capture_thread_here);

__attribute__((used)) HIDDEN int stack_of_thread_here(pid_t tid, uintptr_t *pcs, int max,
                                                      uint64_t pc, uint64_t sp, uint64_t fp);
int stack_of_thread_here(pid_t tid, uintptr_t *pcs, int max, uint64_t pc, uint64_t sp,
                         uint64_t fp) {
  sonde_capture_t capture = {.pcs = pcs, .max = max};
  return capture_thread_here(tid, &capture, NULL, pc, sp, fp);
}
ENTRY_3(sonde_stack_of_thread, stack_of_thread_here);

/* ---- all threads ---------------------------------------------------------------------------- */

/* The identity is stored in a field of the caller's that is empty here, until the thread is read.
 */
static bool collect_tid(pid_t tid, uint64_t identity, void *context) {
  sonde_all_t *all = context;
  if (all->total < all->max) {
    sonde_thread_stack_t *row = &all->threads[all->total];
    *row = (sonde_thread_stack_t){.thread = {.tid = tid}};
    row->stack.pcs = all->pcs + (size_t)all->total * (size_t)all->depth;
    row->stack.max = all->depth;
    row->stack.pc = (uintptr_t)identity;
    all->count++;
  }
  all->total++;
  return true;
}

/* The state of one sonde_capture_all. */
typedef struct capture_all {
  passive_buffer_t copy;
  unsigned flags;
  uint64_t deadline_ns;
  /* Threads in GROUP, which will be read together. */
  int grouped;
  passive_t group[PASSIVE_GROUP];
  sonde_thread_stack_t *rows[PASSIVE_GROUP];
  int why[PASSIVE_GROUP];
  /* Pending requests. */
  int requests;
  signal_request_t sent[SIGNAL_CAPTURE_SLOTS];
} capture_all_t;

static void collect(capture_all_t *run) {
  signal_capture_collect(run->sent, run->requests, run->deadline_ns);
  run->requests = 0;
}

static void send_request(capture_all_t *run, sonde_thread_stack_t *row) {
  signal_request_t *request = &run->sent[run->requests];
  int r = signal_capture_send(row->thread.tid, &row->stack, request);
  /* This call's requests, or another requester's. */
  if (r == SONDE_EFULL && run->requests > 0) {
    collect(run);
    request = &run->sent[0];
    r = signal_capture_send(row->thread.tid, &row->stack, request);
  }
  if (r == 0)
    run->requests++;
  else
    signal_capture_set_unavailable(&row->stack, r);
  if (run->requests == SIGNAL_CAPTURE_SLOTS) collect(run);
}

static void read_group(capture_all_t *run) {
  bool signal;
  passive_capture_group(&run->copy, run->group, run->grouped);
  for (int i = 0; i < run->grouped; i++) {
    sonde_thread_stack_t *row = run->rows[i];
    (void)decide(run->copy.folder, row->thread.tid, &row->stack, run->flags, run->deadline_ns,
                 run->why[i], run->group[i].result, &signal);
    if (signal) send_request(run, row);
  }
  run->grouped = 0;
}

static void add_to_group(capture_all_t *run, sonde_thread_stack_t *row, uint64_t identity,
                         int why) {
  int i = run->grouped++;
  run->group[i] = (passive_t){.tid = row->thread.tid, .identity = identity, .capture = &row->stack};
  run->rows[i] = row;
  run->why[i] = why;
  if (run->grouped == PASSIVE_GROUP) read_group(run);
}

/* Captures each thread but the calling one. Requested stacks arrive while other threads are read.
 */
static void capture_others(sonde_all_t *all, capture_all_t *run, pid_t own) {
  for (int i = 0; i < all->count; i++) {
    sonde_thread_stack_t *row = &all->threads[i];
    pid_t tid = row->thread.tid;
    uint64_t identity = row->stack.pc;
    int why;
    row->stack.pc = 0;
    if (!(run->flags & SONDE_NO_THREAD_NAMES))
      (void)read_thread(run->copy.folder, tid, &row->thread);
    if (tid == own) continue;
    if (os_monotonic_ns() >= run->deadline_ns)
      (void)unavailable(&row->stack, SONDE_ETIMEDOUT);
    else if (signal_first(run->copy.folder, tid, &row->stack, run->flags, run->deadline_ns, &why))
      send_request(run, row);
    else
      add_to_group(run, row, identity, why);
  }
  read_group(run);
}

__attribute__((used)) HIDDEN int capture_all_here(sonde_all_t *all, uint64_t pc, uint64_t sp,
                                                  uint64_t fp);
int capture_all_here(sonde_all_t *all, uint64_t pc, uint64_t sp, uint64_t fp) {
  capture_all_t run;
  if (all == NULL || all->threads == NULL || all->pcs == NULL || all->max <= 0 || all->depth <= 0 ||
      !flags_are_valid(all->options.flags))
    return SONDE_EINVAL;
  all->count = all->total = run.requests = run.grouped = 0;
  run.flags = all->options.flags;
  run.deadline_ns = deadline_of(&all->options);
  pid_t own = os_tid();
  if (!frame_table_init() || !passive_open(&run.copy)) return SONDE_ENOMEM;
  int folder = os_threads_open();
  run.copy.folder = folder;
  bool listed = folder >= 0 && os_threads_list(folder, collect_tid, all) == 0;
  if (listed) capture_others(all, &run, own);
  if (folder >= 0) os_close(folder);
  passive_close(&run.copy);
  if (!listed) return SONDE_EUNSUPPORTED;
  for (int i = 0; i < all->count; i++)
    if (all->threads[i].thread.tid == own) (void)capture_here(&all->threads[i].stack, pc, sp, fp);
  collect(&run);
  return all->count;
}
ENTRY_1(sonde_capture_all, capture_all_here);
