/* SPDX-License-Identifier: MIT
 *
 * The trampoline for aarch64; hook/trampoline.h describes it.
 *
 * Before the target it preserves x0 to x8 (x8: the address of a large result), x18 (the static
 * chain of a nested function) and x30; after the target x0 to x8. Around both it preserves x9 to x15
 * too: a caller in the same image may know which registers a function leaves alone (gcc's -fipa-ra).
 * Vector registers are used neither
 * here nor in the C code that is called. x16 and x17 are free between a call and the function that
 * it reaches (AAPCS64, 6.1.1).
 *
 * While the target runs, the stack holds nothing of the trampoline: the CFA is the stack pointer,
 * x29 points to the call_t, whose first two words are the caller's x29 and return address. The
 * return address is the one that the call left in x30; it is not signed yet.
 */
#include "arch/assembly.inc"
#include "arch/trampoline.h"

#define FP_AT_FP .cfi_escape 0x10, 29, 2, 0x8d, CALL_CALLER_FP      /* DW_OP_breg29 */
#define LR_AT_FP .cfi_escape 0x10, 30, 2, 0x8d, CALL_RETURN_ADDRESS
#define BTI_C    hint #34
#define BTI_J    hint #36

        .macro EIGHT what       /* x0 to x7, in a frame whose first two words are x29 and x30 */
        \what x0, x1, [sp, #16]
        \what x2, x3, [sp, #32]
        \what x4, x5, [sp, #48]
        \what x6, x7, [sp, #64]
        .endm

        .macro SIX what, at     /* x10 to x15 */
        \what x10, x11, [sp, #\at]
        \what x12, x13, [sp, #\at + 16]
        \what x14, x15, [sp, #\at + 32]
        .endm

        CODE
        .p2align 4
        .globl SYMBOL(sonde_trampoline)
        TYPE_OF(sonde_trampoline)
        HIDDEN(trampolines)
        HIDDEN(trampoline_before)
        HIDDEN(trampoline_after)
        HIDDEN(trampoline_exception)
        HIDDEN(trampoline_personality)
SYMBOL(sonde_trampoline):
        .cfi_startproc
        .cfi_personality PERSONALITY(trampoline_personality)

LOCAL(thunks):
        .set LOCAL(number), 0
        .rept TRAMPOLINE_COUNT
        BTI_C
        adrp x17, PAGE_OF(SYMBOL(trampolines) + (LOCAL(number) << TRAMPOLINE_SHIFT))
        add x17, x17, LOW_OF(SYMBOL(trampolines) + (LOCAL(number) << TRAMPOLINE_SHIFT))
        b LOCAL(body)
        .set LOCAL(number), LOCAL(number) + 1
        .endr

LOCAL(body):
LOCAL(moved):
        BTI_C
        ldr x16, [x17, #TRAMPOLINE_CALLS]
        cbz x16, LOCAL(straight)
        stp x29, x30, [sp, #-160]!
        .cfi_def_cfa_offset 160
        .cfi_offset 29, -160
        .cfi_offset 30, -152
        mov x29, sp
        EIGHT stp
        SIX stp, 112
        stp x8, x18, [sp, #80]
        stp x17, x9, [sp, #96]
        mov x0, x17
        add x1, sp, #160        /* the caller's stack pointer */
        ldr x2, [sp]
        mov x3, x30
        add x4, sp, #16         /* the arguments */
        bl SYMBOL(trampoline_before)    /* a call_t, or 0 */
        mov x16, x0
        EIGHT ldp
        SIX ldp, 112
        ldp x8, x18, [sp, #80]
        ldp x17, x9, [sp, #96]
        ldp x29, x30, [sp], #160
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        cbz x16, LOCAL(straight)
        mov x29, x16
        .cfi_remember_state
        FP_AT_FP
        LR_AT_FP
        ldr x16, [x29, #CALL_TRAMPOLINE]
        ldr x16, [x16, #TRAMPOLINE_TARGET]
        blr x16

LOCAL(return):
        ldp x16, x30, [x29]
        .cfi_same_value 30
        mov x17, x29
        mov x29, x16
        .cfi_same_value 29
        stp x29, x30, [sp, #-144]!
        .cfi_def_cfa_offset 144
        .cfi_offset 29, -144
        .cfi_offset 30, -136
        mov x29, sp
        EIGHT stp
        stp x8, x9, [sp, #80]
        SIX stp, 96
        mov x0, x17
        add x1, sp, #16         /* the results: x0, x1 */
        bl SYMBOL(trampoline_after)
        EIGHT ldp
        ldp x8, x9, [sp, #80]
        SIX ldp, 96
        ldp x29, x30, [sp], #144
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        ret

LOCAL(straight):
        .cfi_restore_state
        ldr x16, [x17, #TRAMPOLINE_TARGET]
        br x16

/* The personality makes the unwinder continue here. The registers are those of the frame at LOCAL(return),
 * except x0, the exception, and x1, the unwinder's _Unwind_Resume. This code removes the call and
 * calls _Unwind_Resume as if the caller had called it in place of the hooked function. */
LOCAL(landing):
        BTI_J
        FP_AT_FP
        LR_AT_FP
        ldp x16, x30, [x29]
        .cfi_same_value 30
        mov x17, x29
        mov x29, x16
        .cfi_same_value 29
        stp x29, x30, [sp, #-32]!
        .cfi_def_cfa_offset 32
        .cfi_offset 29, -32
        .cfi_offset 30, -24
        mov x29, sp
        stp x0, x1, [sp, #16]
        mov x0, x17
        bl SYMBOL(trampoline_exception)
        ldp x0, x16, [sp, #16]
        ldp x29, x30, [sp], #32
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        br x16
        .cfi_endproc
        SIZE_OF(sonde_trampoline)

#include "arch/trampoline_offsets.inc"
