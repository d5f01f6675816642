/* SPDX-License-Identifier: MIT
 *
 * Measured for 42 blocking calls, each stopped 1,000 times. Waits for futexes, children, time,
 * descriptors and locks continue exactly. Others fail with EINTR, which the stop hides by starting
 * them again (target/stop/stop.h).
 * Transfers can have moved some bytes: then they return early, and nothing helps.
 */
#define _GNU_SOURCE
#include "attach/choose.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "target/stop/stop.h"

#define WAIT_NS UINT64_C(200000000)

static bool is_one_of(long number, const long *calls, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (calls[i] == number) return true;
  return false;
}
#define IS_ONE_OF(number, calls) is_one_of(number, calls, sizeof(calls) / sizeof *(calls))

static const long exact_calls[] = {
    SYS_wait4,  SYS_waitid,    SYS_ppoll,           SYS_pselect6,
    SYS_flock,  SYS_msgrcv,    SYS_mq_timedreceive, SYS_rt_sigsuspend,
#if defined(__x86_64__)
    SYS_futex,  SYS_nanosleep, SYS_clock_nanosleep, SYS_poll,
    SYS_select, SYS_pause,
#else
    SYS_restart_syscall,
#endif
};

/* A read from a pipe or the like; a socket with a timeout of its own is rare. restart_syscall goes
 * on exactly, but if the command is killed it may fail with EINTR (attach/borrow.c). */
static const long restarted_calls[] = {SYS_restart_syscall, SYS_accept, SYS_accept4, SYS_read,
                                       SYS_semop};

/* Calls with an index of the timeout among their arguments, and the value that means none. */
typedef struct timed_call {
  long number;
  int argument;
  uint64_t none;
} timed_call_t;

static const timed_call_t timed_calls[] = {
    {SYS_epoll_pwait, 3, UINT32_MAX}, {SYS_rt_sigtimedwait, 2, 0},
    {SYS_semtimedop, 3, 0},           {SYS_io_getevents, 4, 0},
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, 3, 0},
#endif
#if defined(__x86_64__)
    {SYS_epoll_wait, 3, UINT32_MAX},
#else
    /* The loan loses what restart_syscall(2) would continue: they start again as well. */
    {SYS_futex, 3, 0},
    {SYS_nanosleep, 0, 0},
    {SYS_clock_nanosleep, 2, 0},
#endif
};

fitness_t choose_fitness(long number, const uint64_t args[6]) {
  if (number == -1) return FIT_RESTARTED;
  if (IS_ONE_OF(number, exact_calls)) return FIT_EXACT;
  for (size_t i = 0; i < sizeof timed_calls / sizeof *timed_calls; i++) {
    const timed_call_t *call = &timed_calls[i];
    uint64_t value = args[call->argument];
    if (call->none == UINT32_MAX) value = (uint32_t)value;
    if (call->number == number) return value == call->none ? FIT_RESTARTED : FIT_TIMED;
  }
  if (IS_ONE_OF(number, restarted_calls)) return FIT_RESTARTED;
  /* These wait only if nothing has arrived. A socket's own timeout does not show. */
  if (number == SYS_recvfrom) return args[3] & MSG_WAITALL ? FIT_NEVER : FIT_TIMED;
  if (number == SYS_recvmsg) return args[2] & MSG_WAITALL ? FIT_NEVER : FIT_TIMED;
  return FIT_NEVER;
}

static fitness_t fitness_of(const process_t *process, pid_t tid, uint64_t *switches) {
  thread_t thread = {.tid = tid};
  thread_files_t files;
  sample_t sample;
  if (!thread_files_open(process, tid, &files)) return FIT_NEVER;
  thread_sample(&files, &sample);
  thread_files_close(&files);
  *switches = sample.switches;
  if (sample.activity == ACTIVITY_RUNNING)
    return process_read_stat(process, &thread) && thread.state == 'R' ? FIT_RESTARTED : FIT_NEVER;
  if (sample.activity != ACTIVITY_BLOCKED || sample.number < 0) return FIT_NEVER;
  return choose_fitness(sample.number, sample.args);
}

fitness_t choose_fitness_of(target_t *target, pid_t tid) {
  uint64_t switches;
  return fitness_of(process_of(target), tid, &switches);
}

pid_t choose_thread(target_t *target, fitness_t *fitness) {
  pid_t best = 0;
  uint64_t switches;
  *fitness = FIT_NEVER;
  if (!process_list_threads(target)) return 0;
  for (size_t i = 0; i < target->thread_count && *fitness != FIT_EXACT; i++) {
    pid_t tid = target->threads[i].tid;
    fitness_t own = fitness_of(process_of(target), tid, &switches);
    if (own < *fitness) *fitness = own, best = tid;
  }
  return best;
}

void choose_wait(target_t *target, pid_t tid) {
  uint64_t first, now, end = os_monotonic_ns() + WAIT_NS;
  (void)fitness_of(process_of(target), tid, &first);
  do {
    usleep(100);
    if (fitness_of(process_of(target), tid, &now) == FIT_TIMED && now != first) return;
  } while (os_monotonic_ns() < end);
}
