/* SPDX-License-Identifier: MIT
 *
 * The trampoline for aarch64: hook/trampoline.h tells what it does.
 *
 * Kept for the target are x0 to x8 (x8: where a large result goes), x18 (a nested function's chain)
 * and x30; after it x0 to x8 again. Vector registers are not touched, here or in the C that is
 * called. x16 and x17 are free between a call and the function it reaches (AAPCS64, 6.1.1).
 *
 * While the target runs, nothing of the trampoline is on the stack: the CFA is the stack pointer,
 * x29 points to the call_t, and the caller's x29 and return address are its first two words. The
 * return address is the one that the call left in x30, which nobody has signed yet.
 */
#include "arch/trampoline.h"

#define FP_AT_FP .cfi_escape 0x10, 29, 2, 0x8d, CALL_CALLER_FP      /* DW_OP_breg29 */
#define LR_AT_FP .cfi_escape 0x10, 30, 2, 0x8d, CALL_RETURN_ADDRESS
#define BTI_C    hint #34
#define BTI_J    hint #36

        .text
        .p2align 4
        .globl sonde_trampoline
        .type sonde_trampoline, %function
        .hidden trampolines, trampoline_before, trampoline_after, trampoline_thrown
        .hidden trampoline_personality
sonde_trampoline:
        .cfi_startproc
        .cfi_personality 0x1b, trampoline_personality /* pc-relative, 4 bytes */

.Lthunks:
        .set .Lnumber, 0
        .rept TRAMPOLINE_COUNT
        BTI_C
        adrp x17, trampolines + (.Lnumber << TRAMPOLINE_SHIFT)
        add x17, x17, :lo12:trampolines + (.Lnumber << TRAMPOLINE_SHIFT)
        b .Lbody
        .set .Lnumber, .Lnumber + 1
        .endr

.Lbody:
        BTI_C
        ldr x16, [x17, #TRAMPOLINE_CALLS]
        cbz x16, .Lstraight
        stp x29, x30, [sp, #-112]!
        .cfi_def_cfa_offset 112
        .cfi_offset 29, -112
        .cfi_offset 30, -104
        mov x29, sp
        stp x0, x1, [sp, #16]
        stp x2, x3, [sp, #32]
        stp x4, x5, [sp, #48]
        stp x6, x7, [sp, #64]
        stp x8, x18, [sp, #80]
        str x17, [sp, #96]
        mov x0, x17
        add x1, sp, #112        /* the caller's stack pointer */
        ldr x2, [sp]
        mov x3, x30
        add x4, sp, #16         /* the arguments */
        bl trampoline_before    /* a call_t, or 0 */
        mov x16, x0
        ldp x0, x1, [sp, #16]
        ldp x2, x3, [sp, #32]
        ldp x4, x5, [sp, #48]
        ldp x6, x7, [sp, #64]
        ldp x8, x18, [sp, #80]
        ldr x17, [sp, #96]
        ldp x29, x30, [sp], #112
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        cbz x16, .Lstraight
        mov x29, x16
        .cfi_remember_state
        FP_AT_FP
        LR_AT_FP
        ldr x16, [x29, #CALL_TRAMPOLINE]
        ldr x16, [x16, #TRAMPOLINE_TARGET]
        blr x16

.Lreturn:
        ldp x16, x30, [x29]
        .cfi_same_value 30
        mov x17, x29
        mov x29, x16
        .cfi_same_value 29
        stp x29, x30, [sp, #-96]!
        .cfi_def_cfa_offset 96
        .cfi_offset 29, -96
        .cfi_offset 30, -88
        mov x29, sp
        stp x0, x1, [sp, #16]
        stp x2, x3, [sp, #32]
        stp x4, x5, [sp, #48]
        stp x6, x7, [sp, #64]
        str x8, [sp, #80]
        mov x0, x17
        bl trampoline_after
        ldp x0, x1, [sp, #16]
        ldp x2, x3, [sp, #32]
        ldp x4, x5, [sp, #48]
        ldp x6, x7, [sp, #64]
        ldr x8, [sp, #80]
        ldp x29, x30, [sp], #96
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        ret

.Lstraight:
        .cfi_restore_state
        ldr x16, [x17, #TRAMPOLINE_TARGET]
        br x16

/* The personality had the unwinder come here instead of passing: the registers are those of the
 * frame at .Lreturn, but x0, the exception, and x1, the unwinder's _Unwind_Resume. The frame is
 * made an ordinary one, and unwinding goes on as if the caller had asked for it at its call. */
.Llanding:
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
        bl trampoline_thrown
        ldp x0, x16, [sp, #16]
        ldp x29, x30, [sp], #32
        .cfi_def_cfa_offset 0
        .cfi_restore 29
        .cfi_restore 30
        br x16
        .cfi_endproc
        .size sonde_trampoline, . - sonde_trampoline

/* Places inside, as distances from this table: a symbol for each would take the frame's name. */
        .section .rodata
        .p2align 3
        .globl trampoline_places
        .hidden trampoline_places
        .type trampoline_places, %object
trampoline_places:
        .quad .Lthunks - trampoline_places
        .quad .Lbody - trampoline_places
        .quad .Lreturn - trampoline_places
        .quad .Llanding - trampoline_places
        .size trampoline_places, . - trampoline_places

        .section .note.GNU-stack, "", %progbits
