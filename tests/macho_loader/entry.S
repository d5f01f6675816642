/* SPDX-License-Identifier: MIT
 *
 * The ways into Mach-O code, and what that code expects of calls that C cannot give it.
 *
 * A program and its threads begin with a frame register and a return address of 0, as the kernel of
 * macOS starts them. A thread-local variable's thunk keeps every register but the result. Variadic
 * arguments are on the stack on arm64 macOS, all of them.
 */
  .text

/* Gate N goes on to gate_targets[N], as if it had been called itself, when gate_check lets it: that
 * one uses general registers alone. */
#if defined(__x86_64__)

  .globl gates
  .p2align 4
gates:
  .set number, 0
  .rept 128
  .p2align 4
  movl $number, %r11d
  jmp gate
  .set number, number + 1
  .endr

  .type gate, @function
gate:
  pushq %rbp
  movq %rsp, %rbp
  pushq %rax
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %r11
  andq $-16, %rsp
  movl %r11d, %edi
  call gate_check
  movq %rax, %r11
  leaq -56(%rbp), %rsp
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  popq %rax
  popq %rbp
  jmp *%r11
  .size gate, . - gate

/* enter_main(start, main, argc, argv, envp, stack) */
  .globl enter_main
  .type enter_main, @function
enter_main:
  movq %r9, %rsp
  xorl %ebp, %ebp
  movq %rdi, %rax
  movq %rsi, %rdi
  movl %edx, %esi
  movq %rcx, %rdx
  movq %r8, %rcx
  pushq $0
  jmp *%rax
  .size enter_main, . - enter_main

/* enter_thread(start, run, argument) */
  .globl enter_thread
  .type enter_thread, @function
enter_thread:
  andq $-16, %rsp
  xorl %ebp, %ebp
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  pushq $0
  jmp *%rax
  .size enter_thread, . - enter_thread

  .globl tlv_thunk
  .type tlv_thunk, @function
tlv_thunk:
  pushq %rbp
  movq %rsp, %rbp
  pushq %rcx
  pushq %rdx
  pushq %rsi
  pushq %rdi
  pushq %r8
  pushq %r9
  pushq %r10
  pushq %r11
  subq $512, %rsp
  andq $-16, %rsp
  fxsave (%rsp)
  call tlv_address
  fxrstor (%rsp)
  leaq -64(%rbp), %rsp
  popq %r11
  popq %r10
  popq %r9
  popq %r8
  popq %rdi
  popq %rsi
  popq %rdx
  popq %rcx
  popq %rbp
  ret
  .size tlv_thunk, . - tlv_thunk

#else

  .globl gates
  .p2align 4
gates:
  .set number, 0
  .rept 128
  .p2align 4
  mov w16, #number
  b gate
  .set number, number + 1
  .endr

  .type gate, %function
gate:
  stp x29, x30, [sp, #-96]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  mov w0, w16
  bl gate_check
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp x29, x30, [sp], #96
  br x16
  .size gate, . - gate

  .globl enter_main
  .type enter_main, %function
enter_main:
  mov sp, x5
  mov x9, x0
  mov x0, x1
  mov x1, x2
  mov x2, x3
  mov x3, x4
  mov x29, #0
  mov x30, #0
  br x9
  .size enter_main, . - enter_main

  .globl enter_thread
  .type enter_thread, %function
enter_thread:
  mov x9, x0
  mov x0, x1
  mov x1, x2
  mov x29, #0
  mov x30, #0
  br x9
  .size enter_thread, . - enter_thread

.macro pairs what, first, last, at
  \what \first, \last, [sp, #\at]
.endm

/* WHAT is stp or ldp. */
.macro integers what
  pairs \what, x1, x2, 16
  pairs \what, x3, x4, 32
  pairs \what, x5, x6, 48
  pairs \what, x7, x8, 64
  pairs \what, x9, x10, 80
  pairs \what, x11, x12, 96
  pairs \what, x13, x14, 112
  pairs \what, x15, x16, 128
  pairs \what, x17, x18, 144
.endm

.macro vectors what
  pairs \what, q0, q1, 0
  pairs \what, q2, q3, 32
  pairs \what, q4, q5, 64
  pairs \what, q6, q7, 96
  pairs \what, q16, q17, 128
  pairs \what, q18, q19, 160
  pairs \what, q20, q21, 192
  pairs \what, q22, q23, 224
  pairs \what, q24, q25, 256
  pairs \what, q26, q27, 288
  pairs \what, q28, q29, 320
  pairs \what, q30, q31, 352
.endm

  .globl tlv_thunk
  .type tlv_thunk, %function
tlv_thunk:
  stp x29, x30, [sp, #-160]!
  mov x29, sp
  integers stp
  sub sp, sp, #512
  vectors stp
  bl tlv_address
  vectors ldp
  add sp, sp, #512
  integers ldp
  ldp x29, x30, [sp], #160
  ret
  .size tlv_thunk, . - tlv_thunk

.macro variadic name, to, take:vararg
  .globl \name
\name:
  \take
  b \to
.endm

/* The first variadic argument becomes an ordinary one, or all of them a pointer. */
variadic open_entry, mac_open, ldr x2, [sp]
variadic shm_open_entry, mac_shm_open, ldr x2, [sp]
variadic fcntl_entry, mac_fcntl, ldr x2, [sp]
variadic snprintf_entry, mac_snprintf, mov x3, sp
variadic openat_entry, mac_openat, ldr x3, [sp]
variadic printf_entry, mac_printf, mov x1, sp
variadic fprintf_entry, mac_fprintf, mov x2, sp
variadic sprintf_entry, mac_sprintf, mov x2, sp
variadic sprintf_chk_entry, mac_sprintf_chk, mov x4, sp
variadic asprintf_entry, mac_asprintf, mov x2, sp
variadic sscanf_entry, mac_sscanf, mov x2, sp

#endif

  .section .note.GNU-stack, "", %progbits
