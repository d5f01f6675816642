/* SPDX-License-Identifier: MIT
 *
 * ENTRY_n(name, target): a public function of n arguments that hands TARGET, besides them, the pc,
 * stack pointer and frame pointer its caller will have once it has returned:
 *   target(argument…, uint64_t pc, uint64_t sp, uint64_t fp)
 * Being assembly that makes no frame, it tells the caller's registers exactly at every level of
 * optimisation, and cannot be inlined.
 */
#ifndef SONDE_ARCH_X86_64_ENTRY_H
#define SONDE_ARCH_X86_64_ENTRY_H

#include "arch/symbol.h"

#define ENTRY_(name, target, pc, sp, fp)                                                           \
  __asm__(FUNCTION_BEGIN(name) ".cfi_startproc\n"                                                  \
                               "\tmovq (%rsp), %" pc "\n\tleaq 8(%rsp), %" sp                      \
                               "\n\tmovq %rbp, %" fp "\n\tjmp " PREFIX #target                     \
                               "\n.cfi_endproc\n" FUNCTION_END(name))

#define ENTRY_1(name, target) ENTRY_(name, target, "rsi", "rdx", "rcx")
#define ENTRY_2(name, target) ENTRY_(name, target, "rdx", "rcx", "r8")
#define ENTRY_3(name, target) ENTRY_(name, target, "rcx", "r8", "r9")

/* ENTRY_BEFORE(name, answer, next): a hidden function of up to three arguments that asks ANSWER, a
 * function of these three and the caller's pc, and returns what it says; when that is 0, it goes on
 * in the function at *NEXT as if that had been called in its place. */
#define ENTRY_BEFORE(name, answer, next)                                                           \
  __asm__(HIDE_SYMBOL(name)                                                                        \
              FUNCTION_BEGIN(name) ".cfi_startproc\n"                                              \
                                   "\tpushq %rdi\n\t.cfi_adjust_cfa_offset 8\n"                    \
                                   "\tpushq %rsi\n\t.cfi_adjust_cfa_offset 8\n"                    \
                                   "\tpushq %rdx\n\t.cfi_adjust_cfa_offset 8\n"                    \
                                   "\tmovq 24(%rsp), %rcx\n\tcall " PREFIX #answer "\n"            \
                                   "\tpopq %rdx\n\t.cfi_adjust_cfa_offset -8\n"                    \
                                   "\tpopq %rsi\n\t.cfi_adjust_cfa_offset -8\n"                    \
                                   "\tpopq %rdi\n\t.cfi_adjust_cfa_offset -8\n"                    \
                                   "\ttestq %rax, %rax\n\tje 1f\n\tret\n1:\tjmp *" PREFIX #next    \
                                   "(%rip)\n"                                                      \
                                   ".cfi_endproc\n" FUNCTION_END(name))

#endif
