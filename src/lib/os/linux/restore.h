/* SPDX-License-Identifier: MIT
 *
 * The code that a signal handler returns to. On x86_64 a program must provide it; on aarch64 it is
 * in the vDSO. Unwinders recognize it by its bytes, or by its call frame information, which says
 * that the registers are in the ucontext at the stack pointer (arch/x86/kernel/signal_64.c; offsets
 * of struct sigcontext). The leading nop exists because unwinders look up the byte before a return
 * address.
 */
#ifndef SONDE_OS_LINUX_RESTORE_H
#define SONDE_OS_LINUX_RESTORE_H

#if defined(__x86_64__)

#define SA_RESTORER_FLAG 0x04000000u

#define CONTEXT_SLOT(n) (40 + 8 * (n)) /* of uc_mcontext.gregs[n] in ucontext_t */

/* DW_CFA_expression REGISTER, {DW_OP_breg7 OFFSET}, OFFSET as two bytes of SLEB128 */
#define SAVED_AT(reg, offset)                                                                      \
  ".cfi_escape 0x10, " #reg ", 3, 0x77, ((" #offset ") & 0x7f) | 0x80, ((" #offset                 \
  ") >> 7) & 0x7f\n"

/* clang-format off */
/* CFA: DW_CFA_def_cfa_expression {DW_OP_breg7 160, DW_OP_deref}: the interrupted stack pointer.
 * The order of gregs: r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip from byte 40 on. */
__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".cfi_startproc\n"
        ".cfi_signal_frame\n"
        ".cfi_escape 0x0f, 4, 0x77, (160 & 0x7f) | 0x80, 160 >> 7, 0x06\n"
        SAVED_AT(8, 40) SAVED_AT(9, 48) SAVED_AT(10, 56) SAVED_AT(11, 64) SAVED_AT(12, 72)
        SAVED_AT(13, 80) SAVED_AT(14, 88) SAVED_AT(15, 96) SAVED_AT(5, 104) SAVED_AT(4, 112)
        SAVED_AT(6, 120) SAVED_AT(3, 128) SAVED_AT(1, 136) SAVED_AT(0, 144) SAVED_AT(2, 152)
        SAVED_AT(7, 160) SAVED_AT(16, 168)
        "\tnop\n"
        ".hidden linux_restore\n"
        ".globl linux_restore\n"
        ".type linux_restore, @function\n"
        "linux_restore:\n"
        "\tmovq $15, %rax\n"
        "\tsyscall\n"
        ".cfi_endproc\n"
        ".size linux_restore, . - linux_restore\n"
        ".popsection\n");
/* clang-format on */
extern void linux_restore(void);
#define RESTORER ((uint64_t)(uintptr_t)&linux_restore)

#else
#define SA_RESTORER_FLAG 0u
#define RESTORER         0u
#endif

#endif
