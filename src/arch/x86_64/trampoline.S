/* SPDX-License-Identifier: MIT
 *
 * The trampoline for x86_64: hook/trampoline.h tells what it does.
 *
 * Kept for the target are the registers that can hold an argument: rdi rsi rdx rcx r8 r9, rax (how
 * many vector registers a call with variable arguments uses), r10 (a nested function's chain);
 * after it, those that can hold a result: rax rdx, and rcx r8 of Swift. Vector, x87 and mask
 * registers are not touched, here or in the C that is called. r11 is free at every function's entry
 * (psABI figure 3.4).
 *
 * While the target runs, nothing of the trampoline is on the stack: the CFA is the stack pointer,
 * rbp points to the call_t, and the caller's return address and rbp are in it.
 */
#include "arch/trampoline.h"

#define RBP_AT_RBP       .cfi_escape 0x10, 6, 2, 0x76, CALL_CALLER_FP      /* DW_OP_breg6 */
#define RIP_AT_RBP       .cfi_escape 0x10, 16, 2, 0x76, CALL_RETURN_ADDRESS

        .text
        .p2align 4
        .globl sonde_trampoline
        .type sonde_trampoline, @function
        .hidden trampolines, trampoline_before, trampoline_after, trampoline_thrown
        .hidden trampoline_personality
sonde_trampoline:
        .cfi_startproc
        .cfi_personality 0x1b, trampoline_personality /* pc-relative, 4 bytes */

.Lthunks:
        .set .Lnumber, 0
        .rept TRAMPOLINE_COUNT
        endbr64
        leaq trampolines + (.Lnumber << TRAMPOLINE_SHIFT)(%rip), %r11
        jmp .Lbody
        .p2align 4
        .set .Lnumber, .Lnumber + 1
        .endr

.Lbody:
        endbr64
        cmpq $0, TRAMPOLINE_CALLS(%r11)
        je .Lstraight
        pushq %r10
        .cfi_adjust_cfa_offset 8
        pushq %rax
        .cfi_adjust_cfa_offset 8
        pushq %r9
        .cfi_adjust_cfa_offset 8
        pushq %r8
        .cfi_adjust_cfa_offset 8
        pushq %rcx
        .cfi_adjust_cfa_offset 8
        pushq %rdx
        .cfi_adjust_cfa_offset 8
        pushq %rsi
        .cfi_adjust_cfa_offset 8
        pushq %rdi
        .cfi_adjust_cfa_offset 8
        pushq %r11
        .cfi_adjust_cfa_offset 8
        movq %r11, %rdi
        leaq 80(%rsp), %rsi     /* the caller's stack pointer when it goes on */
        movq %rbp, %rdx
        movq 72(%rsp), %rcx     /* the return address */
        leaq 8(%rsp), %r8       /* the arguments */
        call trampoline_before  /* a call_t, or 0 */
        popq %r11
        .cfi_adjust_cfa_offset -8
        testq %rax, %rax
        je .Lrestore
        movq %rax, %rbp
        .cfi_remember_state
        RBP_AT_RBP
        popq %rdi
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdx
        .cfi_adjust_cfa_offset -8
        popq %rcx
        .cfi_adjust_cfa_offset -8
        popq %r8
        .cfi_adjust_cfa_offset -8
        popq %r9
        .cfi_adjust_cfa_offset -8
        popq %rax
        .cfi_adjust_cfa_offset -8
        popq %r10
        .cfi_adjust_cfa_offset -8
        leaq 8(%rsp), %rsp
        .cfi_adjust_cfa_offset -8
        RIP_AT_RBP
        movq CALL_TRAMPOLINE(%rbp), %r11
        call *TRAMPOLINE_TARGET(%r11)

.Lreturn:
        pushq CALL_RETURN_ADDRESS(%rbp)
        .cfi_adjust_cfa_offset 8
        .cfi_offset 16, -8
        pushq %rax
        .cfi_adjust_cfa_offset 8
        pushq %rdx
        .cfi_adjust_cfa_offset 8
        pushq %rcx
        .cfi_adjust_cfa_offset 8
        pushq %r8
        .cfi_adjust_cfa_offset 8
        pushq %r9               /* for the alignment of the stack */
        .cfi_adjust_cfa_offset 8
        movq %rbp, %rdi
        movq CALL_CALLER_FP(%rbp), %rbp
        .cfi_same_value 6
        call trampoline_after
        popq %r9
        .cfi_adjust_cfa_offset -8
        popq %r8
        .cfi_adjust_cfa_offset -8
        popq %rcx
        .cfi_adjust_cfa_offset -8
        popq %rdx
        .cfi_adjust_cfa_offset -8
        popq %rax
        .cfi_adjust_cfa_offset -8
        ret

.Lrestore:
        .cfi_restore_state
        popq %rdi
        .cfi_adjust_cfa_offset -8
        popq %rsi
        .cfi_adjust_cfa_offset -8
        popq %rdx
        .cfi_adjust_cfa_offset -8
        popq %rcx
        .cfi_adjust_cfa_offset -8
        popq %r8
        .cfi_adjust_cfa_offset -8
        popq %r9
        .cfi_adjust_cfa_offset -8
        popq %rax
        .cfi_adjust_cfa_offset -8
        popq %r10
        .cfi_adjust_cfa_offset -8
.Lstraight:
        jmp *TRAMPOLINE_TARGET(%r11)

/* The personality had the unwinder come here instead of passing: the registers are those of the
 * frame at .Lreturn, but rax, the exception, and rdx, the unwinder's _Unwind_Resume. The frame is
 * made an ordinary one, and unwinding goes on as if the caller had asked for it at its call. */
.Llanding:
        endbr64
        .cfi_def_cfa_offset 0
        RBP_AT_RBP
        RIP_AT_RBP
        pushq CALL_RETURN_ADDRESS(%rbp)
        .cfi_adjust_cfa_offset 8
        .cfi_offset 16, -8
        pushq %rax
        .cfi_adjust_cfa_offset 8
        pushq %rdx
        .cfi_adjust_cfa_offset 8
        subq $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq %rbp, %rdi
        movq CALL_CALLER_FP(%rbp), %rbp
        .cfi_same_value 6
        call trampoline_thrown
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq %rdx
        .cfi_adjust_cfa_offset -8
        popq %rdi
        .cfi_adjust_cfa_offset -8
        jmp *%rdx
        .cfi_endproc
        .size sonde_trampoline, . - sonde_trampoline

/* Places inside, as distances from this table: a symbol for each would take the frame's name. */
        .section .rodata
        .p2align 3
        .globl trampoline_places
        .hidden trampoline_places
        .type trampoline_places, @object
trampoline_places:
        .quad .Lthunks - trampoline_places
        .quad .Lbody - trampoline_places
        .quad .Lreturn - trampoline_places
        .quad .Llanding - trampoline_places
        .size trampoline_places, . - trampoline_places

        .section .note.GNU-stack, "", @progbits
