/* SPDX-License-Identifier: MIT
 *
 * The new thread finds the function and its argument on its stack.
 */
#include "dormant/thread.h"

__asm__(".text\n"
        ".globl dormant_thread_start\n"
        ".hidden dormant_thread_start\n"
        ".type dormant_thread_start, @function\n"
        "dormant_thread_start:\n"
        ".cfi_startproc\n"
        "\tsubq $16, %rsi\n"
        "\tmovq %rcx, (%rsi)\n"
        "\tmovq %r8, 8(%rsi)\n"
        "\tmovq %rdx, %r8\n"
        "\txorl %edx, %edx\n"
        "\tmovq %r9, %r10\n"
        "\tmovl $56, %eax\n" /* clone */
        "\tsyscall\n"
        "\ttestq %rax, %rax\n"
        "\tje 1f\n"
        "\tret\n"
        "1:\n"
        "\t.cfi_undefined %rip\n"
        "\txorl %ebp, %ebp\n"
        "\tpopq %rax\n"
        "\tpopq %rdi\n"
        "\tcall *%rax\n"
        "\txorl %edi, %edi\n"
        "\tmovl $60, %eax\n" /* exit */
        "\tsyscall\n"
        "\tud2\n"
        ".cfi_endproc\n"
        ".size dormant_thread_start, . - dormant_thread_start\n");

/* The first and third word refer to the area itself (glibc: tcbhead_t; musl: struct pthread). */
void dormant_thread_area(uint64_t tls) {
  uint64_t *area = (uint64_t *)(uintptr_t)tls;
  area[0] = area[2] = tls;
}
