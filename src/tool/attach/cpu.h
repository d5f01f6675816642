/* SPDX-License-Identifier: MIT
 *
 * What depends on the CPU when a thread of another program is borrowed: registers at a stop, a
 * system call made by it, and the signal frame through which it returns without the command.
 */
#ifndef SONDE_ATTACH_CPU_H
#define SONDE_ATTACH_CPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

/* AVX-512 takes 2.7 KB, AMX 11 KB. */
#define CPU_VECTOR_MAX 16384u
/* At least the size of any frame of cpu_frame. */
#define CPU_FRAME_MAX (CPU_VECTOR_MAX + 4096u)

typedef struct user_regs_struct cpu_regs_t;

typedef struct cpu_state {
  cpu_regs_t regs;
  uint64_t signal_mask;
  long original_call; /* what restart_syscall(2) continues; -1: unknown */
  size_t vector_size;
  uint8_t vector[CPU_VECTOR_MAX] __attribute__((aligned(64)));
} cpu_state_t;

typedef struct cpu_call {
  long number;
  uint64_t args[6];
} cpu_call_t;

/* Machine code in the program. */
typedef struct cpu_code {
  uint64_t call;    /* a system call instruction and a return; 0: unknown */
  uint64_t restore; /* rt_sigreturn; 0: unknown */
} cpu_code_t;

/* Reads all of STATE from the stopped thread TID. */
bool cpu_read(pid_t tid, cpu_state_t *state);
bool cpu_read_regs(pid_t tid, cpu_regs_t *regs);
bool cpu_write_regs(pid_t tid, const cpu_regs_t *regs);

/* Gives TID back what a system call changes of STATE: the registers, and on some CPUs vectors. */
bool cpu_restore(pid_t tid, const cpu_state_t *state);

uint64_t cpu_pc(const cpu_regs_t *regs);
uint64_t cpu_sp(const cpu_regs_t *regs);

/* The system call that the stop interrupted, if it did; -1: it did not. */
long cpu_interrupted_call(const cpu_regs_t *regs);

/* Changes REGS so that a wait begins again which the kernel would continue with restart_syscall(2).
 * False if there is none, or if that cannot be seen. */
bool cpu_repeat_wait(cpu_regs_t *regs);

/* Writes to OUT, of CPU_FRAME_MAX bytes, the frame of a signal handler that interrupted STATE, for
 * the ADDRESS, a multiple of 64. If `cpu_call` is made with it and nothing stops the thread after
 * the call, the thread continues in STATE. Returns the size. */
size_t cpu_frame(const cpu_state_t *state, uint64_t address, uint64_t restore, uint8_t *out);

/* Changes REGS so that the thread makes CALL and then returns through the frame at ADDRESS. */
void cpu_call(cpu_regs_t *regs, const cpu_code_t *code, uint64_t frame, const cpu_call_t *call);
int64_t cpu_result(const cpu_regs_t *regs);

/* clone(2) of a thread whose thread pointer is TLS. */
cpu_call_t cpu_clone(uint64_t flags, uint64_t stack, uint64_t tls);

/* Finds the two instruction sequences in SIZE bytes at ADDRESS. Keeps what CODE has. */
void cpu_find_code(const uint8_t *bytes, size_t size, uint64_t address, cpu_code_t *code);

/* The memory of the thread pointer: fills SIZE bytes at AREA, whose thread pointer is TLS. */
void cpu_fill_thread_area(uint8_t *area, size_t size, uint64_t address, uint64_t tls);

/* ---- the stub, which is copied into the program (stub.S) ------------------------------------ */

extern const uint8_t attach_stub[], attach_stub_end[];
/* makes a system call (clone): the new thread exits, the caller returns through its frame */
extern const uint8_t attach_stub_call[];
/* rt_sigreturn */
extern const uint8_t attach_stub_restore[];
/* where the agent's thread starts */
extern const uint8_t attach_stub_run[];
/* exits with status 0 */
extern const uint8_t attach_stub_exit[];

/* A system call of the stub. The list ends with a number below 0. */
typedef struct stub_call {
  int64_t number;
  uint64_t args[6];
  uint64_t must_succeed; /* else the thread exits with the errno */
} stub_call_t;

/* The agent's thread: makes the calls at CALLS, then calls the functions in [INIT_START, INIT_END)
 * and ENTRY with BLOCK. */
typedef struct stub_start {
  uint64_t pc, stack, calls, init_start, init_end, entry, block;
} stub_start_t;

void cpu_start(cpu_regs_t *regs, const stub_start_t *start);
void cpu_jump(cpu_regs_t *regs, uint64_t pc);

#endif
