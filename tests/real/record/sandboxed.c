/* SPDX-License-Identifier: MIT
 *
 * A program in a sandbox of its own: usage: sandboxed ACTION HOW [PROGRAM].
 *
 * It allows the calls that it makes itself, and every other call gets ACTION: kill (the process),
 * thread (kill the thread), trap, errno, trace, log, notify, or strict for strict mode. HOW: prctl,
 * syscall, tsync, twice, instruction (not by the C library), refused (the kernel refuses the
 * filter), fork (in a child), exec (then executes PROGRAM), hidden (executes it by an instruction),
 * thread (works in a new thread).
 *
 * A handler of SIGSYS, and a line about it, show whether any call was trapped. Exit status 3.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SECCOMP_RET_USER_NOTIF
#define SECCOMP_RET_USER_NOTIF 0x7fc00000U
#endif
#define NEW_LISTENER 8
#define ROUNDS       300
#define BLOCKS       200

#define ALLOW(n)                                                                                   \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (n), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static volatile sig_atomic_t trapped;
static volatile uint64_t sum;

static void on_trap(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  trapped = info->si_syscall;
}

static long by_instruction(long number, long a, long b, long c) {
#if defined(__x86_64__)
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
#endif
}

static uint32_t action_of(const char *name) {
  static const struct {
    const char *name;
    uint32_t action;
  } all[] = {{"kill", 0x80000000},
             {"thread", SECCOMP_RET_KILL},
             {"trap", SECCOMP_RET_TRAP},
             {"errno", SECCOMP_RET_ERRNO | EPERM},
             {"zero", SECCOMP_RET_ERRNO},
             {"trace", SECCOMP_RET_TRACE},
             {"notify", SECCOMP_RET_USER_NOTIF},
             {"log", 0x7ffc0000}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(name, all[i].name)) return all[i].action;
  exit(64);
}

/* Of openat, reading is allowed, as for a program's own loader. */
static int sandbox(const char *how, uint32_t action, int execs) {
  struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(SYS_read),
    ALLOW(SYS_write),
    ALLOW(SYS_exit),
    ALLOW(SYS_exit_group),
    ALLOW(SYS_brk),
    ALLOW(SYS_mmap),
    ALLOW(SYS_munmap),
    ALLOW(SYS_mremap),
    ALLOW(SYS_madvise),
    ALLOW(SYS_futex),
    ALLOW(SYS_rt_sigreturn),
    ALLOW(SYS_clock_gettime),
    ALLOW(SYS_getrandom),
    ALLOW(SYS_mprotect),
    ALLOW(SYS_fstat),
    ALLOW(SYS_newfstatat),
    ALLOW(SYS_close),
    ALLOW(SYS_clone),
    ALLOW(435),
    ALLOW(334),
    ALLOW(293),
    ALLOW(SYS_rseq),
    ALLOW(SYS_set_robust_list),
    ALLOW(SYS_rt_sigprocmask),
    ALLOW(SYS_sched_yield),
    ALLOW(SYS_prctl),
    /* the rest of what a program that is executed calls, and a second filter */
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_execve : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_openat : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_set_tid_address : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_pread64 : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_prlimit64 : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
#if defined(__x86_64__)
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_arch_prctl : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_access : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
#endif
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, execs ? SYS_faccessat : SYS_prctl, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, action),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (!strcmp(how, "prctl")) return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  if (!strcmp(how, "instruction"))
    return (int)by_instruction(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
  long flags = !strcmp(how, "tsync") ? SECCOMP_FILTER_FLAG_TSYNC : 0;
  if (action == SECCOMP_RET_USER_NOTIF) flags |= NEW_LISTENER;
  if (!strcmp(how, "refused"))
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1 << 20, &program) == 0;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0;
}

static void *work(void *unused) {
  static void *blocks[BLOCKS];
  (void)unused;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < BLOCKS; i++)
      blocks[i] = malloc((size_t)(16 + i));
    for (int i = 0; i < 100000; i++)
      sum += (uint64_t)i;
    for (int i = 0; i < BLOCKS; i++)
      free(blocks[i]);
  }
  return NULL;
}

static void print(const char *text) { (void)!write(1, text, strlen(text)); }

int main(int argc, char **argv) {
  const char *how = argc > 2 ? argv[2] : "prctl";
  int execs = !strcmp(how, "exec") || !strcmp(how, "hidden"), strict = !strcmp(argv[1], "strict");
  uint32_t action = strict ? 0 : action_of(argv[1]);
  if (action == SECCOMP_RET_TRAP) {
    struct sigaction handler = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &handler, NULL);
  }
  pthread_t thread;
  if (!strcmp(how, "thread") && pthread_create(&thread, NULL, work, NULL) == 0)
    pthread_join(thread, NULL); /* the first thread makes more system calls than the next */
  if (!strcmp(how, "fork") && fork()) {
    int status;
    wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
  }
  work(NULL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (strict ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) : sandbox(how, action, execs)) return 9;
  if (!strcmp(how, "twice") && sandbox(how, action, 0)) return 9;
  if (!strcmp(how, "exec")) execv(argv[3], argv + 3);
  if (!strcmp(how, "hidden"))
    by_instruction(SYS_execve, (long)argv[3], (long)(argv + 3), (long)environ);
  if (!strcmp(how, "instruction")) (void)!read(0, &(char){0}, 1); /* the test has seen the report */
  if (!strcmp(how, "thread") && pthread_create(&thread, NULL, work, NULL) == 0)
    pthread_join(thread, NULL);
  work(NULL);
  if (trapped) print("a call was trapped\n");
  print("done\n");
  syscall(SYS_exit, 3);
  return 0;
}
