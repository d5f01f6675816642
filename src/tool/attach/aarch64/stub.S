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
  svc #0
  cbz x0, attach_stub_exit
  ret

attach_stub_restore:
  mov x8, #139 /* rt_sigreturn */
  svc #0
  brk #0

attach_stub_exit:
  mov x0, #0
exit:
  mov x8, #93
  svc #0
  brk #0

/* x19: calls; x20, x21: initializers; x22: entry; x23: block. */
attach_stub_run:
  ldr x8, [x19]
  tbnz x8, #63, initialize
  ldp x0, x1, [x19, #8]
  ldp x2, x3, [x19, #24]
  ldp x4, x5, [x19, #40]
  svc #0
  tbz x0, #63, next
  ldr x1, [x19, #56]
  cbz x1, next
  neg x0, x0
  b exit
next:
  add x19, x19, #64
  b attach_stub_run

initialize:
  cmp x20, x21
  b.eq enter
  ldr x9, [x20], #8
  mov x0, #0
  mov x1, #0
  mov x2, #0
  blr x9
  b initialize
enter:
  mov x0, x23
  blr x22
  b attach_stub_exit
attach_stub_end:

  .section .note.GNU-stack, "", @progbits
