/* SPDX-License-Identifier: MIT
 *
 * ENTRY_n(name, target): see arch/x86_64/entry.h. The call has just written the return address to
 * x30, so it is not signed yet.
 */
#ifndef SONDE_ARCH_AARCH64_ENTRY_H
#define SONDE_ARCH_AARCH64_ENTRY_H

#include "arch/symbol.h"

#define ENTRY_(name, target, pc, sp_, fp)                                                          \
  __asm__(FUNCTION_BEGIN(name) ".cfi_startproc\n\tmov " pc ", x30\n\tmov " sp_ ", sp\n\tmov " fp   \
                               ", x29\n\tb " PREFIX #target "\n.cfi_endproc\n" FUNCTION_END(name))

#define ENTRY_1(name, target) ENTRY_(name, target, "x1", "x2", "x3")
#define ENTRY_2(name, target) ENTRY_(name, target, "x2", "x3", "x4")
#define ENTRY_3(name, target) ENTRY_(name, target, "x3", "x4", "x5")

/* ENTRY_BEFORE(name, answer, next) defines a hidden function of up to three arguments. It calls
 * ANSWER with these three and the caller's pc, and returns the result. If the result is 0, it jumps
 * to the function at *NEXT, as if the caller had called that function. */
#define ENTRY_BEFORE(name, answer, next)                                                           \
  __asm__(HIDE_SYMBOL(name) FUNCTION_BEGIN(                                                        \
      name) ".cfi_startproc\n"                                                                     \
            "\tstp x29, x30, [sp, #-48]!\n\t.cfi_def_cfa_offset 48\n"                              \
            "\t.cfi_offset 29, -48\n\t.cfi_offset 30, -40\n\tmov x29, sp\n"                        \
            "\tstp x0, x1, [sp, #16]\n\tstr x2, [sp, #32]\n\tmov x3, x30\n"                        \
            "\tbl " PREFIX #answer "\n"                                                            \
            "\tmov x9, x0\n\tldp x0, x1, [sp, #16]\n\tldr x2, [sp, #32]\n"                         \
            "\tldp x29, x30, [sp], #48\n\t.cfi_restore 29\n\t.cfi_restore 30\n"                    \
            "\t.cfi_def_cfa_offset 0\n\tcbz x9, 1f\n\tmov x0, x9\n\tret\n"                         \
            "1:\tadrp x9, " PAGE_OF #next PAGE_END "\n"                                            \
            "\tldr x9, [x9, " LOW_OF #next LOW_END "]\n\tbr x9\n"                                  \
            ".cfi_endproc\n" FUNCTION_END(name))

#endif
