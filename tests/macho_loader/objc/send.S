/* SPDX-License-Identifier: MIT
 *
 * objc_msgSend and its variants: all that can hold an argument is kept while runtime.c finds the
 * method, and the method is entered by a jump. A message to nil gives 0 in every form.
 */
  .section __TEXT,__text,regular,pure_instructions

.macro function name
  .globl _\name
  .p2align 4
_\name:
  .cfi_startproc
.endm

#if defined(__x86_64__)

/* Goes on in the method that FINDER(receiver or objc_super, selector) tells; of a super message the
 * receiver takes the place of the structure. */
.macro dispatch finder, receiver, selector, is_super
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %rax
  pushq %r10
  subq $128, %rsp
  .irp n, 0, 1, 2, 3, 4, 5, 6, 7
  movups %xmm\n, 16*\n(%rsp)
  .endr
  movq \selector, %rax
  movq \receiver, %rdi
  movq %rax, %rsi
  callq _\finder
  movq %rax, %r11
  .irp n, 0, 1, 2, 3, 4, 5, 6, 7
  movups 16*\n(%rsp), %xmm\n
  .endr
  addq $128, %rsp
  popq %r10
  popq %rax
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  popq %rbp
  .cfi_restore %rbp
  .cfi_def_cfa %rsp, 8
  .if \is_super
  movq (\receiver), \receiver
  .endif
  jmpq *%r11
  .cfi_endproc
.endm

function objc_msgSend
  testq %rdi, %rdi
  je Lnil
  dispatch find_method, %rdi, %rsi, 0

function objc_msgSend_stret
  testq %rsi, %rsi
  je Lnil_stret
  dispatch find_method, %rsi, %rdx, 0

function objc_msgSend_fpret
  testq %rdi, %rdi
  je Lnil_fpret
  dispatch find_method, %rdi, %rsi, 0

function objc_msgSend_fp2ret
  testq %rdi, %rdi
  je Lnil_fp2ret
  dispatch find_method, %rdi, %rsi, 0

function objc_msgSendSuper2
  dispatch find_above, %rdi, %rsi, 1

function objc_msgSendSuper2_stret
  dispatch find_above, %rsi, %rdx, 1

Lnil_fp2ret:
  fldz
Lnil_fpret:
  fldz
Lnil:
  xorl %eax, %eax
  xorl %edx, %edx
  xorps %xmm0, %xmm0
  xorps %xmm1, %xmm1
  retq
Lnil_stret:
  movq %rdi, %rax
  retq

/* scribble(): what any function may do to the registers. */
function scribble
  pcmpeqd %xmm0, %xmm0
  .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  movaps %xmm0, %xmm\n
  .endr
  .irp r, rcx, rdx, rsi, rdi, r8, r9, r10, r11
  movq $-1, %\r
  .endr
  retq
  .cfi_endproc

#else

.macro dispatch finder, is_super
  stp x29, x30, [sp, #-224]!
  .cfi_def_cfa_offset 224
  .cfi_offset x29, -224
  .cfi_offset x30, -216
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  bl _\finder
  mov x17, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x29, x30, [sp], #224
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  .if \is_super
  ldr x0, [x0]
  .endif
  br x17
  .cfi_endproc
.endm

function objc_msgSend
  cbz x0, Lnil
  dispatch find_method, 0

function objc_msgSendSuper2
  dispatch find_above, 1

Lnil:
  mov x1, #0
  movi d0, #0
  movi d1, #0
  movi d2, #0
  movi d3, #0
  ret

function scribble
  .irp n, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
  movi v\n\().16b, #255
  .endr
  .irp n, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17
  mov x\n, #-1
  .endr
  ret
  .cfi_endproc

#endif
