/* SPDX-License-Identifier: MIT
 *
 * Code for the watched program; the command only copies it (attach/cpu.h). It is in .rodata, as the
 * command never runs it. It depends on no address. Until the calls of `run` have made the stack
 * writable, it uses none.
 */
  .section .rodata
  .balign 16
  .globl attach_stub, attach_stub_end, attach_stub_call, attach_stub_restore, attach_stub_run
  .globl attach_stub_exit
attach_stub:

/* The new thread is traced and stopped before its first instruction. If the command has ended, it
 * exits. */
attach_stub_call:
  syscall
  test %rax, %rax
  jz attach_stub_exit
  ret

attach_stub_restore:
  mov $15, %eax /* rt_sigreturn */
  syscall
  ud2

attach_stub_exit:
  xor %edi, %edi
exit:
  mov $60, %eax
  syscall
  ud2

/* rbx: calls; r12, r13: initializers; r14: entry; r15: block. */
attach_stub_run:
  mov (%rbx), %rax
  test %rax, %rax
  js initialize
  mov 8(%rbx), %rdi
  mov 16(%rbx), %rsi
  mov 24(%rbx), %rdx
  mov 32(%rbx), %r10
  mov 40(%rbx), %r8
  mov 48(%rbx), %r9
  syscall
  test %rax, %rax
  jns next
  cmpq $0, 56(%rbx)
  jz next
  neg %rax
  mov %eax, %edi
  jmp exit
next:
  add $64, %rbx
  jmp attach_stub_run

initialize:
  cmp %r12, %r13
  je enter
  mov (%r12), %rax
  add $8, %r12
  xor %edi, %edi
  xor %esi, %esi
  xor %edx, %edx
  call *%rax
  jmp initialize
enter:
  mov %r15, %rdi
  call *%r14
  jmp attach_stub_exit
attach_stub_end:

  .section .note.GNU-stack, "", @progbits
