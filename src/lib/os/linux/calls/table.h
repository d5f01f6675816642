/* SPDX-License-Identifier: MIT
 *
 * Every system call that sonde makes in the watched program. A call that is missing here does not
 * compile (calls/call.h).
 *
 * A row is one call with one set of arguments, because a seccomp filter may allow a call with some
 * arguments only: madvise(2) with one advice, openat(2) for reading. An argument that varies is
 * ANY. Arguments that a row leaves out are 0.
 *
 * X(row, system call, purpose, arguments…)
 */
#ifndef SONDE_OS_LINUX_CALLS_TABLE_H
#define SONDE_OS_LINUX_CALLS_TABLE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

/* Numbers that old headers lack. They are the same on every CPU. */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define RW          (PROT_READ | PROT_WRITE)
#define MAP_EXACTLY 0x100000 /* MAP_FIXED_NOREPLACE */

/* The query for a shadow stack: see os/linux/shadow_stack.c. */
#if defined(__x86_64__)
#define SHADOW_STACK_COMMAND 0x5005
#define SHADOW_STACK_ROW(X)                                                                        \
  X(shadow_stack, SYS_arch_prctl, "whether there is a shadow stack", SHADOW_STACK_COMMAND, ANY)
#else
#define SHADOW_STACK_COMMAND 74
#define SHADOW_STACK_ROW(X)                                                                        \
  X(shadow_stack, SYS_prctl, "whether there is a shadow stack", SHADOW_STACK_COMMAND, ANY)
#endif

#define CALL_TABLE(X)                                                                              \
  /* files */                                                                                      \
  X(openat_read, SYS_openat, "read files of /proc", AT_FDCWD, ANY,                                 \
    O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)                                                  \
  X(openat_image, SYS_openat, "map the file of an image", AT_FDCWD, ANY,                           \
    O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)                                                  \
  X(openat_tasks, SYS_openat, "list threads", AT_FDCWD, ANY, O_RDONLY | O_DIRECTORY | O_CLOEXEC)   \
  X(openat_task, SYS_openat, "read a thread's files", ANY, ANY, O_RDONLY | O_CLOEXEC)              \
  X(openat_write, SYS_openat, "open the recording", AT_FDCWD, ANY, O_RDWR | O_CLOEXEC | O_NOCTTY)  \
  X(openat_create, SYS_openat, "create a recording", AT_FDCWD, ANY,                                \
    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600)                                        \
  X(openat_own, SYS_openat, "sleep", AT_FDCWD, ANY,                                                \
    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0600)                       \
  X(openat_score, SYS_openat, "leaks: settle the copy", AT_FDCWD, ANY, O_WRONLY | O_CLOEXEC)       \
  X(read, SYS_read, "read files", ANY, ANY, ANY)                                                   \
  X(pread64, SYS_pread64, "read files", ANY, ANY, ANY, ANY)                                        \
  X(write, SYS_write, "messages", ANY, ANY, ANY)                                                   \
  X(close, SYS_close, "close what was opened", ANY)                                                \
  X(fstat, SYS_fstat, "map the file of an image", ANY, ANY)                                        \
  X(getdents64, SYS_getdents64, "list threads", ANY, ANY, ANY)                                     \
  X(readlinkat, SYS_readlinkat, "the program's path", AT_FDCWD, ANY, ANY, ANY)                     \
  X(fcntl_high, SYS_fcntl, "keep descriptors away from the program's", ANY, F_DUPFD_CLOEXEC, 512)  \
  X(fcntl_keep, SYS_fcntl, "pass the recording on over execve", ANY, F_SETFD)                      \
  X(memfd_create, SYS_memfd_create, "a recording in memory", ANY, 1)                               \
  X(ftruncate, SYS_ftruncate, "a recording in memory", ANY, ANY)                                   \
  X(unlinkat, SYS_unlinkat, "remove a recording", AT_FDCWD, ANY)                                   \
  X(statx, SYS_statx, "check the recording's descriptor", ANY, ANY, 0x1000, 0x300, ANY)            \
  X(pwrite64, SYS_pwrite64, "write chunks", ANY, ANY, ANY, ANY)                                    \
  X(fallocate, SYS_fallocate, "empty the table of live blocks", ANY, 3, ANY, ANY)                  \
  X(fallocate_own, SYS_fallocate, "sleep", ANY, 0, 0, ANY)                                         \
  X(prlimit64, SYS_prlimit64, "the limit on file size", 0, RLIMIT_FSIZE, 0, ANY)                   \
  X(ioctl_map, SYS_ioctl, "the mapping of an address", ANY, 0xc0686611, ANY)                       \
  /* the recorder's socket */                                                                      \
  X(socket, SYS_socket, "ask the recorder", AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)                   \
  X(socket_calls, SYS_socket, "call the recorder", AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC)             \
  X(setsockopt, SYS_setsockopt, "ask the recorder", ANY, SOL_SOCKET, ANY, ANY, 16)                 \
  X(recvmsg, SYS_recvmsg, "ask the recorder", ANY, ANY, MSG_CMSG_CLOEXEC)                          \
  X(getsockopt, SYS_getsockopt, "restart an interrupted call", ANY, SOL_SOCKET, ANY, ANY, ANY)     \
  X(connect, SYS_connect, "ask the recorder", ANY, ANY, ANY)                                       \
  X(sendto, SYS_sendto, "ask the recorder", ANY, ANY, ANY, MSG_NOSIGNAL)                           \
  /* memory */                                                                                     \
  X(mmap, SYS_mmap, "memory of sonde", 0, ANY, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1)                \
  X(mmap_shared, SYS_mmap, "the shared buffers", 0, ANY, RW, MAP_SHARED | MAP_NORESERVE, ANY, ANY) \
  X(mmap_image, SYS_mmap, "map the file of an image", 0, ANY, PROT_READ, MAP_PRIVATE, ANY)         \
  X(mmap_at, SYS_mmap, "memory near code", ANY, ANY, RW,                                           \
    MAP_PRIVATE | MAP_ANONYMOUS | MAP_EXACTLY, -1)                                                 \
  X(mmap_code, SYS_mmap, "gates of an attached agent", 0, ANY, PROT_READ | PROT_EXEC,              \
    MAP_PRIVATE | MAP_ANONYMOUS, -1)                                                               \
  X(mremap, SYS_mremap, "the next recording of an attached agent", ANY, ANY, ANY, 3, ANY)          \
  X(munmap, SYS_munmap, "memory of sonde", ANY, ANY)                                               \
  X(mprotect_data, SYS_mprotect, "write import slots", ANY, ANY, RW)                               \
  X(mprotect_read, SYS_mprotect, "protect import slots again", ANY, ANY, PROT_READ)                \
  X(mprotect_code, SYS_mprotect, "patch code", ANY, ANY, ANY)                                      \
  X(madvise_wipe, SYS_madvise, "notice a fork", ANY, ANY, 18)                                      \
  X(madvise_hide, SYS_madvise, "hide the shared buffers from a fork", ANY, ANY, 10)                \
  X(madvise_populate, SYS_madvise, "allocate the shared buffers", ANY, ANY, 23)                    \
  X(process_vm_readv, SYS_process_vm_readv, "read memory that may be unmapped", ANY, ANY, ANY,     \
    ANY, ANY)                                                                                      \
  X(membarrier, SYS_membarrier, "wait for other threads; patch code", ANY)                         \
  /* signals and timers */                                                                         \
  X(sigprocmask_probe, SYS_rt_sigprocmask, "test whether memory can be read", -1, ANY, 0, 8)       \
  X(rt_sigprocmask, SYS_rt_sigprocmask, "block signals in handlers", ANY, ANY, ANY, 8)             \
  X(rt_sigaction, SYS_rt_sigaction, "signal handlers", ANY, ANY, ANY, 8)                           \
  X(rt_sigreturn, SYS_rt_sigreturn, "return from a signal handler", ANY, ANY, ANY, ANY, ANY, ANY)  \
  X(rt_tgsigqueueinfo, SYS_rt_tgsigqueueinfo, "signal threads", ANY, ANY, ANY, ANY)                \
  X(sigaltstack, SYS_sigaltstack, "the alternate signal stack", 0, ANY)                            \
  X(sigaltstack_set, SYS_sigaltstack, "record stack overflows", ANY, 0)                            \
  X(timer_create, SYS_timer_create, "sample a thread", ANY, ANY, ANY)                              \
  X(timer_settime, SYS_timer_settime, "sample a thread", ANY, 0, ANY)                              \
  X(timer_delete, SYS_timer_delete, "stop sampling a thread", ANY)                                 \
  X(tgkill, SYS_tgkill, "test whether a thread exists", ANY, ANY)                                  \
  X(kill, SYS_kill, "test whether a process exists", ANY)                                          \
  /* ids, clocks, waits */                                                                         \
  X(getpid, SYS_getpid, "the process's id")                                                        \
  X(geteuid, SYS_geteuid, "sleep")                                                                 \
  X(getppid, SYS_getppid, "leaks: the copy's parent")                                              \
  X(gettid, SYS_gettid, "the thread's id")                                                         \
  X(clock_gettime, SYS_clock_gettime, "the time", CLOCK_MONOTONIC, ANY)                            \
  X(clock_realtime, SYS_clock_gettime, "the time of day", CLOCK_REALTIME, ANY)                     \
  X(clock_cpu, SYS_clock_gettime, "CPU time of a thread", ANY, ANY)                                \
  X(futex_wait, SYS_futex, "wait; test whether memory can be read", ANY, 128, ANY, ANY)            \
  X(futex_wake, SYS_futex, "end a wait", ANY, 129, ANY)                                            \
  X(futex_wait_shared, SYS_futex, "wait for the recorder", ANY, 0, ANY, ANY)                       \
  X(futex_wake_shared, SYS_futex, "wake the recorder", ANY, 1, ANY)                                \
  /* other */                                                                                      \
  X(prctl_auxv, SYS_prctl, "the auxiliary vector", 0x41555856, ANY, ANY)                           \
  X(prctl_name, SYS_prctl, "leaks: name the copy", 15, ANY)                                        \
  SHADOW_STACK_ROW(X)                                                                              \
  X(clone, SYS_clone, "leaks: copy the process", ANY)                                              \
  X(exit_group, SYS_exit_group, "leaks: end the copy", ANY)                                        \
  X(close_range, SYS_close_range, "leaks: settle the copy", 0, 0xffffffff, 2)                      \
  X(setrlimit, SYS_setrlimit, "leaks: settle the copy", RLIMIT_CORE, ANY)                          \
  X(wait4, SYS_wait4, "leaks: reap the copy", ANY, ANY, 0x40000001)

typedef enum call_row {
#define CALL_ROW(row, ...) CALL_##row,
  CALL_TABLE(CALL_ROW)
#undef CALL_ROW
      CALL_ROWS
} call_row_t;

enum {
#define CALL_NUMBER(row, number, ...) CALL_NUMBER_##row = (number),
  CALL_TABLE(CALL_NUMBER)
#undef CALL_NUMBER
};

#endif
