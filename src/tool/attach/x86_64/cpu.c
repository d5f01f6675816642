/* SPDX-License-Identifier: MIT
 *
 * Frame: struct rt_sigframe of linux arch/x86/include/asm/sigframe.h without its siginfo, which
 * rt_sigreturn does not read. Vector state: struct _fpx_sw_bytes of asm/sigcontext.h. Restart of
 * system calls: arch_do_signal_or_restart of arch/x86/kernel/signal.c.
 */
#define _GNU_SOURCE
#include "attach/cpu.h"

#include <asm/sigcontext.h>
#include <cpuid.h>
#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* linux/errno.h: results that only the kernel sees, and a tracer. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };

#define FLAGS_CLEARED 0x40500u /* trap, direction and alignment check */
#define SYSCALL_BYTES 2u

bool cpu_read_regs(pid_t tid, cpu_regs_t *regs) {
  struct iovec iov = {regs, sizeof *regs};
  return ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &iov) == 0 && iov.iov_len == sizeof *regs;
}

bool cpu_write_regs(pid_t tid, const cpu_regs_t *regs) {
  struct iovec iov = {(void *)(uintptr_t)regs, sizeof *regs};
  return ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &iov) == 0;
}

bool cpu_read(pid_t tid, cpu_state_t *state) {
  struct iovec iov = {state->vector, sizeof state->vector - 64};
  if (!cpu_read_regs(tid, &state->regs) ||
      ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &iov) != 0 ||
      ptrace(PTRACE_GETSIGMASK, tid, (void *)8, &state->signal_mask) != 0)
    return false;
  state->vector_size = iov.iov_len;
  return true;
}

/* A system call changes no vector state. */
bool cpu_restore(pid_t tid, const cpu_state_t *state) { return cpu_write_regs(tid, &state->regs); }

uint64_t cpu_pc(const cpu_regs_t *regs) { return regs->rip; }
uint64_t cpu_sp(const cpu_regs_t *regs) { return regs->rsp; }
int64_t cpu_result(const cpu_regs_t *regs) { return (int64_t)regs->rax; }

long cpu_interrupted_call(const cpu_regs_t *regs) {
  return (int64_t)regs->orig_rax < 0 ? -1 : (long)regs->orig_rax;
}

bool cpu_repeat_wait(cpu_regs_t *regs) {
  if ((int64_t)regs->orig_rax < 0 || (int64_t)regs->rax != -ERESTART_RESTARTBLOCK ||
      regs->orig_rax == SYS_restart_syscall)
    return false;
  regs->rax = (uint64_t) - (int64_t)ERESTARTNOHAND;
  return true;
}

/* A frame cannot hold a result such as ERESTARTSYS: with the frame, the call is made again. */
static cpu_regs_t restarted(const cpu_state_t *state) {
  const cpu_regs_t *regs = &state->regs;
  cpu_regs_t again = *regs;
  int64_t result = (int64_t)regs->rax;
  if ((int64_t)regs->orig_rax >= 0 &&
      (result == -ERESTARTSYS || result == -ERESTARTNOINTR || result == -ERESTARTNOHAND ||
       result == -ERESTART_RESTARTBLOCK)) {
    bool is_known = regs->orig_rax == SYS_restart_syscall && state->original_call >= 0;
    again.rax = is_known ? (uint64_t)state->original_call : regs->orig_rax;
    again.rip -= SYSCALL_BYTES;
  }
  return again;
}

/* struct ucontext of the kernel's asm/ucontext.h; its header clashes with the C library's. */
typedef struct kernel_ucontext {
  uint64_t flags, link, stack_sp;
  uint32_t stack_flags, padding;
  uint64_t stack_size;
  struct sigcontext context;
  uint64_t mask;
} kernel_ucontext_t;

#define UC_FP_XSTATE         1u
#define UC_SIGCONTEXT_SS     2u
#define UC_STRICT_RESTORE_SS 4u
#define INVALID_STACK_FLAGS  0x7fffu /* the alternate signal stack stays as it is */
#define XSAVE_USER_BYTES     464u    /* where the kernel has its part of the legacy area */
#define XSAVE_HEADER_BYTES   512u
#define AMX_FEATURES         (UINT64_C(3) << 17)

static void set_context(const cpu_regs_t *regs, struct sigcontext *c) {
  c->r8 = regs->r8, c->r9 = regs->r9, c->r10 = regs->r10, c->r11 = regs->r11;
  c->r12 = regs->r12, c->r13 = regs->r13, c->r14 = regs->r14, c->r15 = regs->r15;
  c->rdi = regs->rdi, c->rsi = regs->rsi, c->rbp = regs->rbp, c->rbx = regs->rbx;
  c->rdx = regs->rdx, c->rax = regs->rax, c->rcx = regs->rcx, c->rsp = regs->rsp;
  c->rip = regs->rip, c->eflags = regs->eflags;
  c->cs = (uint16_t)regs->cs;
  c->ss = (uint16_t)regs->ss;
}

/* The kernel refuses a frame with room for AMX if the program has not asked for AMX
 * (arch/x86/kernel/fpu/signal.c: check_xstate_in_sigframe). Such a program has no AMX state.
 * Returns the size of the others in the standard format (CPUID leaf 13), and removes AMX from
 * FEATURES. */
static size_t vector_bytes(const cpu_state_t *state, uint64_t *features) {
  uint64_t present;
  memcpy(features, state->vector + XSAVE_USER_BYTES, sizeof *features);
  memcpy(&present, state->vector + XSAVE_HEADER_BYTES, sizeof present);
  if (!(*features & AMX_FEATURES) || (present & AMX_FEATURES)) return state->vector_size;
  *features &= ~AMX_FEATURES;
  size_t size = XSAVE_HEADER_BYTES + 64;
  for (unsigned i = 2; i < 63; i++) {
    unsigned bytes, offset, c, d;
    if (!(*features >> i & 1) || !__get_cpuid_count(13, i, &bytes, &offset, &c, &d)) continue;
    if (offset + bytes > size) size = offset + bytes;
  }
  return size < state->vector_size ? size : state->vector_size;
}

/* The kernel's part of the legacy area says how large the whole is. Returns the size. */
static size_t set_vector(const cpu_state_t *state, uint8_t *out) {
  struct _fpx_sw_bytes own = {0};
  uint32_t end = FP_XSTATE_MAGIC2;
  size_t size = vector_bytes(state, (uint64_t *)&own.xfeatures);
  memcpy(out, state->vector, size);
  own.magic1 = FP_XSTATE_MAGIC1;
  own.xstate_size = (uint32_t)size;
  own.extended_size = own.xstate_size + (uint32_t)FP_XSTATE_MAGIC2_SIZE;
  memcpy(out + XSAVE_USER_BYTES, &own, sizeof own);
  memcpy(out + size, &end, sizeof end);
  return size + sizeof end;
}

size_t cpu_frame(const cpu_state_t *state, uint64_t address, uint64_t restore, uint8_t *out) {
  kernel_ucontext_t context = {.flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
                               .stack_flags = INVALID_STACK_FLAGS,
                               .mask = state->signal_mask};
  const cpu_regs_t regs = restarted(state);
  size_t vector_at = (sizeof restore + sizeof context + 63) & ~(size_t)63;
  set_context(&regs, &context.context);
  uint64_t vector = address + vector_at;
  memcpy(&context.context.fpstate, &vector, sizeof vector);
  memcpy(out, &restore, sizeof restore);
  memcpy(out + sizeof restore, &context, sizeof context);
  return vector_at + set_vector(state, out + vector_at);
}

void cpu_call(cpu_regs_t *regs, const cpu_code_t *code, uint64_t frame, const cpu_call_t *call) {
  regs->rip = code->call;
  regs->rsp = frame;
  regs->rax = (uint64_t)call->number;
  regs->orig_rax = UINT64_MAX; /* no call is to start again */
  regs->eflags &= ~(uint64_t)FLAGS_CLEARED;
  regs->rdi = call->args[0], regs->rsi = call->args[1], regs->rdx = call->args[2];
  regs->r10 = call->args[3], regs->r8 = call->args[4], regs->r9 = call->args[5];
}

cpu_call_t cpu_clone(uint64_t flags, uint64_t stack, uint64_t tls) {
  return (cpu_call_t){SYS_clone, {flags, stack, 0, 0, tls, 0}};
}

static uint64_t find_bytes(const uint8_t *bytes, size_t size, uint64_t address,
                           const uint8_t *wanted, size_t count) {
  const uint8_t *at = memmem(bytes, size, wanted, count);
  return at ? address + (uint64_t)(at - bytes) : 0;
}

void cpu_find_code(const uint8_t *bytes, size_t size, uint64_t address, cpu_code_t *code) {
  static const uint8_t call[] = {0x0f, 0x05, 0xc3}; /* syscall; ret */
  static const uint8_t restore64[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
  static const uint8_t restore32[] = {0xb8, 15, 0, 0, 0, 0x0f, 0x05}; /* mov $15,%eax; syscall */
  if (!code->call) code->call = find_bytes(bytes, size, address, call, sizeof call);
  if (!code->restore) code->restore = find_bytes(bytes, size, address, restore64, sizeof restore64);
  if (!code->restore) code->restore = find_bytes(bytes, size, address, restore32, sizeof restore32);
}

/* The first and third word refer to the area itself (glibc: tcbhead_t; musl: struct pthread). */
void cpu_fill_thread_area(uint8_t *area, size_t size, uint64_t address, uint64_t tls) {
  memset(area, 0, size);
  memcpy(area + (tls - address), &tls, sizeof tls);
  memcpy(area + (tls - address) + 16, &tls, sizeof tls);
}

void cpu_start(cpu_regs_t *regs, const stub_start_t *start) {
  cpu_jump(regs, start->pc);
  regs->rsp = start->stack;
  regs->rbp = 0;
  regs->rbx = start->calls;
  regs->r12 = start->init_start, regs->r13 = start->init_end;
  regs->r14 = start->entry, regs->r15 = start->block;
}

void cpu_jump(cpu_regs_t *regs, uint64_t pc) {
  regs->rip = pc;
  regs->orig_rax = UINT64_MAX;
  regs->eflags &= ~(uint64_t)FLAGS_CLEARED;
}
