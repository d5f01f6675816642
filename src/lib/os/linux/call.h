/* SPDX-License-Identifier: MIT
 *
 * System calls for the files of this folder. A negative result is a negative errno, as the kernel
 * returns it; errno itself stays unchanged.
 */
#ifndef SONDE_OS_LINUX_CALL_H
#define SONDE_OS_LINUX_CALL_H

#include <sys/syscall.h>

#include "arch/arch.h"

#define call6(n, a, b, c, d, e, f)                                                                 \
  arch_syscall((n), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define call5(n, a, b, c, d, e) call6(n, a, b, c, d, e, 0)
#define call4(n, a, b, c, d)    call6(n, a, b, c, d, 0, 0)
#define call3(n, a, b, c)       call6(n, a, b, c, 0, 0, 0)
#define call2(n, a, b)          call6(n, a, b, 0, 0, 0, 0)
#define call1(n, a)             call6(n, a, 0, 0, 0, 0, 0)
#define call0(n)                call6(n, 0, 0, 0, 0, 0, 0)

#endif
