/* SPDX-License-Identifier: MIT
 *
 * uint64_t arch_copy_guarded(out, from, size, text): see arch/guarded.h. The count is always in x0,
 * so after a fault only the pc must change.
 */
        .text
        .p2align 4
        .globl arch_copy_guarded, arch_guarded_places
        .hidden arch_copy_guarded, arch_guarded_places
        .type arch_copy_guarded, %function
arch_copy_guarded:
        .cfi_startproc
        mov x4, x0
        mov x0, #0
        and w3, w3, #1
        eor w3, w3, #1          /* 1 if a 0 does not end the copy: then no byte compares as 0 */
        cbz x2, .Lend
.Lread:
        ldrb w5, [x1, x0]
        orr w6, w5, w3
        cbz w6, .Lend
        strb w5, [x4, x0]
        add x0, x0, #1
        cmp x0, x2
        b.ne .Lread
.Lend:
        ret
        .cfi_endproc
        .size arch_copy_guarded, . - arch_copy_guarded
        .section .rodata
        .p2align 2
        .type arch_guarded_places, %object
arch_guarded_places:
        .long .Lread - arch_copy_guarded, .Lend - arch_copy_guarded
        .size arch_guarded_places, . - arch_guarded_places
        .section .note.GNU-stack, "", %progbits
