/* SPDX-License-Identifier: MIT
 *
 * void arch_call_on(top, run, argument): see arch/call_on.h. A shadow stack stays
 * consistent, since each call here returns.
 */
#include "arch/assembly.inc"
#include "arch/call_on.h"

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
        movabsq $CALL_ON_MARK, %rax
        movq %rax, -8(%rdi)
        movq %rbp, -16(%rdi)
        leaq -16(%rdi), %rsp
        movq %rdx, %rdi
        call *%rsi
        movq %rsp, %rdx
        leave
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        movq $0, 8(%rdx)
        ret
        .cfi_endproc
        SIZE_OF(arch_call_on)
        END_OF_FILE
