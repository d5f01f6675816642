/* SPDX-License-Identifier: MIT
 *
 * Layouts: x86_64 struct user_regs_struct (linux arch/x86/include/asm/user_64.h); aarch64 struct
 * user_pt_regs (arch/arm64/include/uapi/asm/ptrace.h). They are repeated here because the headers
 * of one CPU do not describe the other.
 */
#include "target/registers.h"

#include <string.h>

#define X86_64_WORDS  27
#define AARCH64_WORDS 34

/* DWARF numbers of r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi, in that order. */
static const uint8_t x86_64_order[15] = {15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5};
enum { WORD_RAX = 10, WORD_ORIG_RAX = 15, WORD_RIP = 16, WORD_RSP = 19 };

static size_t words_of(machine_t machine) {
  return machine == MACHINE_X86_64 ? X86_64_WORDS : AARCH64_WORDS;
}

static bool words_read(machine_t machine, const void *data, size_t size, uint64_t *words) {
  if (size != words_of(machine) * 8) return false;
  memcpy(words, data, size);
  return true;
}

bool registers_read(machine_t machine, const void *data, size_t size, regs_t *regs) {
  uint64_t words[AARCH64_WORDS];
  memset(regs, 0, sizeof *regs);
  if (!words_read(machine, data, size, words)) return false;
  if (machine == MACHINE_X86_64) {
    for (int i = 0; i < 15; i++)
      regs_set(regs, x86_64_order[i], words[i]);
    regs_set(regs, X86_64_RSP, words[WORD_RSP]);
    regs->pc = words[WORD_RIP];
  } else {
    for (int i = 0; i <= AARCH64_SP; i++)
      regs_set(regs, i, words[i]);
    regs->pc = words[AARCH64_PC];
  }
  return true;
}

/* x86_64: orig_rax is -1 outside a system call, but keeps the number after a call that no signal
 * interrupted. In a thread that is stopped within a call, rax is a restart code or the result.
 * aarch64 does not keep the number. */
long registers_syscall(machine_t machine, const void *data, size_t size, uint64_t args[6]) {
  static const uint8_t x86_64_args[6] = {14, 13, 12, 7, 9, 8}; /* rdi rsi rdx r10 r8 r9 */
  uint64_t words[AARCH64_WORDS];
  if (machine != MACHINE_X86_64 || !words_read(machine, data, size, words)) return -1;
  int64_t number = (int64_t)words[WORD_ORIG_RAX];
  if (number < 0 || number > 4096) return -1;
  for (int i = 0; i < 6; i++)
    args[i] = words[x86_64_args[i]];
  return (long)number;
}

/* x8 is the number while the pc is after the svc or at it: after an interrupted call, the kernel
 * moves the pc back to the svc (arch/arm64/kernel/signal.c). */
long registers_syscall_by_code(machine_t machine, const regs_t *regs, memory_t *memory,
                               uint64_t args[6]) {
  const uint32_t svc = 0xd4000001;
  uint32_t code[2];
  if (machine != MACHINE_AARCH64 || !memory->read(memory, regs->pc - 4, code, sizeof code) ||
      (code[0] != svc && code[1] != svc) || regs->r[8] > 4096)
    return -1;
  memcpy(args, regs->r, 6 * sizeof *args);
  return (long)regs->r[8];
}
