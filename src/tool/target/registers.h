/* SPDX-License-Identifier: MIT
 *
 * General registers as the kernel writes them (NT_PRSTATUS of ptrace and of core files), for either
 * machine, whichever this runs on.
 */
#ifndef SONDE_TARGET_REGISTERS_H
#define SONDE_TARGET_REGISTERS_H

#include <stddef.h>

#include "unwind/machine.h"
#include "unwind/memory.h"

#define REGISTERS_BYTES_MAX 272 /* aarch64: x0–x30, sp, pc, pstate */

/* Reads the register set DATA into REGS. False when SIZE is not that of MACHINE. */
bool registers_read(machine_t machine, const void *data, size_t size, regs_t *regs);

/* The system call the thread is in, or was interrupted in: its number, and its arguments in ARGS;
 * -1 when it is in none. */
long registers_syscall(machine_t machine, const void *data, size_t size, uint64_t args[6]);

/* The same where the registers alone do not tell: by the code at the pc. */
long registers_syscall_by_code(machine_t machine, const regs_t *regs, memory_t *memory,
                               uint64_t args[6]);

#endif
