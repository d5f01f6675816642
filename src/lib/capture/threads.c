/* SPDX-License-Identifier: MIT
 *
 * The threads of this process and their stacks: who is read in place, who is asked by signal, and
 * what is said of those that can be neither.
 *
 * A thread is first read where it is blocked (blocked.h). One that is running is asked (asked.h),
 * unless the caller forbids it, the thread blocks the signal, or it is in a state that no signal
 * ends. So is a blocked one whose stack in place ends for want of a register, as in a leaf whose
 * caller is in the link register alone, when its system call goes on by itself after the question;
 * what was read stays its stack when no answer comes. When all threads are wanted, questions are
 * sent as the need for them is found, and their answers collected at the end, so that they come
 * while other threads are read.
 */
#include "sonde/thread.h"

#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/os.h"
#include "capture/signal_capture.h"
#include "capture/passive_capture.h"
#include "capture/registers.h"
#include "capture/frame_table.h"

#define TIMEOUT_NS     1000000000u
#define LEAVING_NS     20000000u
#define LEAVING_CPU_NS 1000000

/* ---- lists ---------------------------------------------------------------------------------- */

typedef struct listing {
  sonde_thread_t *threads;
  pid_t *tids;
  const char *name; /* NULL: any */
  int max, count;
} listing_t;

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

static bool same_name(const char *name, const char *wanted) {
  for (int i = 0; i < OS_THREAD_NAME - 1; i++)
    if (name[i] != wanted[i] || name[i] == '\0') return name[i] == wanted[i];
  return true; /* the kernel keeps no more */
}

static bool list_thread(pid_t tid, uint64_t identity, void *context) {
  (void)identity;
  listing_t *l = context;
  sonde_thread_t thread;
  if (read_thread(-1, tid, &thread) != 0) return true;
  if (l->name != NULL && !same_name(thread.name, l->name)) return true;
  if (l->count < l->max && l->threads != NULL) l->threads[l->count] = thread;
  if (l->count < l->max && l->tids != NULL) l->tids[l->count] = tid;
  l->count++;
  return true;
}

int sonde_threads(sonde_thread_t *threads, int max) {
  listing_t l = {.threads = threads, .max = max};
  if (max < 0 || (threads == NULL && max > 0)) return SONDE_EINVAL;
  return os_threads(list_thread, &l) == 0 ? l.count : SONDE_EUNSUPPORTED;
}

int sonde_threads_named(const char *name, pid_t *tids, int max) {
  listing_t l = {.tids = tids, .name = name, .max = max};
  if (name == NULL || max < 0 || (tids == NULL && max > 0)) return SONDE_EINVAL;
  return os_threads(list_thread, &l) == 0 ? l.count : SONDE_EUNSUPPORTED;
}

int sonde_thread(pid_t tid, sonde_thread_t *thread) {
  if (tid <= 0 || thread == NULL) return SONDE_EINVAL;
  return read_thread(-1, tid, thread);
}

pid_t sonde_main_thread(void) { return os_main_thread(); }

pid_t sonde_thread_of_pthread(pthread_t thread) {
  pid_t tid = os_thread_of_handle((uint64_t)thread);
  if (tid < 0) return status_of(tid);
  return os_thread_alive(tid) ? tid : SONDE_ENOTHREAD;
}

/* ---- one thread ----------------------------------------------------------------------------- */

static int unavailable(sonde_capture_t *capture, int reason) {
  capture->count = 0;
  capture->status = SONDE_STACK_UNAVAILABLE;
  capture->reason = reason;
  capture->flags = 0;
  return reason;
}

typedef struct moment {
  uint64_t at_ns;
  int64_t cpu_ns; /* the thread's own time; negative: unknown */
} moment_t;

/* Whether a thread that has blocked the signal SINCE then would have left our handler by NOW. One
 * that only waits for a CPU has executed nothing, however long that takes. */
static bool would_have_left(pid_t tid, char state, const moment_t *since, uint64_t now_ns) {
  if (now_ns - since->at_ns < LEAVING_NS) return false;
  return state != 'R' || since->cpu_ns < 0 ||
         os_thread_cpu_ns(tid) - since->cpu_ns >= LEAVING_CPU_NS;
}

/* A thread that blocks the signal on its own account is let be: SONDE_EBLOCKED. One that was asked
 * before may be in the first or last instructions of our handler, where it blocks the signal as
 * well, and may have lost its CPU there: it is given time. */
static int check_block(int folder, pid_t tid, os_thread_t *thread, uint64_t deadline_ns) {
  static const uint32_t never_woken;
  moment_t since = {0, 0};
  while (os_blocks_signal(thread)) {
    uint64_t now = os_monotonic_ns();
    if (signal_capture_inside(tid)) return 0;
    if (!signal_capture_before(tid)) return SONDE_EBLOCKED;
    if (now >= deadline_ns) return SONDE_ETIMEDOUT;
    if (since.at_ns == 0) since = (moment_t){now, os_thread_cpu_ns(tid)};
    if (would_have_left(tid, thread->state, &since, now)) return SONDE_EBLOCKED;
    (void)os_futex_wait(&never_woken, 0, LEAVING_NS / 64);
    int r = os_thread_read(folder, tid, thread);
    if (r != 0) return status_of(r);
  }
  return 0;
}

/* 0 when the thread may be sent the signal. What it blocks is looked at as late as can be; between
 * this look and the signal it may change its mind, and then the signal waits, and is ignored. */
static int may_ask(int folder, pid_t tid, bool running, uint64_t deadline_ns) {
  os_thread_t thread;
  os_blocked_t at;
  int r = os_thread_read(folder, tid, &thread);
  if (r != 0) return status_of(r);
  if (thread.state == 'Z' || thread.state == 'X') return SONDE_ENOTHREAD;
  r = check_block(folder, tid, &thread, deadline_ns);
  if (r != 0) return r;
  if (thread.state == 'D' || thread.state == 'T' || thread.state == 't')
    return SONDE_EUNINTERRUPTIBLE;
  if (running) return 0;
  if (os_thread_blocked(folder, tid, &at) == 0 && os_waits_for_signals(at.call))
    return SONDE_EBLOCKED;
  return 0;
}

/* Where the system does not tell where a thread is blocked, its state still tells whether it is. */
static int why_not_read(int folder, pid_t tid) {
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

/* Whether TID is to be asked without being read first. *WHY says why not, if it was wanted. */
static bool ask_at_once(int folder, pid_t tid, sonde_capture_t *capture, unsigned flags,
                        uint64_t deadline_ns, int *why) {
  bool wanted = flags & SONDE_SIGNAL_BLOCKED;
  *why = wanted ? may_ask(folder, tid, false, deadline_ns) : 0;
  (void)unavailable(capture, *why);
  return wanted && *why == 0;
}

/* Whether a thread that was read as far as its registers were known would tell the rest, and go on
 * with its call as if nobody had asked. */
static bool tells_more(int folder, pid_t tid, const sonde_capture_t *read, unsigned flags,
                       uint64_t deadline_ns) {
  os_blocked_t at;
  if (read->status != SONDE_STACK_BROKEN || read->reason != SONDE_ENOTFOUND) return false;
  if (flags & (SONDE_NO_SIGNAL | SONDE_SIGNAL_BLOCKED)) return false; /* asked at once, or never */
  return may_ask(folder, tid, false, deadline_ns) == 0 &&
         os_thread_blocked(folder, tid, &at) == 0 && os_call_restarts(&at);
}

/* What follows from R, passive_capture's answer for TID: returns the count; or true in *ASK when
 * the thread has to be asked; or a status. WHY is ask_at_once's. */
static int settle(int folder, pid_t tid, sonde_capture_t *capture, unsigned flags,
                  uint64_t deadline_ns, int why, int r, bool *ask) {
  *ask = r >= 0 && tells_more(folder, tid, capture, flags, deadline_ns);
  if (r >= 0) return r;
  if (r == SONDE_EUNSUPPORTED) r = why_not_read(folder, tid);
  if (r == SONDE_ERUNNING && !(flags & SONDE_NO_SIGNAL)) {
    if (!(flags & SONDE_SIGNAL_BLOCKED)) why = may_ask(folder, tid, true, deadline_ns);
    *ask = why == 0;
    if (why != 0) r = why;
  }
  return unavailable(capture, r);
}

static uint64_t deadline_of(const sonde_thread_options_t *options) {
  uint64_t timeout = options->timeout_ns != 0 ? options->timeout_ns : TIMEOUT_NS;
  uint64_t now = os_monotonic_ns();
  return timeout < UINT64_MAX - now ? now + timeout : UINT64_MAX;
}

static int ask_one(pid_t tid, sonde_capture_t *capture, uint64_t deadline_ns) {
  signal_capture_t question;
  int r = signal_capture_send(tid, capture, &question);
  if (r == 0)
    signal_capture_collect(&question, 1, deadline_ns);
  else
    signal_capture_without_answer(capture, r);
  return capture->status == SONDE_STACK_UNAVAILABLE ? capture->reason : capture->count;
}

static int capture_other(pid_t tid, sonde_capture_t *capture,
                         const sonde_thread_options_t *options) {
  passive_buffer_t copy;
  int r = 0, why;
  if (!os_thread_alive(tid)) return unavailable(capture, SONDE_ENOTHREAD);
  if (!frame_table_init() || !passive_open(&copy)) return unavailable(capture, SONDE_ENOMEM);
  uint64_t deadline_ns = deadline_of(options);
  bool ask = ask_at_once(copy.folder, tid, capture, options->flags, deadline_ns, &why);
  if (!ask) {
    r = passive_capture(&copy, tid, 0, capture);
    r = settle(copy.folder, tid, capture, options->flags, deadline_ns, why, r, &ask);
  }
  passive_close(&copy);
  return ask ? ask_one(tid, capture, deadline_ns) : r;
}

static bool flags_are_known(unsigned flags) {
  bool both = (flags & SONDE_NO_SIGNAL) && (flags & SONDE_SIGNAL_BLOCKED);
  return !both && !(flags & ~(SONDE_NO_SIGNAL | SONDE_SIGNAL_BLOCKED | SONDE_NO_THREAD_NAMES));
}

static bool capture_is_plain(const sonde_capture_t *c) {
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
  if (!capture_is_plain(capture) || tid <= 0 || !flags_are_known(options->flags))
    return SONDE_EINVAL;
  if (tid == os_tid()) return capture_here(capture, pc, sp, fp);
  return capture_other(tid, capture, options);
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

/* The identity waits in a field that is the callers', and empty here, until the thread is read. */
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

/* What a look at all threads needs besides the answer. */
typedef struct round {
  passive_buffer_t copy;
  unsigned flags;
  uint64_t deadline_ns;
  int grouped; /* about to be read in place */
  passive_t group[PASSIVE_GROUP];
  sonde_thread_stack_t *rows[PASSIVE_GROUP];
  int why[PASSIVE_GROUP];
  int questions; /* under way */
  signal_capture_t asked[SIGNAL_CAPTURE_SLOTS];
} round_t;

static void collect(round_t *round) {
  signal_capture_collect(round->asked, round->questions, round->deadline_ns);
  round->questions = 0;
}

static void ask_later_collect(round_t *round, sonde_thread_stack_t *row) {
  signal_capture_t *question = &round->asked[round->questions];
  int r = signal_capture_send(row->thread.tid, &row->stack, question);
  if (r == SONDE_EFULL && round->questions > 0) { /* ours, or another asker's */
    collect(round);
    question = &round->asked[0];
    r = signal_capture_send(row->thread.tid, &row->stack, question);
  }
  if (r == 0)
    round->questions++;
  else
    signal_capture_without_answer(&row->stack, r);
  if (round->questions == SIGNAL_CAPTURE_SLOTS) collect(round);
}

static void read_group(round_t *round) {
  bool ask;
  passive_capture_group(&round->copy, round->group, round->grouped);
  for (int i = 0; i < round->grouped; i++) {
    sonde_thread_stack_t *row = round->rows[i];
    (void)settle(round->copy.folder, row->thread.tid, &row->stack, round->flags, round->deadline_ns,
                 round->why[i], round->group[i].result, &ask);
    if (ask) ask_later_collect(round, row);
  }
  round->grouped = 0;
}

static void read_later(round_t *round, sonde_thread_stack_t *row, uint64_t identity, int why) {
  int i = round->grouped++;
  round->group[i] =
      (passive_t){.tid = row->thread.tid, .identity = identity, .capture = &row->stack};
  round->rows[i] = row;
  round->why[i] = why;
  if (round->grouped == PASSIVE_GROUP) read_group(round);
}

/* Reads or asks each thread but our own. Answers come while others are read. */
static void capture_others(sonde_all_t *all, round_t *round, pid_t own) {
  for (int i = 0; i < all->count; i++) {
    sonde_thread_stack_t *row = &all->threads[i];
    pid_t tid = row->thread.tid;
    uint64_t identity = row->stack.pc;
    int why;
    row->stack.pc = 0;
    if (!(round->flags & SONDE_NO_THREAD_NAMES))
      (void)read_thread(round->copy.folder, tid, &row->thread);
    if (tid == own) continue;
    if (os_monotonic_ns() >= round->deadline_ns)
      (void)unavailable(&row->stack, SONDE_ETIMEDOUT);
    else if (ask_at_once(round->copy.folder, tid, &row->stack, round->flags, round->deadline_ns,
                         &why))
      ask_later_collect(round, row);
    else
      read_later(round, row, identity, why);
  }
  read_group(round);
}

__attribute__((used)) HIDDEN int capture_all_here(sonde_all_t *all, uint64_t pc, uint64_t sp,
                                                  uint64_t fp);
int capture_all_here(sonde_all_t *all, uint64_t pc, uint64_t sp, uint64_t fp) {
  round_t round;
  if (all == NULL || all->threads == NULL || all->pcs == NULL || all->max <= 0 || all->depth <= 0 ||
      !flags_are_known(all->options.flags))
    return SONDE_EINVAL;
  all->count = all->total = round.questions = round.grouped = 0;
  round.flags = all->options.flags;
  round.deadline_ns = deadline_of(&all->options);
  pid_t own = os_tid();
  if (!frame_table_init() || !passive_open(&round.copy)) return SONDE_ENOMEM;
  int folder = os_threads_open();
  round.copy.folder = folder;
  bool listed = folder >= 0 && os_threads_list(folder, collect_tid, all) == 0;
  if (listed) capture_others(all, &round, own);
  if (folder >= 0) os_close(folder);
  passive_close(&round.copy);
  if (!listed) return SONDE_EUNSUPPORTED;
  for (int i = 0; i < all->count; i++)
    if (all->threads[i].thread.tid == own) (void)capture_here(&all->threads[i].stack, pc, sp, fp);
  collect(&round);
  return all->count;
}
ENTRY_1(sonde_capture_all, capture_all_here);
