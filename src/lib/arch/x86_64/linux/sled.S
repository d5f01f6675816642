/* SPDX-License-Identifier: MIT
 *
 * The code that patched XRay sleds reach (sensor/trace/linux/sleds.c). A sled calls a stub near its
 * image, and the stub jumps here; the return address identifies the sled. The stack is that of the
 * function's first or last instruction, with this return address on top.
 *
 * An entry, and the exit before a tail call, preserve the registers that can hold arguments (rdi
 * rsi rdx rcx r8 r9, rax and r10). An exit preserves the results (rax, rdx). Vector registers are
 * not used: the C code that is called is compiled for general registers.
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
        movq (%rsi), %rdx       /* the function's return address */
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
