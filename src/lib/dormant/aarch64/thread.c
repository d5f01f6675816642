/* SPDX-License-Identifier: MIT
 *
 * The new thread finds the function and its argument on its stack.
 */
#include "dormant/thread.h"

__asm__(".text\n"
        ".globl dormant_thread_start\n"
        ".hidden dormant_thread_start\n"
        ".type dormant_thread_start, %function\n"
        "dormant_thread_start:\n"
        ".cfi_startproc\n"
        "\tstp x3, x4, [x1, #-16]!\n"
        "\tmov x3, x2\n"
        "\tmov x2, #0\n"
        "\tmov x4, x5\n"
        "\tmov x8, #220\n" /* clone */
        "\tsvc #0\n"
        "\tcbz x0, 1f\n"
        "\tret\n"
        "1:\n"
        "\t.cfi_undefined x30\n"
        "\tmov x29, #0\n"
        "\tldp x1, x0, [sp], #16\n"
        "\tblr x1\n"
        "\tmov x0, #0\n"
        "\tmov x8, #93\n" /* exit */
        "\tsvc #0\n"
        "\tbrk #0\n"
        ".cfi_endproc\n"
        ".size dormant_thread_start, . - dormant_thread_start\n");

/* The C libraries keep a thread's structure below the thread pointer; nothing refers to itself. */
void dormant_thread_area(uint64_t tls) { (void)tls; }
