/* SPDX-License-Identifier: MIT
 *
 * A function that makes a system call while its return address is only in a register, like leaves
 * on aarch64 (glibc's syscall(), flock()). On x86_64 the register is r9, which no real program uses
 * so; then the behavior is tested on both architectures. The kernel reports neither x30 nor r9 of a
 * blocked thread.
 */
#ifndef SONDE_TESTS_LEAF_H
#define SONDE_TESTS_LEAF_H

/* Makes the system call NUMBER with four arguments. Returns the kernel's result. */
long leaf_call(long number, long a, long b, long c, long d);
extern const char leaf_call_end[];

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl leaf_call\n"
        ".type leaf_call, @function\n"
        "leaf_call:\n\t"
        ".cfi_startproc\n\t"
        "xchgq %r9, (%rsp)\n\t"
        ".cfi_register rip, r9\n\t"
        "movq %rdi, %rax\n\t"
        "movq %rsi, %rdi\n\t"
        "movq %rdx, %rsi\n\t"
        "movq %rcx, %rdx\n\t"
        "movq %r8, %r10\n\t"
        "syscall\n\t"
        "xchgq %r9, (%rsp)\n\t"
        ".cfi_offset rip, -8\n\t"
        "ret\n\t"
        ".cfi_endproc\n"
        ".size leaf_call, .-leaf_call\n"
        ".globl leaf_call_end\n"
        "leaf_call_end:\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl leaf_call\n"
        ".type leaf_call, %function\n"
        "leaf_call:\n\t"
        ".cfi_startproc\n\t"
        "mov x8, x0\n\t"
        "mov x0, x1\n\t"
        "mov x1, x2\n\t"
        "mov x2, x3\n\t"
        "mov x3, x4\n\t"
        "svc #0\n\t"
        "ret\n\t"
        ".cfi_endproc\n"
        ".size leaf_call, .-leaf_call\n"
        ".globl leaf_call_end\n"
        "leaf_call_end:\n");
#endif

#endif
