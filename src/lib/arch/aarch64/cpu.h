/* SPDX-License-Identifier: MIT
 *
 * The contract of arch.h for aarch64. System calls: number in x8, arguments in x0–x5, result in x0;
 * other registers are preserved (Linux, Documentation/arch/arm64). DWARF register numbers:
 * aadwarf64 table 4.1.
 */
#ifndef SONDE_ARCH_AARCH64_CPU_H
#define SONDE_ARCH_AARCH64_CPU_H

#if defined(__APPLE__)
#include <sys/ucontext.h>
#else
#include <ucontext.h>
#endif

#define ARCH_DWARF_REGISTERS 33 /* x0–x30, sp, pc */
#define ARCH_NAME            "aarch64"
#define ARCH_ADDRESS_BITS    48 /* of user space; programs get higher addresses only on request */

static inline long arch_syscall(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory", "cc");
  return x0;
}

static inline uint64_t arch_cycles(void) {
  uint64_t value;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
}

/* XPACLRI, which changes x30 only, is in the hint space: a CPU without pointer authentication
 * executes it as a NOP (Arm ARM, C6.2 XPAC). */
static inline uint64_t arch_strip(uint64_t pc) {
  register uint64_t x30 __asm__("x30") = pc;
  __asm__("hint #7" : "+r"(x30));
  return x30;
}

/* Arm ARM B2.7.4. The smallest cache line of CTR_EL0 has 16 bytes. */
static inline void arch_code_written(uint64_t address, uint64_t bytes) {
  for (uint64_t at = address & ~UINT64_C(15); at < address + bytes; at += 16)
    __asm__ volatile("dc cvau, %0" : : "r"(at) : "memory");
  __asm__ volatile("dsb ish" ::: "memory");
  for (uint64_t at = address & ~UINT64_C(15); at < address + bytes; at += 16)
    __asm__ volatile("ic ivau, %0" : : "r"(at) : "memory");
  __asm__ volatile("dsb ish\n\tisb" ::: "memory");
}

static inline void arch_relax(void) { __asm__ volatile("yield" ::: "memory"); }

/* valgrind.h: four rotations by 128 bits in total and x10 or x10 have no effect on a CPU. valgrind
 * recognizes them, and returns the result of the request at x4 in x3. */
static inline bool arch_on_valgrind(void) {
  const uint64_t request[6] = {ARCH_ASK_VALGRIND};
  register uint64_t answer __asm__("x3") = 0;
  register const uint64_t *asked __asm__("x4") = request;
  __asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\tror x12, x12, #51\n\t"
                   "ror x12, x12, #61\n\torr x10, x10, x10"
                   : "+r"(answer)
                   : "r"(asked)
                   : "cc", "memory");
  return answer != 0;
}

/* On Apple's systems the macros of the headers read signed pointers of an arm64e process. */
#if defined(__APPLE__)
static inline arch_frame_t arch_context_frame(const void *ucontext) {
  const _STRUCT_ARM_THREAD_STATE64 *m = &((const ucontext_t *)ucontext)->uc_mcontext->__ss;
  return (arch_frame_t){.pc = (uint64_t)__darwin_arm_thread_state64_get_pc(*m),
                        .sp = (uint64_t)__darwin_arm_thread_state64_get_sp(*m),
                        .fp = (uint64_t)__darwin_arm_thread_state64_get_fp(*m),
                        .lr = (uint64_t)__darwin_arm_thread_state64_get_lr(*m)};
}

static inline uint64_t arch_context_registers(const void *ucontext, uint64_t *registers,
                                              uint64_t *known) {
  const _STRUCT_ARM_THREAD_STATE64 *m = &((const ucontext_t *)ucontext)->uc_mcontext->__ss;
  arch_frame_t frame = arch_context_frame(ucontext);
  for (int n = 0; n < 29; n++)
    registers[n] = m->__x[n];
  registers[29] = frame.fp;
  registers[30] = frame.lr;
  registers[31] = frame.sp;
  registers[32] = frame.pc;
  *known = ((uint64_t)1 << ARCH_DWARF_REGISTERS) - 1;
  return frame.pc;
}
#else
static inline arch_frame_t arch_context_frame(const void *ucontext) {
  const mcontext_t *m = &((const ucontext_t *)ucontext)->uc_mcontext;
  return (arch_frame_t){.pc = m->pc, .sp = m->sp, .fp = m->regs[29], .lr = m->regs[30]};
}

#define ARCH_PUSHED_BYTES 16

static inline void arch_context_set_frame(void *ucontext, arch_frame_t frame) {
  mcontext_t *m = &((ucontext_t *)ucontext)->uc_mcontext;
  m->pc = frame.pc;
  m->sp = frame.sp;
  m->regs[29] = frame.fp;
  m->regs[30] = frame.lr;
}

/* The slot keeps the link register, which has the return address. */
static inline arch_frame_t arch_frame_interrupted(arch_frame_t entry, uint64_t slot) {
  return (arch_frame_t){
      .pc = entry.lr, .sp = entry.sp + ARCH_PUSHED_BYTES, .fp = entry.fp, .lr = slot};
}

static inline uint64_t arch_context_registers(const void *ucontext, uint64_t *registers,
                                              uint64_t *known) {
  const mcontext_t *m = &((const ucontext_t *)ucontext)->uc_mcontext;
  for (int n = 0; n < 31; n++)
    registers[n] = m->regs[n];
  registers[31] = m->sp;
  registers[32] = m->pc;
  *known = ((uint64_t)1 << ARCH_DWARF_REGISTERS) - 1;
  return m->pc;
}
#endif

/* See arch/x86_64/cpu.h. */
static inline __attribute__((always_inline)) uint64_t arch_here(uint64_t *registers,
                                                                uint64_t *known) {
  uint64_t pc, sp;
  __asm__ volatile("stp x19, x20, [%2, #152]\n\tstp x21, x22, [%2, #168]\n\t"
                   "stp x23, x24, [%2, #184]\n\tstp x25, x26, [%2, #200]\n\t"
                   "stp x27, x28, [%2, #216]\n\tstp x29, x30, [%2, #232]\n\t"
                   "mov %1, sp\n\tadr %0, ."
                   : "=&r"(pc), "=&r"(sp)
                   : "r"(registers)
                   : "memory");
  registers[31] = sp;
  *known = 0xfffull << 19 | 1ull << 31;
  return pc;
}

#if !defined(__APPLE__)
/* The area where the kernel saved the vector registers of UCONTEXT (asm/sigcontext.h:
 * fpsimd_context comes first). */
static inline uint64_t arch_context_vectors(const void *ucontext, uint64_t *size) {
  *size = 16 + 32 * 16;
  return (uint64_t)(uintptr_t)((const ucontext_t *)ucontext)->uc_mcontext.__reserved;
}

/* The syndrome register is one of the records after the registers (asm/sigcontext.h: esr_context).
 * Its class is 0x20 and 0x21 of an instruction abort, 0x24 and 0x25 of a data abort, where bit 6 is
 * a write (Arm ARM, ESR_EL1). */
static inline arch_access_t arch_context_access(const void *ucontext) {
  enum { SYNDROME = 0x45535201, RECORDS_MAX = 16, HEAD = 8, WRITE = 64 };
  const mcontext_t *m = &((const ucontext_t *)ucontext)->uc_mcontext;
  const uint8_t *p = (const uint8_t *)m->__reserved, *end = p + sizeof m->__reserved;
  for (int i = 0; i < RECORDS_MAX && end - p >= 2 * HEAD; i++) {
    uint32_t head[2]; /* magic, size */
    uint64_t syndrome;
    __builtin_memcpy(head, p, sizeof head);
    __builtin_memcpy(&syndrome, p + HEAD, sizeof syndrome);
    uint64_t class = syndrome >> 26 & 0x3f;
    if (head[0] == SYNDROME && class >> 1 == 0x10) return ARCH_ACCESS_EXECUTE;
    if (head[0] == SYNDROME && class >> 1 == 0x12)
      return syndrome & WRITE ? ARCH_ACCESS_WRITE : ARCH_ACCESS_READ;
    if (head[0] == SYNDROME || !head[0] || head[1] < HEAD || head[1] > end - p) break;
    p += head[1];
  }
  return ARCH_ACCESS_UNKNOWN;
}

/* The address of the calling thread's thread-local storage. */
static inline uint64_t arch_thread_pointer(void) {
  uint64_t pointer;
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
  return pointer;
}
/* See arch/x86_64/cpu.h. */
static inline bool arch_context_interrupted(const void *ucontext, uint64_t pc, uint64_t sp) {
  const mcontext_t *m = &((const ucontext_t *)ucontext)->uc_mcontext;
  return m->pc == pc && m->sp == sp && (int64_t)m->regs[0] == -4 &&
         *(const uint32_t *)(pc - 4) == 0xd4000001 /* svc #0 */;
}

static inline void arch_context_set_pc(void *ucontext, uint64_t pc) {
  ((ucontext_t *)ucontext)->uc_mcontext.pc = pc;
}

static inline void arch_context_repeat(void *ucontext, int64_t number, const uint64_t *arguments) {
  mcontext_t *m = &((ucontext_t *)ucontext)->uc_mcontext;
  for (int i = 0; i < 6; i++)
    m->regs[i] = arguments[i];
  m->regs[8] = (uint64_t)number;
  m->pc -= 4;
}
#endif

#endif
