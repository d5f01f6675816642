/* SPDX-License-Identifier: MIT
 *
 * An image of Mach-O code for what stacks on macOS lead through outside the program: where its
 * threads begin, and a system call in which they wait, without a frame, as Apple's libsystem_kernel
 * has them. The calls are Linux's. dlsym is here to be an import like others, and goes on in
 * dyld.c, which sees who called.
 *
 * The calls that wait for a lock are Linux's futex, with a futex's arguments. What is lost of
 * macOS's is kept in registers that the call leaves alone. mach.c gives macOS's registers to who
 * reads a thread at mac_lock_call.
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

/* __ulock_wait(operation, address, value, timeout), without the timeout */
function __ulock_wait
  movl %edi, %r9d
  movq %rsi, %rdi
  movl $515, %r8d
  jmp _mac_lock_wait
end

/* __psynch_mutexwait(mutex, mgen, ugen, tid, flags), and the same of an rwlock: until the lock's
 * sequence is not MGEN. The kernel keeps the tid in r10, which a futex takes as a time, so it is
 * not kept. */
.macro sequence_wait name, number
function \name
  movq %rdi, %r9
  addq $32, %rdi
  movl %esi, %edx
  movl $\number, %r8d
  jmp _mac_lock_wait
end
.endm
sequence_wait __psynch_mutexwait, 301
sequence_wait __psynch_rw_rdlock, 306
sequence_wait __psynch_rw_wrlock, 307

function mac_lock_wait
  movl $128, %esi
  xorl %r10d, %r10d
  movl $202, %eax
  .globl _mac_lock_call
_mac_lock_call:
  syscall
  retq
end

/* __ulock_wake(operation, address, value), __psynch_mutexdrop(mutex, …) and the same of an rwlock:
 * all who wait */
function __ulock_wake
  movq %rsi, %rdi
  jmp _mac_wake
end

.macro sequence_wake name
function \name
  addq $32, %rdi
  jmp _mac_wake
end
.endm
sequence_wake __psynch_mutexdrop
sequence_wake __psynch_rw_unlock

function mac_wake
  movl $129, %esi
  movl $0x7fffffff, %edx
  movl $202, %eax
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

function __ulock_wait
  mov x9, x0
  mov x0, x1
  mov x16, #515
  b _mac_lock_wait
end

.macro sequence_wait name, number
function \name
  mov x9, x0
  add x0, x0, #32
  mov x2, x1
  mov x16, #\number
  b _mac_lock_wait
end
.endm
sequence_wait __psynch_mutexwait, 301
sequence_wait __psynch_rw_rdlock, 306
sequence_wait __psynch_rw_wrlock, 307

function mac_lock_wait
  mov x1, #128
  mov x3, #0
  mov x8, #98
  .globl _mac_lock_call
_mac_lock_call:
  svc #0x80
  ret
end

function __ulock_wake
  mov x0, x1
  b _mac_wake
end

.macro sequence_wake name
function \name
  add x0, x0, #32
  b _mac_wake
end
.endm
sequence_wake __psynch_mutexdrop
sequence_wake __psynch_rw_unlock

function mac_wake
  mov x1, #129
  mov x2, #0x7fffffff
  mov x8, #98
  svc #0x80
  ret
end

function dlsym
  b _mac_host_dlsym
end

#endif
  .subsections_via_symbols
