/* SPDX-License-Identifier: MIT
 *
 * The functions that name a thread, and the ways to install a seccomp filter. Most programs name a
 * thread some time after its start, when it may have allocated already; so each new name is
 * recorded. No C library has a function for seccomp(2): programs call it by syscall.
 */
#include <errno.h>
#include <linux/prctl.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "agent/agent.h"
#include "agent/seccomp.h"
#include "os/os.h"
#include "record/writer.h"

#define EXPORT __attribute__((visibility("default")))

/* The last argument of syscall: x86_64 passes it on the stack, where it stays; see there. */
#if defined(__x86_64__)
#define SEVENTH(argument)
#else
#define SEVENTH(argument) , argument
#endif

static struct {
  int (*prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
  int (*pthread_setname_np)(uint64_t, const char *);
  int *(*errno_location)(void);
  long (*syscall)(long, long, long, long, long, long SEVENTH(long));
} real;

void thread_name_find_real(void) {
  static const char *const names[] = {"prctl", "pthread_setname_np", "__errno_location", "syscall"};
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
}

static void record_name(pid_t tid, const char *name) {
  if (tid > 0 && agent_in_recorded_process()) writer_thread_renamed(tid, name);
}

static int missing(void) {
  if (real.errno_location) *real.errno_location() = ENOSYS;
  return -1;
}

/* seccomp(2), prctl(2): the modes and a flag with which the result is a descriptor. */
enum { SET_STRICT = 0, SET_FILTER = 1, MODE_STRICT = 1, MODE_FILTER = 2, NEW_LISTENER = 8 };

static NOINLINE int set_seccomp(unsigned long mode, const void *program, unsigned long c,
                                unsigned long d) {
  seccomp_change_t change = {0};
  if (mode == MODE_STRICT) program = NULL;
  if (mode == MODE_STRICT || (mode == MODE_FILTER && program)) seccomp_before(&change, program);
  int status = real.prctl(PR_SET_SECCOMP, mode, (unsigned long)program, c, d);
  seccomp_after(&change, status == 0);
  return status;
}

static NOINLINE long call_seccomp(long operation, long flags, long program) {
  seccomp_change_t change = {0};
  if (operation == SET_STRICT || (operation == SET_FILTER && program))
    seccomp_before(&change, operation == SET_STRICT ? NULL : (const void *)program);
  long status = real.syscall(SYS_seccomp, operation, flags, program, 0, 0 SEVENTH(0));
  seccomp_after(&change, status == 0 || (status > 0 && flags & NEW_LISTENER));
  return status;
}

/* Variadic in the header, with the same calling convention; arguments that were not passed are
 * unused. */
EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
  agent_enter();
  if (!real.prctl) return missing();
  if (UNLIKELY(option == PR_SET_SECCOMP)) return set_seccomp(a, (const void *)b, c, d);
  int status = real.prctl(option, a, b, c, d);
  if (UNLIKELY(option == PR_SET_NAME) && status == 0) record_name(os_tid(), (const char *)a);
  return status;
}

EXPORT long syscall(long number, long a, long b, long c, long d, long e SEVENTH(long f));

/* The last line is compiled to a jump. So the wrapper has no frame while the call runs, and an
 * argument on the stack is passed on. It must not be written: the caller may have passed less. */
long syscall(long number, long a, long b, long c, long d, long e SEVENTH(long f)) {
  agent_enter();
  if (!real.syscall) return missing();
  if (UNLIKELY(number == SYS_seccomp)) return call_seccomp(a, b, c);
  if (UNLIKELY(number == SYS_prctl && a == PR_SET_SECCOMP))
    return set_seccomp((unsigned long)b, (const void *)c, (unsigned long)d, (unsigned long)e);
  return real.syscall(number, a, b, c, d, e SEVENTH(f));
}

EXPORT int pthread_setname_np(uint64_t thread, const char *name);

int pthread_setname_np(uint64_t thread, const char *name) {
  agent_enter();
  int status = real.pthread_setname_np ? real.pthread_setname_np(thread, name) : ENOSYS;
  if (status == 0) record_name(os_thread_of_handle(thread), name);
  return status;
}
