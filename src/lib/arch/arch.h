/* SPDX-License-Identifier: MIT
 *
 * The contract with the CPU. Every function is inline, accesses only the memory that it is given
 * and leaves errno unchanged. So it may be called anywhere: in a signal handler, and before
 * relocation.
 *
 * Each folder beside this header implements the contract for one CPU:
 *   long     arch_syscall(number, a, b, c, d, e, f)   the kernel's result: a negative value down to
 *                                                     -4095 is an errno
 *   uint64_t arch_cycles(void)                        the cycle counter that user code may read
 *   uint64_t arch_strip(pc)                           PC without pointer authentication bits
 *   void     arch_code_written(address, bytes)        makes written bytes visible as code
 *   void     arch_relax(void)                         a hint inside a spinning loop
 *   bool     arch_on_valgrind(void)                   true if valgrind executes this code
 *   arch_frame_t arch_context_frame(ucontext)         see below
 *   uint64_t arch_context_registers(ucontext, ...)    see below
 *   arch_access_t arch_context_access(ucontext)       see below; not on Apple's systems
 *   void     arch_context_set_frame(ucontext, frame)  the same
 *   arch_frame_t arch_frame_interrupted(entry, slot)  the same
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

/* How an instruction accessed the memory at which it faulted. The numbers are those of recordings.
 */
typedef enum arch_access {
  ARCH_ACCESS_UNKNOWN = 0,
  ARCH_ACCESS_READ = 1,
  ARCH_ACCESS_WRITE = 2,
  ARCH_ACCESS_EXECUTE = 3,
} arch_access_t;

/* The client request VG_USERREQ__RUNNING_ON_VALGRIND of valgrind.h. */
#define ARCH_ASK_VALGRIND UINT64_C(0x1001)

#if defined(__x86_64__)
#include "arch/x86_64/cpu.h"
#include "arch/x86_64/entry.h"
#elif defined(__aarch64__)
#include "arch/aarch64/cpu.h"
#include "arch/aarch64/entry.h"
#else
#error "sonde supports x86_64 and aarch64"
#endif

/* The interrupted frame of UCONTEXT, the third argument of an SA_SIGINFO handler. */
static inline arch_frame_t arch_context_frame(const void *ucontext);

/* Copies every general register of UCONTEXT to REGISTERS (ARCH_DWARF_REGISTERS words), indexed by
 * its DWARF number, and sets the bits of these numbers in KNOWN. Returns the pc. */
static inline uint64_t arch_context_registers(const void *ucontext, uint64_t *registers,
                                              uint64_t *known);

#if !defined(__APPLE__)
/* How the instruction that UCONTEXT interrupted accessed memory, if it faulted. */
static inline arch_access_t arch_context_access(const void *ucontext);

/* Sets the registers of FRAME in UCONTEXT. */
static inline void arch_context_set_frame(void *ucontext, arch_frame_t frame);

/* A signal handler may make the interrupted code call a function: it pushes a slot of
 * ARCH_PUSHED_BYTES, as Go does (runtime/signal_*.go, pushCall). ENTRY is the frame at the first
 * instruction of that function, SLOT the word at its stack pointer. Returns the frame that was
 * interrupted. */
static inline arch_frame_t arch_frame_interrupted(arch_frame_t entry, uint64_t slot);
#endif

#endif
