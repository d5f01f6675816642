/* SPDX-License-Identifier: MIT
 *
 * void arch_call_on(top, run, argument): see arch/call_on.h. A shadow stack stays
 * consistent, since each call here returns.
 */
#include "arch/assembly.inc"

        CODE
        .p2align 4
        .globl SYMBOL(arch_call_on)
        HIDDEN(arch_call_on)
        TYPE_OF(arch_call_on)
SYMBOL(arch_call_on):
        .cfi_startproc
        endbr64
        pushq %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq %rsp, %rbp
        .cfi_def_cfa_register %rbp
        movq %rdi, %rsp
        movq %rdx, %rdi
        call *%rsi
        leave
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        SIZE_OF(arch_call_on)
        END_OF_FILE
