/* SPDX-License-Identifier: MIT
 *
 * An image of Mach-O code for what stacks on macOS lead through outside the program: where its
 * threads begin, and a system call in which they wait, without a frame, as Apple's libsystem_kernel
 * has them. The calls are Linux's. dlsym is here to be an import like others, and goes on in
 * dyld.c, which sees who called.
 */
  .section __TEXT,__text,regular,pure_instructions

.macro function name
  .globl _\name
  .p2align 4
_\name:
  .cfi_startproc
.endm

.macro end
  .cfi_endproc
.endm

#if defined(__x86_64__)

.macro frame
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
.endm

/* mac_start(main, argc, argv, envp) */
function mac_start
  frame
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  callq *%rax
  movl %eax, %edi
  callq _exit
  ud2
end

/* mac_thread_start(run, argument) */
function mac_thread_start
  frame
  movq %rdi, %rax
  movq %rsi, %rdi
  callq *%rax
  movq %rax, %rdi
  callq _pthread_exit
  ud2
end

function read
  xorl %eax, %eax
  syscall
  testq %rax, %rax
  js 1f
  retq
1:
  movq %rax, %rdi
  jmp _mac_failed
end

function getpid
  movl $39, %eax
  syscall
  retq
end

function dlsym
  jmp _mac_host_dlsym
end

#else

.macro frame
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x30, -8
  .cfi_offset x29, -16
  mov x29, sp
  .cfi_def_cfa x29, 16
.endm

function mac_start
  frame
  mov x9, x0
  mov x0, x1
  mov x1, x2
  mov x2, x3
  blr x9
  bl _exit
  brk #1
end

function mac_thread_start
  frame
  mov x9, x0
  mov x0, x1
  blr x9
  bl _pthread_exit
  brk #1
end

function read
  mov x8, #63
  svc #0
  tbnz x0, #63, 1f
  ret
1:
  b _mac_failed
end

function getpid
  mov x8, #172
  svc #0
  ret
end

function dlsym
  b _mac_host_dlsym
end

#endif
  .subsections_via_symbols
