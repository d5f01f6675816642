/* SPDX-License-Identifier: MIT
 *
 * Frame: struct rt_sigframe of linux arch/arm64/kernel/signal.c; records of asm/sigcontext.h.
 *
 * At an event stop the kernel has already moved the pc back to the system call that is to start
 * again (do_signal; target/stop/aarch64/stopped_call.c). A system call discards the vector bits
 * beyond NEON's (Documentation/arch/arm64/sve.rst), so those of a thread that ran are saved.
 */
#define _GNU_SOURCE
#include "attach/cpu.h"

#include <asm/sigcontext.h>
#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#ifndef NT_ARM_SVE
#define NT_ARM_SVE 0x405
#endif

bool cpu_read_regs(pid_t tid, cpu_regs_t *regs) {
  struct iovec iov = {regs, sizeof *regs};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0 && iov.iov_len == sizeof *regs;
}

bool cpu_write_regs(pid_t tid, const cpu_regs_t *regs) {
  struct iovec iov = {(void *)(uintptr_t)regs, sizeof *regs};
  return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) == 0;
}

/* `vector` begins with NEON's registers; behind them are those of SVE, if the CPU has any. */
#define NEON_BYTES sizeof(struct user_fpsimd_struct)

bool cpu_read(pid_t tid, cpu_state_t *state) {
  struct iovec neon = {state->vector, NEON_BYTES};
  struct iovec sve = {state->vector + NEON_BYTES, sizeof state->vector - NEON_BYTES};
  if (!cpu_read_regs(tid, &state->regs) || ptrace(PTRACE_GETREGSET, tid, NT_FPREGSET, &neon) != 0 ||
      ptrace(PTRACE_GETSIGMASK, tid, (void *)8, &state->signal_mask) != 0)
    return false;
  bool has_sve = ptrace(PTRACE_GETREGSET, tid, NT_ARM_SVE, &sve) == 0;
  state->vector_size = NEON_BYTES + (has_sve ? sve.iov_len : 0);
  return true;
}

bool cpu_restore(pid_t tid, const cpu_state_t *state) {
  struct iovec sve = {(void *)(uintptr_t)(state->vector + NEON_BYTES),
                      state->vector_size - NEON_BYTES};
  if (sve.iov_len) (void)ptrace(PTRACE_SETREGSET, tid, NT_ARM_SVE, &sve);
  return cpu_write_regs(tid, &state->regs);
}

uint64_t cpu_pc(const cpu_regs_t *regs) { return regs->pc; }
uint64_t cpu_sp(const cpu_regs_t *regs) { return regs->sp; }
int64_t cpu_result(const cpu_regs_t *regs) { return (int64_t)regs->regs[0]; }

long cpu_interrupted_call(const cpu_regs_t *regs) { return (long)regs->regs[8]; }

bool cpu_repeat_wait(cpu_regs_t *regs) {
  (void)regs;
  return false;
}

#define SIGNAL_INFO_BYTES   128u
#define INVALID_STACK_FLAGS 0x7fffu /* the alternate signal stack stays as it is */

/* struct rt_sigframe: siginfo, then struct ucontext with room for a mask of 1024 bits. */
typedef struct kernel_frame {
  uint8_t info[SIGNAL_INFO_BYTES];
  uint64_t flags, link, stack_sp;
  uint32_t stack_flags, padding;
  uint64_t stack_size;
  uint64_t mask, unused[15];
  struct sigcontext context;
} kernel_frame_t;

size_t cpu_frame(const cpu_state_t *state, uint64_t address, uint64_t restore, uint8_t *out) {
  const struct user_fpsimd_struct *neon = (const void *)state->vector;
  kernel_frame_t *frame = (void *)out;
  (void)address, (void)restore; /* the return address is in x30 */
  memset(frame, 0, sizeof *frame);
  frame->stack_flags = INVALID_STACK_FLAGS;
  frame->mask = state->signal_mask;
  memcpy(frame->context.regs, state->regs.regs, sizeof frame->context.regs);
  frame->context.sp = state->regs.sp;
  frame->context.pc = state->regs.pc;
  frame->context.pstate = state->regs.pstate;
  struct fpsimd_context *record = (void *)frame->context.__reserved;
  record->head.magic = FPSIMD_MAGIC;
  record->head.size = sizeof *record;
  record->fpsr = neon->fpsr;
  record->fpcr = neon->fpcr;
  memcpy(record->vregs, neon->vregs, sizeof record->vregs);
  return sizeof *frame;
}

void cpu_call(cpu_regs_t *regs, const cpu_code_t *code, uint64_t frame, const cpu_call_t *call) {
  regs->pc = code->call;
  regs->sp = frame;
  regs->regs[30] = code->restore;
  regs->regs[8] = (uint64_t)call->number;
  memcpy(regs->regs, call->args, sizeof call->args);
}

cpu_call_t cpu_clone(uint64_t flags, uint64_t stack, uint64_t tls) {
  return (cpu_call_t){SYS_clone, {flags, stack, 0, tls, 0, 0}};
}

static uint64_t find_code(const uint8_t *bytes, size_t size, uint64_t address, uint32_t first,
                          uint32_t second) {
  uint32_t words[2];
  for (size_t at = 0; at + sizeof words <= size; at += 4) {
    memcpy(words, bytes + at, sizeof words);
    if (words[0] == first && words[1] == second) return address + at;
  }
  return 0;
}

void cpu_find_code(const uint8_t *bytes, size_t size, uint64_t address, cpu_code_t *code) {
  const uint32_t svc = 0xd4000001, ret = 0xd65f03c0, mov_x8_139 = 0xd2801168;
  if (!code->call) code->call = find_code(bytes, size, address, svc, ret);
  if (!code->restore) code->restore = find_code(bytes, size, address, mov_x8_139, svc);
}

/* The C libraries keep a thread's structure below the thread pointer; nothing refers to itself. */
void cpu_fill_thread_area(uint8_t *area, size_t size, uint64_t address, uint64_t tls) {
  (void)address, (void)tls;
  memset(area, 0, size);
}

void cpu_start(cpu_regs_t *regs, const stub_start_t *start) {
  cpu_jump(regs, start->pc);
  regs->sp = start->stack;
  regs->regs[29] = regs->regs[30] = 0;
  regs->regs[19] = start->calls;
  regs->regs[20] = start->init_start, regs->regs[21] = start->init_end;
  regs->regs[22] = start->entry, regs->regs[23] = start->block;
}

void cpu_jump(cpu_regs_t *regs, uint64_t pc) { regs->pc = pc; }
