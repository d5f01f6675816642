/* SPDX-License-Identifier: MIT
 *
 * ENTRY_n(name, target) defines a public function of n arguments. It passes them to TARGET, with
 * the pc, stack pointer and frame pointer that its caller will have after the return:
 *   target(argument…, uint64_t pc, uint64_t sp, uint64_t fp)
 * The function is assembly without a frame. So the caller's registers are exact at every
 * optimization level, and the function cannot be inlined.
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

/* ENTRY_BEFORE(name, answer, next) defines a hidden function of up to three arguments. It calls
 * ANSWER with these three and the caller's pc, and returns the result. If the result is 0, it jumps
 * to the function at *NEXT, as if the caller had called that function. */
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
