/* SPDX-License-Identifier: MIT
 *
 * ENTRY_n(name, target): see arch/x86_64/entry.h. The return address is in x30, which the call that
 * led here has just written, so it is not signed yet.
 */
#ifndef SONDE_ARCH_AARCH64_ENTRY_H
#define SONDE_ARCH_AARCH64_ENTRY_H

#define ENTRY_(name, target, pc, sp_, fp)                                                          \
  __asm__(".pushsection .text\n.p2align 4\n.globl " #name "\n.type " #name ", %function\n" #name    \
          ":\n.cfi_startproc\n\tmov " pc ", x30\n\tmov " sp_ ", sp\n\tmov " fp ", x29\n\tb " #target \
          "\n.cfi_endproc\n.size " #name ", . - " #name "\n.popsection\n")

#define ENTRY_1(name, target) ENTRY_(name, target, "x1", "x2", "x3")
#define ENTRY_2(name, target) ENTRY_(name, target, "x2", "x3", "x4")
#define ENTRY_3(name, target) ENTRY_(name, target, "x3", "x4", "x5")

#endif
