/* SPDX-License-Identifier: MIT
 *
 * The main thread's run loop is watched by a thread that asks for it: turns that take too long are
 * told while they last, with the stack; waits, a loop inside a turn and short turns are not.
 */
#include <mach/mach.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "runloop.h"
#include "sonde/stall.h"
#include "sonde/thread.h"

#define THRESHOLD_MS 150
#define TOLD_MAX     64

enum { SHORT, SPIN, BLOCK, NESTED, LATE_WORK, COUNT };

static CFRunLoopSourceRef sources[COUNT];
static volatile int performed[COUNT], returned[COUNT];
static int ends[2];
static uint64_t main_id;

typedef struct told {
  sonde_stall_t stall;
  bool had_cpu; /* half of the time since it began to spin, or more */
  bool spins, blocks, observes, leads_to_loop;
} told_t;
static told_t told[TOLD_MAX];
static volatile int told_count;

/* CPU time of the main thread. */
static thread_act_t main_port;
static uint64_t cpu_ns(void) {
  thread_extended_info_data_t info = {0};
  mach_msg_type_number_t count = THREAD_EXTENDED_INFO_COUNT;
  (void)thread_info(main_port, THREAD_EXTENDED_INFO, (thread_info_t)&info, &count);
  return info.pth_user_time + info.pth_system_time;
}

/* Until the other thread says so. */
static volatile bool may_spin;
static volatile long spun;
static volatile uint64_t spin_ns, spin_cpu_ns;
__attribute__((noinline)) static void spin_long(void) {
  spin_ns = clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
  spin_cpu_ns = cpu_ns();
  while (may_spin)
    spun++;
}

__attribute__((noinline)) static void block_long(void) {
  char byte;
  (void)read(ends[0], &byte, 1);
}

static void perform(void *info) {
  long what = (long)info;
  performed[what]++;
  if (what == SPIN) spin_long();
  if (what == BLOCK) block_long();
  if (what == NESTED) CFRunLoopRun();
  returned[what]++;
}

/* Work that hangs on the end of a turn, as drawing does on macOS. */
static bool is_late_work_due;
__attribute__((noinline)) static void work_late(CFRunLoopObserverRef o, CFOptionFlags a, void *i) {
  (void)o, (void)a, (void)i;
  if (!is_late_work_due) return;
  is_late_work_due = false;
  performed[LATE_WORK]++;
  spin_long();
}

static bool is_in(const sonde_stall_t *s, const char *name) {
  for (int i = 0; i < s->count; i++)
    if (is_named(s->pcs[i], name)) return true;
  return false;
}

static void on_stall(const sonde_stall_t *s, void *context) {
  (void)context;
  if (told_count == TOLD_MAX) return;
  uint64_t passed_ns = clock_gettime_nsec_np(CLOCK_UPTIME_RAW) - spin_ns;
  bool had_cpu = 2 * (cpu_ns() - spin_cpu_ns) >= passed_ns;
  told[told_count] = (told_t){*s,
                              had_cpu,
                              is_in(s, "spin_long"),
                              is_in(s, "block_long"),
                              is_in(s, "work_late"),
                              is_in(s, "CFRunLoopRun")};
  told_count++;
}

static void *watch(void *context) {
  *(int *)context = sonde_stall_monitor(THRESHOLD_MS, on_stall, NULL);
  return NULL;
}

static void send(int what) {
  CFRunLoopSourceSignal(sources[what]);
  CFRunLoopWakeUp(CFRunLoopGetMain());
}

/* A call that stall NUMBER was told with when it had lasted twice as long as it may, and that shows
 * what it IS to be. A thread that gets no CPU is late in coming to what holds it up, and what it
 * waited for a CPU is not counted in the end. */
static const told_t *told_of(uint32_t number, bool (*is_it)(const told_t *)) {
  for (int i = 0; i < told_count; i++) {
    const told_t *t = &told[i];
    if (t->stall.number == number && t->stall.phase == SONDE_STALL_CONTINUES && is_it(t)) return t;
  }
  return NULL;
}

/* Its length in ms once its end was told, or -1. */
static long length_of(uint32_t number) {
  for (int i = 0; i < told_count; i++)
    if (told[i].stall.number == number && told[i].stall.phase == SONDE_STALL_ENDED)
      return (long)(told[i].stall.length_ns / 1000000);
  return -1;
}

/* Where a busy machine gives the thread little CPU time, waiting for that is a cause, too. */
static bool is_on_cpu(const told_t *t) {
  sonde_stall_cause_t cause = t->stall.cause;
  bool starves = cause == SONDE_STALL_NO_CPU || cause == SONDE_STALL_SEVERAL;
  return cause == SONDE_STALL_ON_CPU || (starves && !t->had_cpu);
}
static bool spins(const told_t *t) { return t->spins && !t->observes && is_on_cpu(t); }
static bool blocks(const told_t *t) {
  return t->blocks && t->stall.cause == SONDE_STALL_BLOCKED && !t->stall.lock;
}
static bool observes(const told_t *t) { return t->spins && t->observes && is_on_cpu(t); }

static void wait_for_stall(uint32_t number, bool (*is_it)(const told_t *)) {
  while (!told_of(number, is_it))
    usleep(10000);
}

static void wait_for_end(uint32_t number) {
  while (length_of(number) < 0)
    usleep(10000);
}

static void wait_until_asleep(void) {
  sonde_thread_t about;
  while (sonde_thread((pid_t)main_id, &about) != 0 || about.state != 'S')
    usleep(1000);
}

static void *poke(void *context) {
  (void)context;
  usleep(2 * THRESHOLD_MS * 1000); /* the loop waits: no stall */
  for (int i = 0; i < 20; i++) {
    send(SHORT);
    usleep(5000);
  }
  may_spin = true;
  send(SPIN);
  wait_for_stall(1, spins);
  may_spin = false;
  wait_for_end(1);
  send(BLOCK);
  wait_for_stall(2, blocks);
  (void)write(ends[1], "x", 1);
  wait_for_end(2);
  send(NESTED);
  while (!performed[NESTED])
    usleep(1000);
  wait_until_asleep();
  usleep(3 * THRESHOLD_MS * 1000); /* the inner loop waits: no stall */
  CFRunLoopStop(CFRunLoopGetMain());
  while (!returned[NESTED])
    usleep(1000);
  wait_until_asleep();
  may_spin = is_late_work_due = true;
  send(SHORT);
  wait_for_stall(3, observes);
  may_spin = false;
  wait_for_end(3);
  CFRunLoopStop(CFRunLoopGetMain());
  return NULL;
}

static void check_stall(uint32_t number, const char *what, bool (*is_it)(const told_t *)) {
  const told_t *t = told_of(number, is_it);
  check(t && t->leads_to_loop && t->stall.tid == (pid_t)main_id &&
            length_of(number) >= THRESHOLD_MS,
        what);
}

void check_loop(void) {
  CFRunLoopRef loop = CFRunLoopGetMain();
  pthread_t watcher, poker;
  int status = 1;
  uint32_t stalls = 0;
  if (pipe(ends) != 0) return check(false, "a pipe");
  (void)pthread_threadid_np(NULL, &main_id);
  main_port = pthread_mach_thread_np(pthread_self());
  for (long i = 0; i < COUNT; i++) {
    CFRunLoopSourceContext context = {.info = (void *)i, .perform = perform};
    sources[i] = CFRunLoopSourceCreate(NULL, 0, &context);
    CFRunLoopAddSource(loop, sources[i], kCFRunLoopCommonModes);
  }
  CFRunLoopObserverRef late =
      CFRunLoopObserverCreate(NULL, kCFRunLoopBeforeWaiting, 1, 2000000, work_late, NULL);
  CFRunLoopAddObserver(loop, late, kCFRunLoopCommonModes);
  pthread_create(&watcher, NULL, watch, &status);
  pthread_create(&poker, NULL, poke, NULL);
  CFRunLoopRun();
  pthread_join(poker, NULL);
  check(sonde_stall_monitor_stop() == 0, "the monitor is stopped");
  pthread_join(watcher, NULL);
  check(status == 0, "and comes back");
  check(performed[SHORT] >= 2 && performed[SPIN] == 1 && performed[BLOCK] == 1 &&
            performed[NESTED] == 1 && performed[LATE_WORK] == 1,
        "the loop has done its work");
  for (int i = 0; i < told_count; i++)
    if (told[i].stall.number > stalls) stalls = told[i].stall.number;
  check(stalls == 3, "three turns were stalls");
  check_stall(1, "one that spins, told while it lasted", spins);
  check_stall(2, "one that blocks", blocks);
  check_stall(3, "work of an observer, before the loop waits", observes);
}
