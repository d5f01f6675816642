/* SPDX-License-Identifier: MIT
 *
 * The threads of this process and their stacks: who is read in place, who is asked by signal, and
 * what is said of those that can be neither.
 *
 * A thread is first read where it is blocked (blocked.h). One that is running is asked (asked.h),
 * unless the caller forbids it, the thread blocks the signal, or it is in a state that no signal
 * ends. All threads are read before any is asked, and all questions of a round are sent before the
 * first answer is waited for.
 */
#include "sonde/thread.h"

#include <string.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/os.h"
#include "unwind/asked.h"
#include "unwind/blocked.h"
#include "unwind/capture.h"
#include "unwind/frames.h"

#define TIMEOUT_NS 1000000000u
#define LEAVING_NS 20000000u

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

static bool list_thread(pid_t tid, void *context) {
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

pid_t sonde_main_thread(void) { return os_pid(); }

pid_t sonde_thread_of_pthread(pthread_t thread) {
  pid_t tid = os_thread_of_handle((uint64_t)thread);
  if (tid < 0) return status_of(tid);
  return os_thread_alive(tid) ? tid : SONDE_ENOTHREAD;
}

/* ---- one thread ----------------------------------------------------------------------------- */

static int unavailable(sonde_capture_t *capture, int reason) {
  capture->count = 0;
  capture->mark = SONDE_UNAVAILABLE;
  capture->reason = reason;
  capture->flags = 0;
  return reason;
}

/* A thread that blocks the signal on its own account is let be: SONDE_EBLOCKED. One that was asked
 * before may be in the first or last instructions of our handler, where it blocks the signal as
 * well, and may have lost its CPU there: it is given time. */
static int check_block(int folder, pid_t tid, os_thread_t *thread, uint64_t deadline_ns) {
  static const uint32_t never_woken;
  uint64_t patience_ns = 0;
  while (os_blocks_question(thread)) {
    uint64_t now = os_monotonic_ns();
    if (asked_inside(tid)) return 0;
    if (!asked_before(tid)) return SONDE_EBLOCKED;
    if (now >= deadline_ns) return SONDE_ETIMEDOUT;
    if (patience_ns == 0) patience_ns = now + LEAVING_NS;
    if (now >= patience_ns) return SONDE_EBLOCKED;
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

/* Reads TID in place. Returns the count; 0 with *ASK set when it has to be asked; or a status. */
static int read_in_place(blocked_copy_t *copy, pid_t tid, sonde_capture_t *capture, unsigned flags,
                         uint64_t deadline_ns, bool *ask) {
  bool want_signal = flags & SONDE_SIGNAL_BLOCKED;
  int why = want_signal ? may_ask(copy->folder, tid, false, deadline_ns) : 0;
  *ask = want_signal && why == 0;
  if (*ask) return unavailable(capture, SONDE_ERUNNING);
  int r = blocked_capture(copy, tid, capture);
  if (r >= 0) return r;
  if (r == SONDE_EUNSUPPORTED) r = why_not_read(copy->folder, tid);
  if (r == SONDE_ERUNNING && !(flags & SONDE_NO_SIGNAL)) {
    if (!want_signal) why = may_ask(copy->folder, tid, true, deadline_ns);
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
  int slot = asked_send(tid, capture);
  int r = slot < 0 ? slot : asked_wait(slot, deadline_ns, capture);
  return r < 0 ? unavailable(capture, r) : r;
}

static int capture_other(pid_t tid, sonde_capture_t *capture,
                         const sonde_thread_options_t *options) {
  blocked_copy_t copy;
  bool ask;
  if (!os_thread_alive(tid)) return unavailable(capture, SONDE_ENOTHREAD);
  if (!frames_init() || !blocked_open(&copy)) return unavailable(capture, SONDE_ENOMEM);
  uint64_t deadline_ns = deadline_of(options);
  int r = read_in_place(&copy, tid, capture, options->flags, deadline_ns, &ask);
  blocked_close(&copy);
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

static bool collect_tid(pid_t tid, void *context) {
  sonde_all_t *all = context;
  if (all->total < all->max) {
    sonde_thread_stack_t *row = &all->threads[all->total];
    *row = (sonde_thread_stack_t){.thread = {.tid = tid}};
    row->stack.pcs = all->pcs + (size_t)all->total * (size_t)all->depth;
    row->stack.max = all->depth;
    all->count++;
  }
  all->total++;
  return true;
}

/* Marks a row whose thread is to be asked; no reader of a finished row ever sees it. */
#define TO_ASK (-1000)

static void read_all_in_place(sonde_all_t *all, blocked_copy_t *copy, pid_t own,
                              uint64_t deadline_ns) {
  for (int i = 0; i < all->count; i++) {
    sonde_thread_stack_t *row = &all->threads[i];
    bool ask = false;
    pid_t tid = row->thread.tid;
    if (!(all->options.flags & SONDE_NO_THREAD_NAMES))
      (void)read_thread(copy->folder, tid, &row->thread);
    if (tid == own) continue;
    if (os_monotonic_ns() >= deadline_ns)
      (void)unavailable(&row->stack, SONDE_ETIMEDOUT);
    else
      (void)read_in_place(copy, tid, &row->stack, all->options.flags, deadline_ns, &ask);
    if (ask) row->stack.reason = TO_ASK;
  }
}

/* One round: as many questions as there are slots, from row FIRST on. Returns the first row that it
 * did not come to. The answers are waited for from the last to the first: when the last one is
 * there, so are most others, and the asker has slept once. */
static int ask_round(sonde_all_t *all, int first, uint64_t deadline_ns) {
  struct {
    int row, slot;
  } sent[ASKED_SLOTS];
  int count = 0, row = first;
  for (; row < all->count && count < ASKED_SLOTS; row++) {
    sonde_capture_t *stack = &all->threads[row].stack;
    if (stack->reason != TO_ASK) continue;
    int slot = asked_send(all->threads[row].thread.tid, stack);
    if (slot == SONDE_EFULL && count > 0) break; /* another asker has them; ours come free soon */
    if (slot < 0)
      unavailable(stack, slot);
    else {
      sent[count].row = row;
      sent[count++].slot = slot;
    }
  }
  while (count-- > 0) {
    sonde_capture_t *stack = &all->threads[sent[count].row].stack;
    int r = asked_wait(sent[count].slot, deadline_ns, stack);
    if (r < 0) unavailable(stack, r);
  }
  return row;
}

__attribute__((used)) HIDDEN int capture_all_here(sonde_all_t *all, uint64_t pc, uint64_t sp,
                                                  uint64_t fp);
int capture_all_here(sonde_all_t *all, uint64_t pc, uint64_t sp, uint64_t fp) {
  blocked_copy_t copy;
  if (all == NULL || all->threads == NULL || all->pcs == NULL || all->max <= 0 || all->depth <= 0 ||
      !flags_are_known(all->options.flags))
    return SONDE_EINVAL;
  all->count = all->total = 0;
  uint64_t deadline_ns = deadline_of(&all->options);
  pid_t own = os_tid();
  if (!frames_init() || !blocked_open(&copy)) return SONDE_ENOMEM;
  copy.folder = os_threads_open();
  bool listed = copy.folder >= 0 && os_threads_list(copy.folder, collect_tid, all) == 0;
  if (listed) read_all_in_place(all, &copy, own, deadline_ns);
  if (copy.folder >= 0) os_close(copy.folder);
  blocked_close(&copy);
  if (!listed) return SONDE_EUNSUPPORTED;
  for (int i = 0; i < all->count; i++)
    if (all->threads[i].thread.tid == own) (void)capture_here(&all->threads[i].stack, pc, sp, fp);
  for (int next = 0; next < all->count;)
    next = ask_round(all, next, deadline_ns);
  return all->count;
}
ENTRY_1(sonde_capture_all, capture_all_here);
