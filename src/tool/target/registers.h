/* SPDX-License-Identifier: MIT
 *
 * General registers in the kernel's layout (NT_PRSTATUS of ptrace and core files), for both CPUs on
 * either CPU.
 */
#ifndef SONDE_TARGET_REGISTERS_H
#define SONDE_TARGET_REGISTERS_H

#include <stddef.h>

#include "unwind/machine.h"
#include "unwind/memory.h"

/* aarch64: x0–x30, sp, pc, pstate */
#define REGISTERS_BYTES_MAX 272

/* Reads the register set DATA into REGS. False if SIZE is not that of MACHINE. */
bool registers_read(machine_t machine, const void *data, size_t size, regs_t *regs);

/* The system call that the thread is in or that was interrupted: returns its number and writes its
 * arguments to ARGS; -1 if there is none. */
long registers_syscall(machine_t machine, const void *data, size_t size, uint64_t args[6]);

/* The same from the code at the pc, if the registers are not sufficient. */
long registers_syscall_by_code(machine_t machine, const regs_t *regs, memory_t *memory,
                               uint64_t args[6]);

#endif
