/* SPDX-License-Identifier: MIT
 *
 * void arch_call_keeping(a, b, c, d, run): calls RUN(a, b, c, d) and restores q0-q31. AAPCS64
 * requires a function to preserve only the lower halves of q8-q15. On a processor with SVE the bits
 * beyond 128 are lost if RUN's memcpy uses them.
 */
#include "arch/assembly.inc"

/* \what is stp or ldp. */
        .macro ARGUMENT_VECTORS what
        \what q0, q1, [sp, #0]
        \what q2, q3, [sp, #32]
        \what q4, q5, [sp, #64]
        \what q6, q7, [sp, #96]
        .endm

        .macro OTHER_VECTORS what
        \what q8, q9, [sp, #128]
        \what q10, q11, [sp, #160]
        \what q12, q13, [sp, #192]
        \what q14, q15, [sp, #224]
        \what q16, q17, [sp, #256]
        \what q18, q19, [sp, #288]
        \what q20, q21, [sp, #320]
        \what q22, q23, [sp, #352]
        \what q24, q25, [sp, #384]
        \what q26, q27, [sp, #416]
        \what q28, q29, [sp, #448]
        \what q30, q31, [sp, #480]
        .endm

/* ENTER makes a frame with \bytes of space below it; the next macro removes the frame. */
        .macro ENTER bytes
        .cfi_startproc
        stp x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov x29, sp
        .cfi_def_cfa_register x29
        sub sp, sp, #\bytes
        .endm

        .macro LEAVE
        mov sp, x29
        ldp x29, x30, [sp], #16
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa sp, 0
        ret
        .cfi_endproc
        .endm

        CODE
        .p2align 4
        .globl SYMBOL(arch_call_keeping)
        HIDDEN(arch_call_keeping)
        TYPE_OF(arch_call_keeping)
SYMBOL(arch_call_keeping):
        ENTER 512
        ARGUMENT_VECTORS stp
        OTHER_VECTORS stp
        blr x4
        ARGUMENT_VECTORS ldp
        OTHER_VECTORS ldp
        LEAVE
        SIZE_OF(arch_call_keeping)

/* uint64_t arch_ask_keeping(a, run) */
        .globl SYMBOL(arch_ask_keeping)
        HIDDEN(arch_ask_keeping)
        TYPE_OF(arch_ask_keeping)
SYMBOL(arch_ask_keeping):
        ENTER 128
        ARGUMENT_VECTORS stp
        blr x1
        ARGUMENT_VECTORS ldp
        LEAVE
        SIZE_OF(arch_ask_keeping)

/* void arch_read_vectors(uint64_t out[16]) */
        .p2align 4
        .globl SYMBOL(arch_read_vectors)
        HIDDEN(arch_read_vectors)
        TYPE_OF(arch_read_vectors)
SYMBOL(arch_read_vectors):
        .cfi_startproc
        stp q0, q1, [x0]
        stp q2, q3, [x0, #32]
        stp q4, q5, [x0, #64]
        stp q6, q7, [x0, #96]
        ret
        .cfi_endproc
        SIZE_OF(arch_read_vectors)
        END_OF_FILE
