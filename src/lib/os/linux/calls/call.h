/* SPDX-License-Identifier: MIT
 *
 * System calls for os/linux. A negative result is a negative errno, as the kernel returns it; errno
 * itself stays unchanged.
 *
 * A call names a row of calls/table.h: call2(munmap, address, size). If a seccomp filter forbids
 * that row, the result is -EPERM and the kernel is not entered: a filter may kill the program for a
 * call that only sonde makes. See calls/forbidden.h.
 */
#ifndef SONDE_OS_LINUX_CALLS_CALL_H
#define SONDE_OS_LINUX_CALLS_CALL_H

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/linux/calls/table.h"

/* musl's headers rename these functions by macros, which would rename the rows. */
#undef prlimit64
#undef pread64
#undef pwrite64

/* How many filters forbid a row. */
extern HIDDEN uint16_t linux_calls_forbidden[CALL_ROWS];

static ALWAYS_INLINE bool call_is_forbidden(call_row_t row) {
  return UNLIKELY(load_relaxed(&linux_calls_forbidden[row]) != 0);
}

#if defined(SONDE_DEBUG)
/* True if ARGUMENTS are those of the row. */
HIDDEN bool linux_call_matches(call_row_t row, const long arguments[6]);
#endif

static ALWAYS_INLINE long call_of_row(call_row_t row, long number, long a, long b, long c, long d,
                                      long e, long f) {
#if defined(SONDE_DEBUG)
  const long arguments[] = {a, b, c, d, e, f};
  SONDE_ASSERT(linux_call_matches(row, arguments));
#endif
  if (call_is_forbidden(row)) return -1; /* -EPERM */
  return arch_syscall(number, a, b, c, d, e, f);
}

#define call6(row, a, b, c, d, e, f)                                                               \
  call_of_row(CALL_##row, CALL_NUMBER_##row, (long)(a), (long)(b), (long)(c), (long)(d),           \
              (long)(e), (long)(f))
#define call5(row, a, b, c, d, e) call6(row, a, b, c, d, e, 0)
#define call4(row, a, b, c, d)    call6(row, a, b, c, d, 0, 0)
#define call3(row, a, b, c)       call6(row, a, b, c, 0, 0, 0)
#define call2(row, a, b)          call6(row, a, b, 0, 0, 0, 0)
#define call1(row, a)             call6(row, a, 0, 0, 0, 0, 0)
#define call0(row)                call6(row, 0, 0, 0, 0, 0, 0)

#endif
