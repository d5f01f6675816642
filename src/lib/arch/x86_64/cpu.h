/* SPDX-License-Identifier: MIT
 *
 * The contract of arch.h for x86_64. System calls: psABI A.2.1 (number in rax, arguments in rdi rsi
 * rdx r10 r8 r9; rcx and r11 are overwritten). DWARF register numbers: psABI figure 3.36.
 */
#ifndef SONDE_ARCH_X86_64_CPU_H
#define SONDE_ARCH_X86_64_CPU_H

#if defined(__APPLE__)
#include <sys/ucontext.h>
#else
#include <ucontext.h>
#endif

#define ARCH_DWARF_REGISTERS 17
#define ARCH_NAME            "x86_64"
#define ARCH_ADDRESS_BITS    47 /* of user space; programs get higher addresses only on request */

/* Indexes of mcontext_t.gregs, which is the kernel's struct sigcontext (asm/sigcontext.h). The C
 * library defines names for them only with _GNU_SOURCE. */
enum {
  ARCH_GREG_RBP = 10,
  ARCH_GREG_RAX = 13,
  ARCH_GREG_RSP = 15,
  ARCH_GREG_RIP = 16,
};

static inline long arch_syscall(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

static inline uint64_t arch_cycles(void) {
  uint64_t low, high; /* the instruction clears the upper halves of both registers */
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return high << 32 | low;
}

static inline uint64_t arch_strip(uint64_t pc) { return pc; }

static inline void arch_code_written(uint64_t address, uint64_t bytes) {
  (void)address, (void)bytes;
}

static inline void arch_relax(void) { __asm__ volatile("pause" ::: "memory"); }

/* valgrind.h: four rotations by 128 bits in total and an exchange of rbx with itself have no effect
 * on a CPU. valgrind recognizes them, and returns the result of the request at rax in rdx. */
static inline bool arch_on_valgrind(void) {
  const uint64_t request[6] = {ARCH_ASK_VALGRIND};
  uint64_t answer = 0;
  __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                   "xchgq %%rbx, %%rbx"
                   : "+d"(answer)
                   : "a"(request)
                   : "cc", "memory");
  return answer != 0;
}

#if defined(__APPLE__)
static inline arch_frame_t arch_context_frame(const void *ucontext) {
  const _STRUCT_X86_THREAD_STATE64 *m = &((const ucontext_t *)ucontext)->uc_mcontext->__ss;
  return (arch_frame_t){.pc = m->__rip, .sp = m->__rsp, .fp = m->__rbp, .lr = 0};
}

static inline uint64_t arch_context_registers(const void *ucontext, uint64_t *registers,
                                              uint64_t *known) {
  const _STRUCT_X86_THREAD_STATE64 *m = &((const ucontext_t *)ucontext)->uc_mcontext->__ss;
  const uint64_t all[ARCH_DWARF_REGISTERS] = {
      m->__rax, m->__rdx, m->__rcx, m->__rbx, m->__rsi, m->__rdi, m->__rbp, m->__rsp, m->__r8,
      m->__r9,  m->__r10, m->__r11, m->__r12, m->__r13, m->__r14, m->__r15, m->__rip};
  __builtin_memcpy(registers, all, sizeof all);
  *known = ((uint64_t)1 << ARCH_DWARF_REGISTERS) - 1;
  return m->__rip;
}
#else
static inline arch_frame_t arch_context_frame(const void *ucontext) {
  const greg_t *g = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
  return (arch_frame_t){.pc = (uint64_t)g[ARCH_GREG_RIP],
                        .sp = (uint64_t)g[ARCH_GREG_RSP],
                        .fp = (uint64_t)g[ARCH_GREG_RBP],
                        .lr = 0};
}

#define ARCH_PUSHED_BYTES 8

static inline void arch_context_set_frame(void *ucontext, arch_frame_t frame) {
  greg_t *g = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
  g[ARCH_GREG_RIP] = (greg_t)frame.pc;
  g[ARCH_GREG_RSP] = (greg_t)frame.sp;
  g[ARCH_GREG_RBP] = (greg_t)frame.fp;
}

static inline arch_frame_t arch_frame_interrupted(arch_frame_t entry, uint64_t slot) {
  return (arch_frame_t){.pc = slot, .sp = entry.sp + ARCH_PUSHED_BYTES, .fp = entry.fp, .lr = 0};
}

static inline uint64_t arch_context_registers(const void *ucontext, uint64_t *registers,
                                              uint64_t *known) {
  /* rax rdx rcx rbx rsi rdi rbp rsp r8 … r15 */
  static const uint8_t order[16] = {13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7};
  const greg_t *g = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
  for (int n = 0; n < 16; n++)
    registers[n] = (uint64_t)g[order[n]];
  registers[16] = (uint64_t)g[ARCH_GREG_RIP];
  *known = ((uint64_t)1 << ARCH_DWARF_REGISTERS) - 1;
  return (uint64_t)g[ARCH_GREG_RIP];
}

/* REG_ERR and REG_TRAPNO of ucontext.h. Exception 14 is a page fault; bits 1 and 4 of its error
 * code are a write and an instruction fetch (Intel SDM 3, 4.7). */
static inline arch_access_t arch_context_access(const void *ucontext) {
  enum { ERR = 19, TRAPNO = 20, PAGE_FAULT = 14, WRITE = 2, FETCH = 16 };
  const greg_t *g = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
  if (g[TRAPNO] != PAGE_FAULT) return ARCH_ACCESS_UNKNOWN;
  return g[ERR] & FETCH   ? ARCH_ACCESS_EXECUTE
         : g[ERR] & WRITE ? ARCH_ACCESS_WRITE
                          : ARCH_ACCESS_READ;
}
#endif

#if !defined(__APPLE__)
/* The area where the kernel saved the vector registers of UCONTEXT: the legacy area, the header,
 * and the upper halves (Intel SDM 1, 13.4: XSAVE). */
static inline uint64_t arch_context_vectors(const void *ucontext, uint64_t *size) {
  *size = 512 + 64 + 256;
  return (uint64_t)(uintptr_t)((const ucontext_t *)ucontext)->uc_mcontext.fpregs;
}

/* The address of the calling thread's thread-local storage, whose first word holds that address. */
static inline uint64_t arch_thread_pointer(void) {
  uint64_t pointer;
  __asm__("movq %%fs:0, %0" : "=r"(pointer));
  return pointer;
}
/* Returns true if UCONTEXT is the state right after the system call before PC, which a signal ended
 * with EINTR, with no frame in between. */
static inline bool arch_context_interrupted(const void *ucontext, uint64_t pc, uint64_t sp) {
  const greg_t *g = ((const ucontext_t *)ucontext)->uc_mcontext.gregs;
  return (uint64_t)g[ARCH_GREG_RIP] == pc && (uint64_t)g[ARCH_GREG_RSP] == sp &&
         g[ARCH_GREG_RAX] == -4 && *(const uint16_t *)(pc - 2) == 0x050f /* syscall */;
}

/* Makes the thread continue at PC. */
static inline void arch_context_set_pc(void *ucontext, uint64_t pc) {
  ((ucontext_t *)ucontext)->uc_mcontext.gregs[ARCH_GREG_RIP] = (greg_t)pc;
}

/* Makes the thread repeat the system call NUMBER with ARGUMENTS. */
static inline void arch_context_repeat(void *ucontext, int64_t number, const uint64_t *arguments) {
  static const uint8_t order[6] = {8, 9, 12, 2, 0, 1}; /* rdi rsi rdx r10 r8 r9 */
  greg_t *g = ((ucontext_t *)ucontext)->uc_mcontext.gregs;
  for (int i = 0; i < 6; i++)
    g[order[i]] = (greg_t)arguments[i];
  g[ARCH_GREG_RAX] = number;
  g[ARCH_GREG_RIP] -= 2;
}
#endif

/* Stores the callee-saved registers, the stack pointer and the pc of the calling function by DWARF
 * number, which suffices to unwind from this instruction. Returns the pc. */
static inline __attribute__((always_inline)) uint64_t arch_here(uint64_t *registers,
                                                                uint64_t *known) {
  uint64_t pc;
  __asm__ volatile("movq %%rbx, 24(%1)\n\tmovq %%rbp, 48(%1)\n\tmovq %%rsp, 56(%1)\n\t"
                   "movq %%r12, 96(%1)\n\tmovq %%r13, 104(%1)\n\tmovq %%r14, 112(%1)\n\t"
                   "movq %%r15, 120(%1)\n\tleaq 0(%%rip), %0"
                   : "=&r"(pc)
                   : "r"(registers)
                   : "memory");
  *known = 1u << 3 | 1u << 6 | 1u << 7 | 0xfu << 12;
  return pc;
}

#endif
