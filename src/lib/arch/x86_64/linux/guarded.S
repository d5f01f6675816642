/* SPDX-License-Identifier: MIT
 *
 * uint64_t arch_copy_guarded(out, from, size, text): see arch/guarded.h. The count is always in
 * rax, so after a fault only the pc must change.
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
        xorl $1, %ecx           /* 1 if a 0 does not end the copy: then no byte compares as 0 */
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
