/* SPDX-License-Identifier: MIT
 *
 * void arch_call_keeping(a, b, c, d, run): calls RUN(a, b, c, d) and restores the vector and x87
 * registers, whatever RUN and the C library's memcpy did to them. xsave saves the x87, SSE, AVX and
 * AVX-512 state that the system uses (Intel SDM volume 1, chapter 13). On a processor without
 * xsave, fxsave saves the SSE state, which is all there is. For rare paths: about 100 ns and 3 KB
 * of stack.
 */
#include "arch/assembly.inc"

#define STATES 0xe7 /* x87, SSE, AVX, opmask, ZMM_Hi256, Hi16_ZMM */
#define AREA   2752 /* at most 2696 bytes in the standard format, rounded up to a multiple of 64 */

        .macro ENTER
        .cfi_startproc
        pushq %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq %rsp, %rbp
        .cfi_def_cfa_register %rbp
        .endm

        CODE
        .p2align 4
        .globl SYMBOL(arch_call_keeping)
        HIDDEN(arch_call_keeping)
        TYPE_OF(arch_call_keeping)
SYMBOL(arch_call_keeping):
        ENTER
        pushq %rbx
        .cfi_offset %rbx, -24
        pushq %r12
        .cfi_offset %r12, -32
        subq $AREA, %rsp
        andq $-64, %rsp
        movq %rdx, %r10
        movq %rcx, %r11
        /* OSXSAVE: cpuid function 1, bit 27 of ecx. cpuid itself traps under a hypervisor. */
        movl LOCAL(xsave_known)(%rip), %r12d
        testl %r12d, %r12d
        jne 1f
        movl $1, %eax
        cpuid
        shrl $27, %ecx
        andl $1, %ecx
        leal 1(%rcx), %r12d
        movl %r12d, LOCAL(xsave_known)(%rip)
1:      cmpl $2, %r12d
        jne 2f
        xorl %eax, %eax
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7
        movq %rax, 512+8*\n(%rsp)
        .endr
        movl $STATES, %eax
        xorl %edx, %edx
        xsave64 (%rsp)
        jmp 3f
2:      fxsave64 (%rsp)
3:      movq %r10, %rdx
        movq %r11, %rcx
        call *%r8
        cmpl $2, %r12d
        jne 4f
        movl $STATES, %eax
        xorl %edx, %edx
        xrstor64 (%rsp)
        jmp 5f
4:      fxrstor64 (%rsp)
5:      leaq -16(%rbp), %rsp
        popq %r12
        .cfi_restore %r12
        popq %rbx
        .cfi_restore %rbx
        popq %rbp
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        SIZE_OF(arch_call_keeping)

/* uint64_t arch_ask_keeping(a, run) */
        .globl SYMBOL(arch_ask_keeping)
        HIDDEN(arch_ask_keeping)
        TYPE_OF(arch_ask_keeping)
SYMBOL(arch_ask_keeping):
        ENTER
        subq $128, %rsp
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7
        movups %xmm\n, 16*\n(%rsp)
        .endr
        call *%rsi
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7
        movups 16*\n(%rsp), %xmm\n
        .endr
        leave
        .cfi_restore %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        SIZE_OF(arch_ask_keeping)

/* void arch_read_vectors(uint64_t out[16]) */
        .p2align 4
        .globl SYMBOL(arch_read_vectors)
        HIDDEN(arch_read_vectors)
        TYPE_OF(arch_read_vectors)
SYMBOL(arch_read_vectors):
        .cfi_startproc
        .irp n, 0, 1, 2, 3, 4, 5, 6, 7
        movups %xmm\n, 16*\n(%rdi)
        .endr
        ret
        .cfi_endproc
        SIZE_OF(arch_read_vectors)

        ZEROS(LOCAL(xsave_known), 4) /* 0: not tested yet, 1: no xsave, 2: xsave */
        END_OF_FILE
