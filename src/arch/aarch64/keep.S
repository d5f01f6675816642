/* SPDX-License-Identifier: MIT
 *
 * void arch_call_keeping(a, b, c, d, run): calls RUN(a, b, c, d) and brings back q0-q31 as they
 * were, of which AAPCS64 lets a function keep only the lower halves of 8-15. What lies beyond 128
 * bits in a processor with SVE is lost where RUN's memcpy uses it.
 */
#include "arch/assembly.inc"

        CODE
        .p2align 4
        .globl SYMBOL(arch_call_keeping)
        HIDDEN(arch_call_keeping)
        TYPE_OF(arch_call_keeping)
SYMBOL(arch_call_keeping):
        .cfi_startproc
        stp x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov x29, sp
        .cfi_def_cfa_register x29
        sub sp, sp, #512
        stp q0, q1, [sp, #0]
        stp q2, q3, [sp, #32]
        stp q4, q5, [sp, #64]
        stp q6, q7, [sp, #96]
        stp q8, q9, [sp, #128]
        stp q10, q11, [sp, #160]
        stp q12, q13, [sp, #192]
        stp q14, q15, [sp, #224]
        stp q16, q17, [sp, #256]
        stp q18, q19, [sp, #288]
        stp q20, q21, [sp, #320]
        stp q22, q23, [sp, #352]
        stp q24, q25, [sp, #384]
        stp q26, q27, [sp, #416]
        stp q28, q29, [sp, #448]
        stp q30, q31, [sp, #480]
        blr x4
        ldp q0, q1, [sp, #0]
        ldp q2, q3, [sp, #32]
        ldp q4, q5, [sp, #64]
        ldp q6, q7, [sp, #96]
        ldp q8, q9, [sp, #128]
        ldp q10, q11, [sp, #160]
        ldp q12, q13, [sp, #192]
        ldp q14, q15, [sp, #224]
        ldp q16, q17, [sp, #256]
        ldp q18, q19, [sp, #288]
        ldp q20, q21, [sp, #320]
        ldp q22, q23, [sp, #352]
        ldp q24, q25, [sp, #384]
        ldp q26, q27, [sp, #416]
        ldp q28, q29, [sp, #448]
        ldp q30, q31, [sp, #480]
        mov sp, x29
        ldp x29, x30, [sp], #16
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa sp, 0
        ret
        .cfi_endproc
        SIZE_OF(arch_call_keeping)

/* uint64_t arch_ask_keeping(a, run) */
        .globl SYMBOL(arch_ask_keeping)
        HIDDEN(arch_ask_keeping)
        TYPE_OF(arch_ask_keeping)
SYMBOL(arch_ask_keeping):
        .cfi_startproc
        stp x29, x30, [sp, #-16]!
        .cfi_def_cfa_offset 16
        .cfi_offset x29, -16
        .cfi_offset x30, -8
        mov x29, sp
        .cfi_def_cfa_register x29
        sub sp, sp, #128
        stp q0, q1, [sp, #0]
        stp q2, q3, [sp, #32]
        stp q4, q5, [sp, #64]
        stp q6, q7, [sp, #96]
        blr x1
        ldp q0, q1, [sp, #0]
        ldp q2, q3, [sp, #32]
        ldp q4, q5, [sp, #64]
        ldp q6, q7, [sp, #96]
        mov sp, x29
        ldp x29, x30, [sp], #16
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa sp, 0
        ret
        .cfi_endproc
        SIZE_OF(arch_ask_keeping)
        END_OF_FILE
