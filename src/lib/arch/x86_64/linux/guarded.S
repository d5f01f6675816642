/* SPDX-License-Identifier: MIT
 *
 * uint64_t arch_copy_guarded(out, from, size, text): see arch/guarded.h. The count is in rax at
 * every moment, so that a fault needs no more than another pc.
 */
        .text
        .p2align 4
        .globl arch_copy_guarded, arch_guarded_places
        .hidden arch_copy_guarded, arch_guarded_places
        .type arch_copy_guarded, @function
arch_copy_guarded:
        .cfi_startproc
        endbr64
        movzbl %cl, %ecx
        xorl $1, %ecx           /* what makes a byte that is 0 another one where it is no end */
        xorl %eax, %eax
        testq %rdx, %rdx
        je .Lend
.Lread:
        movzbl (%rsi,%rax), %r8d
        movl %r8d, %r9d
        orl %ecx, %r9d
        je .Lend
        movb %r8b, (%rdi,%rax)
        incq %rax
        cmpq %rdx, %rax
        jne .Lread
.Lend:
        ret
        .cfi_endproc
        .size arch_copy_guarded, . - arch_copy_guarded
        .section .rodata
        .p2align 2
        .type arch_guarded_places, @object
arch_guarded_places:
        .long .Lread - arch_copy_guarded, .Lend - arch_copy_guarded
        .size arch_guarded_places, . - arch_guarded_places
        .section .note.GNU-stack, "", @progbits
