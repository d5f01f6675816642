/* SPDX-License-Identifier: MIT
 *
 * The code that patched XRay sleds reach (sensor/trace/linux/sleds.c). A sled pushes x30 and calls
 * a stub near its image. The stub pushes x16 and x17 and branches here; x30 identifies the sled.
 *
 * x0 to x18 are preserved for every sled: arguments, results, and the target of a tail call. Vector
 * registers are not used: the C code that is called is compiled for general registers.
 *
 * An exit follows the function's epilogue, which clang's unwind information does not describe on
 * aarch64. So unwinders see the caller of the function rather than the sled. x30 and x29 lead to
 * the caller both at an entry and at an exit.
 */
#include "arch/assembly.inc"

#define BTI_C   hint #34
#define XPACLRI hint #7

        .macro SAVED what
        \what x0, x1, [sp, #16]
        \what x2, x3, [sp, #32]
        \what x4, x5, [sp, #48]
        \what x6, x7, [sp, #64]
        \what x8, x9, [sp, #80]
        \what x10, x11, [sp, #96]
        \what x12, x13, [sp, #112]
        \what x14, x15, [sp, #128]
        \what x18, x30, [sp, #144]
        .endm

        .macro SLED name, run
        .p2align 4
        .globl \name
        HIDDEN(\name)
        .type \name, %function
\name:
        .cfi_startproc
        .cfi_def_cfa_offset 32
        .cfi_offset 30, -16
        BTI_C
        ldr x17, [sp, #16]      /* the function's x30 */
        stp x29, x17, [sp, #-160]!
        .cfi_def_cfa_offset 192
        .cfi_offset 29, -192
        mov x29, sp
        SAVED stp
        sub x0, x30, #12        /* the sled */
        add x1, sp, #184        /* below the function's stack pointer */
        mov x30, x17
        XPACLRI
        mov x2, x30
        bl \run
        SAVED ldp
        ldr x29, [sp], #160
        .cfi_def_cfa_offset 32
        .cfi_restore 29
        ldp x16, x17, [sp], #16
        .cfi_def_cfa_offset 16
        ret
        .cfi_endproc
        .size \name, . - \name
        .endm

        .text
        SLED trace_sled_entry, trace_sled_entered
        SLED trace_sled_exit, trace_sled_left
        END_OF_FILE
