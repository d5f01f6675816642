/* SPDX-License-Identifier: MIT
 *
 * Requests to a running thread by signal, and ticks of CPU time.
 *
 * The signal is SIGURG. Its default action is to ignore it, so a signal that arrives late, or after
 * an execve, does no harm; and programs rarely use it. A signal of sonde carries a cookie
 * (rt_tgsigqueueinfo(2)) and is sent to one thread. Every other SIGURG is passed to the handler
 * that the program had installed, under the signal mask that the program requested.
 *
 * The handler is installed at the first request and stays installed: removing it could lose a
 * pending signal. If the program installs its own handler later, the next request notices that and
 * installs sonde's handler in front of it again. The program's handler may call the handler that it
 * replaced, which was sonde's. Therefore each installation uses a handler function of its own with
 * its own predecessor, and passing a signal on always leads to an older handler. There are eight
 * such functions; those whose predecessor is the default action, or to ignore the signal, are used
 * again. If the program installs handlers more often, requests fail with -EBUSY.
 *
 * While sonde's handler runs, no other handler may run and jump out of it: the jump would leave an
 * interrupted record, answer or lock half done. So all signals except faults are blocked, and the
 * work runs on a handler stack (stack/handler_stack.c).
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/linux/calls/call.h"
#include "os/linux/internal.h"
#include "os/linux/restore.h"
#include "os/os.h"

#define REQUEST_SIGNAL SIGURG
#define COOKIE         0x736f6e64652d6173u /* marks a signal of this process */
#define FOREIGN        (COOKIE + 1)        /* marks a request of another process */
#define GENERATIONS    8u

#define BIT(signal) ((uint64_t)1 << ((signal)-1))
#define FAULTS                                                                                     \
  (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGILL) | BIT(SIGFPE) | BIT(SIGTRAP) | BIT(SIGSYS) |           \
   BIT(SIGABRT))

typedef linux_action_t action_t;

/* siginfo_t as the kernel defines it for rt_tgsigqueueinfo. */
typedef struct signal_info {
  int32_t number, error, code, padding;
  int32_t pid;
  uint32_t uid;
  uint64_t value;
  uint8_t rest[96];
} signal_info_t;
_Static_assert(sizeof(signal_info_t) == 128, "siginfo_t has 128 bytes");

static os_signaled_t *on_request, *on_foreign_request;
static os_ticked_t *on_tick;

/* The action that each generation replaced. The second record is used if the program replaced the
 * handler between the read of the action and its change. */
static action_t found[GENERATIONS][2];
static const action_t *previous[GENERATIONS];
static uint32_t generations_used;
static uint32_t is_prepared; /* and not retired */

/* The first instruction of the function that the program's handler made a thread call; 0: none. Go
 * preempts goroutines so, by SIGURG. A signal of sonde that waited meanwhile arrives at that
 * instruction, before the function did anything. It belongs to the code that was interrupted:
 * otherwise two in five samples of a Go program on a busy machine show runtime.asyncPreempt. */
static uint64_t called_by_handler;

static void note_call(arch_frame_t before, const void *context) {
  const arch_frame_t after = arch_context_frame(context);
  if (after.pc != before.pc && after.sp == before.sp - ARCH_PUSHED_BYTES)
    store_relaxed(&called_by_handler, after.pc);
}

/* Finds the frame that was interrupted before ENTRY. False: ENTRY is no such call. */
static bool find_interrupted(arch_frame_t entry, arch_frame_t *out) {
  uint64_t slot;
  if (entry.pc != load_relaxed(&called_by_handler) ||
      os_read_memory(entry.sp, &slot, sizeof slot) != sizeof slot)
    return false;
  *out = arch_frame_interrupted(entry, slot);
  return true;
}

static void pass_on(unsigned generation, int number, signal_info_t *info, void *context) {
  const action_t *action = load_acquire(&previous[generation]);
  if (action == NULL || action->handler <= 1) return;
  uint64_t handler = action->handler;
  if (action->flags & SA_RESETHAND) store_release(&previous[generation], NULL);
  /* Sets the mask that the kernel would have set. The return from this handler restores it. */
  uint64_t mask;
  memcpy(&mask, &((const ucontext_t *)context)->uc_sigmask, sizeof mask);
  mask |= action->mask;
  if (!(action->flags & SA_NODEFER)) mask |= BIT(REQUEST_SIGNAL);
  (void)call4(rt_sigprocmask, SIG_SETMASK, &mask, NULL, 8);
  const arch_frame_t before = arch_context_frame(context);
  if (action->flags & SA_SIGINFO)
    ((void (*)(int, signal_info_t *, void *))(uintptr_t)handler)(number, info, context);
  else
    ((void (*)(int))(uintptr_t)handler)(number);
  note_call(before, context);
}

/* The work that a signal of sonde requests. */
typedef struct task {
  os_signaled_t *signaled; /* NULL: it is a tick */
  os_ticked_t *ticked;     /* NULL: it is a request */
  const void *context;
  uint32_t missed;
} task_t;

static void do_task(void *argument) {
  const task_t *task = argument;
  if (task->ticked)
    task->ticked(task->context, task->missed);
  else
    task->signaled(task->context);
}

static void handle(unsigned generation, int number, signal_info_t *info, void *context) {
  task_t task = {.context = context, .missed = info->uid}; /* si_overrun of a timer's signal */
  bool queued = info->code == SI_QUEUE, timer = info->code == SI_TIMER;
  if (queued && info->value == COOKIE)
    task.signaled = load_acquire(&on_request);
  else if ((queued || timer) && info->value == FOREIGN)
    task.signaled = load_acquire(&on_foreign_request);
  else if (timer && info->value == COOKIE)
    task.ticked = load_acquire(&on_tick);
  if (!task.signaled && !task.ticked) {
    pass_on(generation, number, info, context);
    return;
  }
  arch_frame_t entry = arch_context_frame(context), interrupted;
  bool is_called = find_interrupted(entry, &interrupted);
  if (is_called) arch_context_set_frame(context, interrupted);
  os_run_on_handler_stack(do_task, &task);
  if (is_called) arch_context_set_frame(context, entry);
}

#define HANDLER(n)                                                                                 \
  static void handler_##n(int number, signal_info_t *info, void *context) {                        \
    handle(n, number, info, context);                                                              \
  }
HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)
HANDLER(4)
HANDLER(5)
HANDLER(6)
HANDLER(7)

static void (*const handlers[GENERATIONS])(int, signal_info_t *, void *) = {
    handler_0, handler_1, handler_2, handler_3, handler_4, handler_5, handler_6, handler_7};

/* The generation whose function HANDLER is; GENERATIONS: none. */
static uint32_t generation_of(uint64_t handler) {
  uint32_t i = 0;
  while (i < GENERATIONS && handler != (uint64_t)(uintptr_t)handlers[i])
    i++;
  return i;
}

static bool is_handler_of_sonde(uint64_t handler) { return generation_of(handler) < GENERATIONS; }

bool linux_signal_replaced(uint64_t handler, linux_action_t *theirs) {
  uint32_t generation = generation_of(handler);
  if (generation == GENERATIONS) return false;
  const action_t *before = load_acquire(&previous[generation]);
  *theirs = before ? *before : (action_t){0};
  return true;
}

static int change_action(const action_t *to, action_t *from) {
  return (int)call4(rt_sigaction, REQUEST_SIGNAL, to, from, 8);
}

/* Sonde's handler uses the same stack and the same restart flag as the program's handler THEIRS.
 * The program's mask is set when its handler is called; sonde's mask blocks all but faults. */
static action_t in_front_of(const action_t *theirs, unsigned generation) {
  bool real = theirs->handler > 1;
  uint64_t inherited = SA_RESTART | SA_ONSTACK;
  return (action_t){
      .handler = (uint64_t)(uintptr_t)handlers[generation],
      .flags = SA_SIGINFO | SA_RESTORER_FLAG |
               (real ? theirs->flags & inherited : (uint64_t)(SA_RESTART | SA_ONSTACK)),
      .restorer = RESTORER,
      .mask = ~FAULTS,
  };
}

/* A generation whose predecessor is NOW, which has no handler; GENERATIONS: there is none. */
static uint32_t used_before(const action_t *now) {
  uint32_t i = 0;
  for (; now->handler <= 1 && i < GENERATIONS; i++) {
    const action_t *before = load_acquire(&previous[i]);
    if (before == &found[i][0] && memcmp(before, now, sizeof *now) == 0) return i;
  }
  return GENERATIONS;
}

/* A generation whose predecessor is NOW; GENERATIONS: none is left. */
static uint32_t generation_for(const action_t *now) {
  uint32_t generation = used_before(now);
  if (generation < GENERATIONS) return generation;
  generation = load_relaxed(&generations_used);
  do {
    if (generation >= GENERATIONS) return GENERATIONS;
  } while (!cas_acq_rel(&generations_used, &generation, generation + 1));
  found[generation][0] = *now;
  store_release(&previous[generation], &found[generation][0]);
  return generation;
}

static int install(void) {
  action_t now, replaced;
  int r = change_action(NULL, &now);
  if (r != 0 || is_handler_of_sonde(now.handler)) return r;
  uint32_t generation = generation_for(&now);
  if (generation == GENERATIONS) return -EBUSY;
  action_t action = in_front_of(&now, generation);
  r = change_action(&action, &replaced);
  if (r == 0 && replaced.handler != now.handler && !is_handler_of_sonde(replaced.handler)) {
    found[generation][1] = replaced;
    store_release(&previous[generation], &found[generation][1]);
  }
  return r;
}

static int prepare(void) {
  store_relaxed(&is_prepared, 1u);
  return install();
}

bool linux_signal_restarts(void) {
  action_t now;
  return change_action(NULL, &now) == 0 && (now.handler <= 1 || now.flags & SA_RESTART);
}

void linux_signal_was_set(void) {
  if (load_relaxed(&is_prepared) && linux_signal_restarts()) (void)install();
}

int os_signal_prepare(os_signaled_t *signaled) {
  store_release(&on_request, signaled);
  return prepare();
}

int os_signal_prepare_for_others(os_signaled_t *signaled) {
  store_release(&on_foreign_request, signaled);
  return prepare();
}

int os_tick_prepare(os_ticked_t *ticked) {
  store_release(&on_tick, ticked);
  return prepare();
}

void os_signal_retire(void) {
  action_t now;
  store_relaxed(&is_prepared, 0u);
  if (change_action(NULL, &now) != 0) return;
  for (unsigned i = 0; i < GENERATIONS; i++) {
    if (now.handler != (uint64_t)(uintptr_t)handlers[i]) continue;
    const action_t *before = load_acquire(&previous[i]), none = {0};
    (void)change_action(before ? before : &none, NULL);
  }
}

/* Starts a timer on the CPU clock of the thread TID (linux/posix-timers_types.h: ~tid << 3 |
 * PERTHREAD | SCHED). */
static int start_timer(pid_t tid, uint64_t first_ns, uint64_t interval_ns, uint64_t cookie) {
  struct {
    uint64_t value;
    int32_t signal, notify, tid;
    int32_t rest[11];
  } event = {
      .value = cookie, .signal = REQUEST_SIGNAL, .notify = 4 /* SIGEV_THREAD_ID */, .tid = tid};
  const int64_t second = 1000000000;
  int64_t times[4] = {(int64_t)interval_ns / second, (int64_t)interval_ns % second,
                      (int64_t)first_ns / second, (int64_t)first_ns % second};
  int32_t timer = -1;
  int r = (int)call3(timer_create, (int32_t)((uint32_t)~tid << 3 | 6), &event, &timer);
  if (r < 0) return r;
  r = (int)call4(timer_settime, timer, 0, times, NULL);
  if (r == 0) return timer;
  os_tick_stop(timer);
  return r;
}

int os_tick_start(pid_t tid, uint64_t first_ns, uint64_t interval_ns) {
  return start_timer(tid, first_ns, interval_ns, COOKIE);
}

int os_signal_thread_after(pid_t tid, uint64_t cpu_ns) {
  return start_timer(tid, cpu_ns, 0, FOREIGN);
}

void os_tick_stop(int timer) { (void)call1(timer_delete, timer); }

int os_signal_thread(pid_t tid) {
  pid_t pid = os_pid();
  signal_info_t info = {.number = REQUEST_SIGNAL, .code = SI_QUEUE, .pid = pid, .value = COOKIE};
  return (int)call4(rt_tgsigqueueinfo, pid, tid, REQUEST_SIGNAL, &info);
}

int os_signal_process(pid_t pid, pid_t tid) {
  signal_info_t info = {.number = REQUEST_SIGNAL, .code = SI_QUEUE, .pid = pid, .value = FOREIGN};
  return (int)call4(rt_tgsigqueueinfo, pid, tid, REQUEST_SIGNAL, &info);
}

bool os_blocks_signal(const os_thread_t *thread) {
  return thread->blocked_signals & BIT(REQUEST_SIGNAL);
}

/* Calls that any signal ends, and calls that wait for signals. */
bool os_waits_for_signals(int64_t call) {
#if defined(SYS_pause)
  if (call == SYS_pause) return true;
#endif
  return call == SYS_rt_sigtimedwait || call == SYS_rt_sigsuspend;
}

/* ---- fatal signals ------------------------------------------------------------------------ */

bool os_signal_has_handler(int number, os_handler_t *handler) {
  action_t now = {0};
  return call4(rt_sigaction, number, NULL, &now, 8) == 0 &&
         now.handler == (uint64_t)(uintptr_t)handler;
}

void os_signal_handle(int number, os_handler_t *handler) {
  const action_t action = {.handler = (uint64_t)(uintptr_t)handler,
                           .flags = SA_SIGINFO | SA_ONSTACK | SA_RESTORER_FLAG,
                           .restorer = RESTORER};
  (void)call4(rt_sigaction, number, &action, NULL, 8);
}

void os_signal_default(int number) {
  const action_t action = {0};
  (void)call4(rt_sigaction, number, &action, NULL, 8);
}

void os_signal_again(int number, const void *info) {
  (void)call4(rt_tgsigqueueinfo, os_pid(), os_tid(), number, info);
}
