/* SPDX-License-Identifier: MIT
 *
 * void arch_call_on(top, run, argument): see arch/call_on.h.
 */
#include "arch/assembly.inc"

        CODE
        .p2align 4
        .globl SYMBOL(arch_call_on)
        HIDDEN(arch_call_on)
        TYPE_OF(arch_call_on)
SYMBOL(arch_call_on):
        .cfi_startproc
        stp x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov x29, sp
        .cfi_def_cfa_register x29
        mov sp, x0
        mov x0, x2
        blr x1
        mov sp, x29
        ldp x29, x30, [sp], #16
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa sp, 0
        ret
        .cfi_endproc
        SIZE_OF(arch_call_on)
        END_OF_FILE
