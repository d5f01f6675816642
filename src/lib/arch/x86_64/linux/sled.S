/* SPDX-License-Identifier: MIT
 *
 * Where patched XRay sleds go (sensor/trace/linux/sleds.c). A sled calls a stub near its image, the stub
 * jumps here; the return address tells which sled it was. The stack is as at the function's first
 * or last instruction, with that return address on top.
 *
 * An entry, and the exit before a tail call, keep what may hold arguments (rdi rsi rdx rcx r8 r9,
 * rax and r10); an exit keeps the results (rax, rdx). Vector registers are not touched: what is
 * called is compiled for general registers.
 */
        .macro SLED name, run
        .p2align 4
        .globl \name
        .hidden \name
        .type \name, @function
\name:
        .cfi_startproc
        .irp register, rax, rdi, rsi, rdx, rcx, r8, r9, r10, r11
        pushq %\register
        .cfi_adjust_cfa_offset 8
        .endr
        movq 72(%rsp), %rdi
        subq $5, %rdi
        leaq 80(%rsp), %rsi
        movq (%rsi), %rdx       /* where the function returns to */
        pushq %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset %rbp, 0
        movq %rsp, %rbp
        .cfi_def_cfa_register %rbp
        andq $-16, %rsp
        call \run
        movq %rbp, %rsp
        .cfi_def_cfa_register %rsp
        popq %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore %rbp
        .irp register, r11, r10, r9, r8, rcx, rdx, rsi, rdi, rax
        popq %\register
        .cfi_adjust_cfa_offset -8
        .endr
        ret
        .cfi_endproc
        .size \name, . - \name
        .endm

        .text
        SLED trace_sled_entry, trace_sled_entered
        SLED trace_sled_exit, trace_sled_left
        .section .note.GNU-stack, "", @progbits
