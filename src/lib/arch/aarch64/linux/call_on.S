/* SPDX-License-Identifier: MIT
 *
 * void arch_call_on(top, run, argument): see arch/call_on.h.
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
        stp x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov x29, sp
        .cfi_def_cfa_register x29
        mov x16, #(CALL_ON_MARK & 0xffff)
        movk x16, #(CALL_ON_MARK >> 16 & 0xffff), lsl #16
        movk x16, #(CALL_ON_MARK >> 32 & 0xffff), lsl #32
        movk x16, #(CALL_ON_MARK >> 48), lsl #48
        stp x29, x16, [x0, #-16]!
        mov sp, x0
        mov x0, x2
        blr x1
        mov x1, sp
        mov sp, x29
        str xzr, [x1, #8]
        ldp x29, x30, [sp], #16
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa sp, 0
        ret
        .cfi_endproc
        SIZE_OF(arch_call_on)
        END_OF_FILE
