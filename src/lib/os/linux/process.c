/* SPDX-License-Identifier: MIT
 *
 * Process and thread ids, clocks and futexes. Ids are read with a system call each time, which
 * costs a tenth of a microsecond. A cached id would be wrong after a fork that sonde did not see.
 */
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "base/bits.h"
#include "os/linux/calls/call.h"
#include "os/linux/calls/forbidden.h"
#include "os/linux/calls/futex.h"
#include "os/linux/dynamic.h"
#include "os/linux/internal.h"
#include "os/os.h"

pid_t os_pid(void) {
  long pid = call0(getpid);
  return LIKELY(pid > 0) ? (pid_t)pid : linux_known_pid();
}

pid_t os_tid(void) {
  long tid = call0(gettid);
  return LIKELY(tid > 0) ? (pid_t)tid : linux_known_tid();
}

/* The first thread has the id of the process. */
pid_t os_main_thread(void) { return os_pid(); }

bool os_thread_alive(pid_t tid) {
  if (tid <= 0) return false;
  long r = call3(tgkill, os_pid(), tid, 0);
  return r == 0 || r == -EPERM; /* a filter forbids the test: better a state too many */
}

bool os_signal_stack(uint64_t *start, uint64_t *size) {
  stack_t stack = {0};
  if (call2(sigaltstack, NULL, &stack) != 0 || stack.ss_flags & SS_DISABLE) return false;
  *start = (uint64_t)(uintptr_t)stack.ss_sp;
  *size = stack.ss_size;
  return true;
}

/* clock_gettime of the vDSO (vdso(7)), which stays mapped until the process ends. */
static int (*vdso_clock)(int clock, struct kernel_timespec *out);

void linux_clock_init(const dynamic_t *vdso_symbols) {
#if defined(__x86_64__)
  const char *name = "__vdso_clock_gettime";
#else
  const char *name = "__kernel_clock_gettime";
#endif
  uintptr_t found = (uintptr_t)dynamic_symbol(vdso_symbols, name, NULL);
  store_release(&vdso_clock, (int (*)(int, struct kernel_timespec *))found);
}

void linux_clock_forget(void) { store_release(&vdso_clock, NULL); }

uint64_t os_monotonic_ns(void) {
  struct kernel_timespec now = {0, 0};
  int (*fast)(int, struct kernel_timespec *) = load_acquire(&vdso_clock);
  if (fast == NULL || fast(CLOCK_MONOTONIC, &now) != 0)
    (void)call2(clock_gettime, CLOCK_MONOTONIC, &now);
  return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

uint64_t os_realtime_ns(void) {
  struct kernel_timespec now = {0, 0};
  (void)call2(clock_realtime, CLOCK_REALTIME, &now);
  return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

uint64_t os_process_cpu_ns(void) {
  struct kernel_timespec now = {0, 0};
  (void)call2(clock_cpu, CLOCK_PROCESS_CPUTIME_ID, &now);
  return (uint64_t)now.seconds * 1000000000u + (uint64_t)now.nanoseconds;
}

/* membarrier(2): the expedited command needs a registration; older kernels have only the slow one.
 */
void os_barrier(void) {
  enum { GLOBAL = 1, EXPEDITED = 8, REGISTER = 16 };
  if (call1(membarrier, EXPEDITED) == 0) return;
  if (call1(membarrier, REGISTER) == 0 && call1(membarrier, EXPEDITED) == 0) return;
  (void)call1(membarrier, GLOBAL);
}

static struct kernel_timespec timespec_of(uint64_t ns) {
  return (struct kernel_timespec){(int64_t)(ns / 1000000000u), (int64_t)(ns % 1000000000u)};
}

int os_futex_wait(const uint32_t *word, uint32_t value, uint64_t timeout_ns) {
  const struct kernel_timespec time = timespec_of(timeout_ns), *timeout = timeout_ns ? &time : NULL;
  return (int)call4(futex_wait, word, FUTEX_WAIT_PRIVATE, value, timeout);
}

int os_futex_wait_shared(const uint32_t *word, uint32_t value, uint64_t timeout_ns) {
  const struct kernel_timespec time = timespec_of(timeout_ns), *timeout = timeout_ns ? &time : NULL;
  return (int)call4(futex_wait_shared, word, FUTEX_WAIT_SHARED, value, timeout);
}

int os_futex_wake_shared(const uint32_t *word, int count) {
  return (int)call3(futex_wake_shared, word, FUTEX_WAKE_SHARED, count);
}

int os_futex_wake(const uint32_t *word, int count) {
  return (int)call3(futex_wake, word, FUTEX_WAKE_PRIVATE, count);
}

/* ---- names of the program and the thread
 * ------------------------------------------------------------- */

ssize_t os_program_path(char *out, size_t size) {
  return os_read_link("/proc/self/exe", out, size);
}

ssize_t os_program_arguments(char *out, size_t size) {
  return os_read_file("/proc/self/cmdline", out, size);
}

ssize_t os_thread_name_here(char *out, size_t size) {
  return os_read_file("/proc/thread-self/comm", out, size);
}
