/* SPDX-License-Identifier: MIT
 *
 * Programs that attach refuses: each gets a reason and a remedy, and goes on unharmed.
 */
#define _GNU_SOURCE
#include "program.h"

#include "agent/attach_block.h"
#include "attach/filters.h"
#include "base/proc_file.h"

#include <dirent.h>
#include <elf.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "skip.h"

/* A child that calls PREPARE, says that it is ready, and waits. */
static pid_t start_child(void (*prepare)(void)) {
  int ready[2];
  char byte;
  assert_int_equal(pipe(ready), 0);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (prepare) prepare();
    (void)!write(ready[1], "r", 1);
    while (true)
      pause();
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  return pid;
}

static void end_child(pid_t pid) {
  int status;
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void wait_for_state(pid_t pid, char wanted) {
  char path[64], text[512] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  while (true) {
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    (void)!fgets(text, sizeof text, file);
    fclose(file);
    const char *end = strrchr(text, ')');
    if (end && end[2] == wanted) return;
    usleep(1000);
  }
}

/* Attaching fails, before or at the first stop, with both texts in the message. */
static void assert_refused(pid_t pid, const char *reason, const char *remedy) {
  problem_t problem = {""};
  attach_t *a = attach_open(pid, &problem);
  assert_false(a && attach_load(a, TOY, NULL, &problem));
  attach_close(a);
  if (!strstr(problem.text, reason) || !strstr(problem.text, remedy)) fail_msg("%s", problem.text);
}

/* The program ends at CALL; -1: never. */
static void filter_call(uint32_t call) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {4, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
}

static void forbid_clone(void) { filter_call(SYS_clone); }
static void forbid_nothing(void) { filter_call(UINT32_MAX); }

static void a_filter(void **unused) {
  (void)unused;
  pid_t pid = start_child(forbid_clone);
  assert_refused(pid, "seccomp filter", "`sonde record -- COMMAND`");
  end_child(pid);
}

static void *wait_in_thread(void *ready) {
  forbid_clone();
  *(volatile int *)ready = 1;
  pause();
  return NULL;
}

static void filter_in_thread(void) {
  pthread_t thread;
  volatile int ready = 0;
  pthread_create(&thread, NULL, wait_in_thread, (void *)&ready);
  while (!ready)
    usleep(1000);
}

static void a_filter_of_one_thread(void **unused) {
  (void)unused;
  pid_t pid = start_child(filter_in_thread);
  assert_refused(pid, "seccomp filter", "without the filter");
  end_child(pid);
}

static void skip_unless_readable(void) {
  if (filters_are_readable()) return;
  puts("skipped: filters can be read by root outside of a filter only");
  skip();
}

/* What a tracer may read and what permits the agent's calls is no reason. */
static void a_filter_that_permits(void **unused) {
  (void)unused;
  problem_t problem = {""};
  skip_unless_readable();
  pid_t pid = start_child(forbid_nothing);
  attach_t *a = attach_open(pid, &problem);
  if (!a || !attach_load(a, TOY, NULL, &problem) || !attach_unload(a, 1000, &problem))
    fail_msg("%s", problem.text);
  attach_close(a);
  end_child(pid);
}

/* The other thread of a process of two; 0: it does not run yet. */
static pid_t find_other_thread(pid_t pid) {
  char path[64];
  pid_t found = 0;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *folder = opendir(path);
  assert_non_null(folder);
  for (const struct dirent *e; (e = readdir(folder));)
    if (atoi(e->d_name) > 0 && atoi(e->d_name) != pid) found = atoi(e->d_name);
  closedir(folder);
  return found;
}

static pid_t other_thread(pid_t pid) {
  pid_t found;
  while (!(found = find_other_thread(pid)))
    usleep(1000);
  return found;
}

static void wait_for_call(pid_t tid, long wanted) {
  char path[64], text[256] = "";
  snprintf(path, sizeof path, "/proc/%d/syscall", tid);
  while (strtol(text, NULL, 10) != wanted) {
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    if (!fgets(text, sizeof text, file)) text[0] = 0;
    fclose(file);
    usleep(1000);
  }
}

static void *sleep_long(void *unused) {
  struct timespec time = {1000, 0};
  (void)unused;
  filter_call(SYS_restart_syscall);
  (void)syscall(SYS_nanosleep, &time, NULL);
  return NULL;
}

static void sleep_in_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, sleep_long, NULL);
}

/* The kernel would continue the stopped sleep with this call. */
static void a_filter_that_forbids_to_continue_a_sleep(void **unused) {
  (void)unused;
  skip_unless_readable();
  pid_t pid = start_child(sleep_in_thread);
  while (!other_thread(pid))
    usleep(1000);
  wait_for_call(other_thread(pid), SYS_nanosleep);
  assert_refused(pid, "restart_syscall", "`sonde record -- COMMAND`");
  wait_for_call(other_thread(pid), SYS_nanosleep);
  end_child(pid);
}

enum { TRANSFERRED = 300000 };
static int transfer[2];

static void *write_much(void *unused) {
  static char data[TRANSFERRED];
  (void)unused;
  filter_call(UINT32_MAX);
  _exit(write(transfer[1], data, sizeof data) == TRANSFERRED ? 0 : 4);
}

static void write_in_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, write_much, NULL);
}

/* A stop would end it early. */
static void a_filter_of_a_thread_that_transfers(void **unused) {
  char data[4096];
  int status;
  ssize_t n;
  (void)unused;
  skip_unless_readable();
  assert_int_equal(pipe(transfer), 0);
  pid_t pid = start_child(write_in_thread);
  close(transfer[1]);
  while (!other_thread(pid))
    usleep(1000);
  wait_for_call(other_thread(pid), SYS_write);
  assert_refused(pid, "transfers data", "try again");
  for (size_t all = 0; all < TRANSFERRED; all += (size_t)n) {
    n = read(transfer[0], data, sizeof data);
    assert_true(n > 0);
  }
  close(transfer[0]);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static void on_order(int number) {
  (void)number;
  forbid_clone();
}

static void await_order(void) { signal(SIGUSR1, on_order); }

/* The filters are read before each call, not only at first. */
static void a_filter_that_comes_later(void **unused) {
  problem_t problem = {""};
  char text[8192] = "";
  (void)unused;
  pid_t pid = start_child(await_order);
  attach_t *a = attach_open(pid, &problem);
  if (!a || !attach_load(a, TOY, NULL, &problem)) fail_msg("%s", problem.text);
  kill(pid, SIGUSR1);
  while (proc_file_read(pid, "status", text, sizeof text) > 0 &&
         proc_file_number(text, "\nSeccomp:") != 2)
    usleep(1000);
  assert_false(attach_run(a, ATTACH_START, "count", LIMIT_MS, &problem));
  if (!strstr(problem.text, "seccomp filter")) fail_msg("%s", problem.text);
  assert_false(attach_unload(a, 1000, &problem));
  attach_close(a);
  end_child(pid);
}

/* Another process that traces PID until it is killed. */
static pid_t traced;

static void trace(void) {
  if (ptrace(PTRACE_SEIZE, traced, NULL, NULL)) _exit(3);
}

static pid_t start_tracer(pid_t pid) {
  traced = pid;
  return start_child(trace);
}

static void a_tracer(void **unused) {
  (void)unused;
  char other[64];
  pid_t pid = start_child(NULL), tracer = start_tracer(pid);
  snprintf(other, sizeof other, "traced by process %d", tracer);
  assert_refused(pid, other, "end that debugger");
  end_child(tracer);
  end_child(pid);
}

/* The command samples threads while it attaches: it stops them in another thread of its own. */
typedef struct sampling {
  pid_t pid;
  int begun[2];
} sampling_t;

static void *hold(void *context) {
  const sampling_t *s = context;
  assert_int_equal(ptrace(PTRACE_SEIZE, s->pid, NULL, NULL), 0);
  (void)!write(s->begun[1], "b", 1);
  usleep(200000);
  return NULL; /* the kernel detaches when the tracer ends */
}

static void a_sampler_of_the_command(void **unused) {
  (void)unused;
  char byte;
  pthread_t sampler;
  program_t p = start(0);
  sampling_t s = {.pid = p.pid};
  assert_int_equal(pipe(s.begun), 0);
  pthread_create(&sampler, NULL, hold, &s);
  assert_int_equal(read(s.begun[0], &byte, 1), 1);
  attach_t *a = open_program(&p);
  ASSERT_WORKS(attach_load(a, TOY, NULL, &problem)); /* once the sampler lets go */
  ASSERT_WORKS(attach_unload(a, LIMIT_MS, &problem));
  attach_close(a);
  pthread_join(sampler, NULL);
  close(s.begun[0]);
  close(s.begun[1]);
  finish(&p);
}

static void a_stopped_program(void **unused) {
  (void)unused;
  char remedy[64];
  pid_t pid = start_child(NULL);
  kill(pid, SIGSTOP);
  wait_for_state(pid, 'T');
  snprintf(remedy, sizeof remedy, "`kill -CONT %d`", pid);
  assert_refused(pid, "stopped by a signal", remedy);
  wait_for_state(pid, 'T');
  end_child(pid);
}

static void a_zombie_and_no_process(void **unused) {
  (void)unused;
  siginfo_t ended;
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT),
                   0); /* its last thread, too */
  assert_refused(pid, "zombie", "reaped");
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_refused(pid, "no process has the id", "pgrep");
  assert_refused(getpid(), "itself", "");
}

static void a_kernel_thread(void **unused) {
  (void)unused;
  char name[32] = "";
  FILE *file = fopen("/proc/2/comm", "re");
  (void)!(file && fgets(name, sizeof name, file));
  if (file) fclose(file);
  if (strcmp(name, "kthreadd\n") != 0) SKIP_BECAUSE("no kernel thread is visible here");
  assert_refused(2, "kernel thread", "");
}

/* A parent in vfork waits uninterruptibly until its child ends. */
static void an_uninterruptible_program(void **unused) {
  (void)unused;
  if (is_thread_sanitized()) SKIP_BECAUSE("ThreadSanitizer's vfork is fork");
  int pids[2];
  pid_t pid, waiter;
  assert_int_equal(pipe(pids), 0);
  pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    volatile pid_t own = getpid();
    if (vfork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)!write(pids[1], (void *)&own, sizeof own);
      syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0); /* aarch64 has no SYS_pause */
      _exit(0);
    }
    _exit(0);
  }
  assert_int_equal(read(pids[0], &waiter, sizeof waiter), sizeof waiter);
  wait_for_state(waiter, 'D');
  assert_refused(waiter, "waits uninterruptibly", "try again");
  wait_for_state(waiter, 'D');
  kill(waiter, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A program of another user: the child of a command without rights. */
static void another_user(void **unused) {
  (void)unused;
  int status;
  if (geteuid() != 0) SKIP_BECAUSE("needs root");
  pid_t pid = start_child(NULL), command = fork();
  if (command == 0) {
    problem_t problem = {""};
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534)) _exit(2);
    _exit(!attach_open(pid, &problem) && strstr(problem.text, "another user") &&
                  strstr(problem.text, "run sonde with sudo")
              ? 0
              : 1);
  }
  assert_int_equal(waitpid(command, &status, 0), command);
  assert_int_equal(status, 0);
  end_child(pid);
}

/* An ELF32 program of two instructions: pause(2), again and again. */
static void write_elf32(int fd, uint16_t machine) {
  static const uint8_t code[] = {0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7};
  const uint32_t base = 0x10000, start = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr);
  Elf32_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_EXEC,
                       .e_machine = machine,
                       .e_version = EV_CURRENT,
                       .e_entry = base + start,
                       .e_phoff = sizeof header,
                       .e_ehsize = sizeof header,
                       .e_phentsize = sizeof(Elf32_Phdr),
                       .e_phnum = 1};
  Elf32_Phdr segment = {.p_type = PT_LOAD,
                        .p_vaddr = base,
                        .p_filesz = start + sizeof code,
                        .p_memsz = start + sizeof code,
                        .p_flags = PF_R | PF_X,
                        .p_align = 4096};
  (void)!write(fd, &header, sizeof header);
  (void)!write(fd, &segment, sizeof segment);
  (void)!write(fd, code, sizeof code);
}

static void a_32_bit_program(void **unused) {
  (void)unused;
  char path[] = "/tmp/sonde-elf32-XXXXXX";
  int fd = mkstemp(path), status;
  assert_true(fd >= 0);
  write_elf32(fd, EM_386);
  fchmod(fd, 0700);
  close(fd);
  int failed[2], error = 0;
  assert_int_equal(pipe2(failed, O_CLOEXEC), 0);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execl(path, path, (char *)NULL);
    error = errno;
    (void)!write(failed[1], &error, sizeof error);
    _exit(0);
  }
  close(failed[1]);
  ssize_t n = read(failed[0], &error, sizeof error); /* 0: the program was executed */
  close(failed[0]);
  if (n) {
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(path);
    assert_int_equal(error, ENOEXEC);
    SKIP_BECAUSE("this kernel does not run 32-bit programs");
  }
  assert_refused(pid, "32-bit program", "built for that program");
  end_child(pid);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_filter),
      cmocka_unit_test(a_filter_of_one_thread),
      cmocka_unit_test(a_filter_that_permits),
      cmocka_unit_test(a_filter_that_forbids_to_continue_a_sleep),
      cmocka_unit_test(a_filter_of_a_thread_that_transfers),
      cmocka_unit_test(a_filter_that_comes_later),
      cmocka_unit_test(a_tracer),
      cmocka_unit_test(a_sampler_of_the_command),
      cmocka_unit_test(a_stopped_program),
      cmocka_unit_test(a_zombie_and_no_process),
      cmocka_unit_test(a_kernel_thread),
      cmocka_unit_test(an_uninterruptible_program),
      cmocka_unit_test(another_user),
      cmocka_unit_test(a_32_bit_program),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
