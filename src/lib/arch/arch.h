/* SPDX-License-Identifier: MIT
 *
 * The whole contract with the CPU. Everything here is inline and touches neither memory it is not
 * given nor errno, so it may be used anywhere, in a signal handler and before relocation too.
 *
 * Each folder beside this header fulfils it for one machine:
 *   long     arch_syscall(number, a, b, c, d, e, f)   the result as the kernel gives it: a negative
 *                                                     value down to -4095 is an errno
 *   uint64_t arch_cycles(void)                        the cycle counter that user code may read
 *   uint64_t arch_strip(pc)                           PC without pointer authentication bits
 *   void     arch_code_written(address, bytes)        what was written there is to be fetched as
 *                                                     code
 *   void     arch_relax(void)                         a hint inside a spinning loop
 *   bool     arch_on_valgrind(void)                   whether valgrind executes this
 *   arch_frame_t arch_context_frame(ucontext)         see below
 *   uint64_t arch_context_registers(ucontext, ...)    see below
 */
#ifndef SONDE_ARCH_ARCH_H
#define SONDE_ARCH_ARCH_H

#include <stdbool.h>
#include <stdint.h>

/* The registers that nearly every frame is unwound with. */
typedef struct arch_frame {
  uint64_t pc;
  uint64_t sp;
  uint64_t fp; /* rbp, x29 */
  uint64_t lr; /* x30; 0 on machines that keep the return address on the stack */
} arch_frame_t;

/* The one client request asked here: valgrind.h, VG_USERREQ__RUNNING_ON_VALGRIND. */
#define ARCH_ASK_VALGRIND UINT64_C(0x1001)

#if defined(__x86_64__)
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/entry.h"
#elif defined(__aarch64__)
#include "arch/aarch64/cpu.h"
#include "arch/aarch64/entry.h"
#else
#error "sonde knows x86_64 and aarch64"
#endif

/* The frame that UCONTEXT, the third argument of an SA_SIGINFO handler, was made at. */
static inline arch_frame_t arch_context_frame(const void *ucontext);

/* Every general register of UCONTEXT by its DWARF number into REGISTERS (ARCH_DWARF_REGISTERS
 * words), their set as bits into KNOWN. Returns the pc. */
static inline uint64_t arch_context_registers(const void *ucontext, uint64_t *registers,
                                              uint64_t *known);

#endif
