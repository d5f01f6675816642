/* SPDX-License-Identifier: MIT
 *
 * The trampoline for x86_64; hook/trampoline.h describes it.
 *
 * Before the target it preserves the registers that can hold an argument: rdi rsi rdx rcx r8 r9,
 * rax (the number of vector registers of a variadic call), r10 (the static chain of a nested
 * function). After the target it preserves every general register: a caller in the same image may
 * know which ones a function leaves alone (gcc's -fipa-ra). For the same reason a moved entry, which
 * any code may call, comes with r11 on the stack, and the target gets it back. Vector, x87 and mask
 * registers are used neither here nor in the C code that is called. At other entries r11 is free
 * (psABI figure 3.4).
 *
 * While the target runs, the stack holds nothing of the trampoline: the CFA is the stack pointer,
 * rbp points to the call_t, and the call_t holds the caller's return address and rbp.
 */
#include "arch/assembly.inc"
#include "arch/trampoline.h"

#define RBP_AT_RBP       .cfi_escape 0x10, 6, 2, 0x76, CALL_CALLER_FP      /* DW_OP_breg6 */
#define RIP_AT_RBP       .cfi_escape 0x10, 16, 2, 0x76, CALL_RETURN_ADDRESS

        .macro PUSH registers:vararg
        .irp register, \registers
        pushq \register
        .cfi_adjust_cfa_offset 8
        .endr
        .endm

        .macro POP registers:vararg
        .irp register, \registers
        popq \register
        .cfi_adjust_cfa_offset -8
        .endr
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
        endbr64
        leaq SYMBOL(trampolines) + (LOCAL(number) << TRAMPOLINE_SHIFT)(%rip), %r11
        jmp LOCAL(body)
        .p2align 4
        .set LOCAL(number), LOCAL(number) + 1
        .endr

LOCAL(body):
        endbr64
        cmpq $0, TRAMPOLINE_CALLS(%r11)
        je LOCAL(straight)
        PUSH %r10, %rax, %r9, %r8, %rcx, %rdx, %rsi, %rdi, %r11
        movq %r11, %rdi
        leaq 80(%rsp), %rsi     /* the caller's stack pointer after the return */
        movq %rbp, %rdx
        movq 72(%rsp), %rcx     /* the return address */
        leaq 8(%rsp), %r8       /* the arguments */
        call SYMBOL(trampoline_before)  /* a call_t, or 0 */
        POP %r11
        testq %rax, %rax
        je LOCAL(restore)
        movq %rax, %rbp
        .cfi_remember_state
        RBP_AT_RBP
        POP %rdi, %rsi, %rdx, %rcx, %r8, %r9, %rax, %r10
        leaq 8(%rsp), %rsp
        .cfi_adjust_cfa_offset -8
        RIP_AT_RBP
        movq CALL_TRAMPOLINE(%rbp), %r11
        movq TRAMPOLINE_TARGET(%r11), %r11
        movq %r11, -16(%rsp)    /* below the stack pointer, where no signal writes (psABI 3.2.2) */
LOCAL(call):
        call *-16(%rsp)

LOCAL(return):
        pushq CALL_RETURN_ADDRESS(%rbp)
        .cfi_adjust_cfa_offset 8
        .cfi_offset 16, -8
        PUSH %r11, %r10, %rdi, %rsi, %r9, %r8, %rcx, %rdx, %rax
        movq %rbp, %rdi
        movq %rsp, %rsi         /* the results: rax, rdx */
        movq CALL_CALLER_FP(%rbp), %rbp
        .cfi_same_value 6
        call SYMBOL(trampoline_after)
        POP %rax, %rdx, %rcx, %r8, %r9, %rsi, %rdi, %r10, %r11
        ret

LOCAL(restore):
        .cfi_restore_state
        .cfi_def_cfa_offset 72  /* clang 14 forgets it in what follows */
        POP %rdi, %rsi, %rdx, %rcx, %r8, %r9, %rax, %r10
LOCAL(straight):
        jmp *TRAMPOLINE_TARGET(%r11)

/* A moved entry jumps here, with r11 pushed. Before the target is an instruction that pops it. */
LOCAL(moved):
        endbr64
        .cfi_def_cfa_offset 16
        cmpq $0, TRAMPOLINE_CALLS(%r11)
        je LOCAL(straight_moved)
        PUSH %r10, %rax, %r9, %r8, %rcx, %rdx, %rsi, %rdi, %r11
        movq %r11, %rdi
        leaq 88(%rsp), %rsi     /* the caller's stack pointer after the return */
        movq %rbp, %rdx
        movq 80(%rsp), %rcx     /* the return address */
        leaq 8(%rsp), %r8       /* the arguments */
        call SYMBOL(trampoline_before)
        POP %r11
        testq %rax, %rax
        je LOCAL(restore_moved)
        movq %rax, %rbp
        .cfi_remember_state
        RBP_AT_RBP
        movq CALL_TRAMPOLINE(%rbp), %r11
        movq TRAMPOLINE_TARGET(%r11), %r10
        movq 64(%rsp), %r11     /* the program's; the target's address takes its place */
        movq %r10, 64(%rsp)
        POP %rdi, %rsi, %rdx, %rcx, %r8, %r9, %rax, %r10
        leaq 16(%rsp), %rsp
        .cfi_adjust_cfa_offset -16
        RIP_AT_RBP
        jmp LOCAL(call)

LOCAL(restore_moved):
        .cfi_restore_state
        .cfi_def_cfa_offset 80  /* clang 14 forgets it in what follows */
        POP %rdi, %rsi, %rdx, %rcx, %r8, %r9, %rax, %r10
LOCAL(straight_moved):
        movq TRAMPOLINE_TARGET(%r11), %r11
        leaq -TRAMPOLINE_POP_BYTES(%r11), %r11
        jmp *%r11

/* The personality makes the unwinder continue here. The registers are those of the frame at LOCAL(return),
 * except rax, the exception, and rdx, the unwinder's _Unwind_Resume. This code removes the call and
 * calls _Unwind_Resume as if the caller had called it in place of the hooked function. */
LOCAL(landing):
        endbr64
        .cfi_def_cfa_offset 0
        RBP_AT_RBP
        RIP_AT_RBP
        pushq CALL_RETURN_ADDRESS(%rbp)
        .cfi_adjust_cfa_offset 8
        .cfi_offset 16, -8
        PUSH %rax, %rdx
        subq $8, %rsp
        .cfi_adjust_cfa_offset 8
        movq %rbp, %rdi
        movq CALL_CALLER_FP(%rbp), %rbp
        .cfi_same_value 6
        call SYMBOL(trampoline_exception)
        addq $8, %rsp
        .cfi_adjust_cfa_offset -8
        POP %rdx, %rdi
        jmp *%rdx
        .cfi_endproc
        SIZE_OF(sonde_trampoline)

#include "arch/trampoline_offsets.inc"
