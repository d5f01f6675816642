/* SPDX-License-Identifier: MIT
 *
 * os/: guarded memory, files, threads, time and futexes, each against what the kernel really does.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <signal.h>
#include <unistd.h>
#include <cmocka.h>

#include "arch/arch.h"
#include "base/bits.h"
#include "os/linux/internal.h"
#include "os/lock.h"
#include "os/os.h"
#include "skip.h"

/* Two pages, of which the second cannot be read. */
static uint8_t *page_before_hole(int hole_protection) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  for (size_t i = 0; i < page; i++)
    p[i] = (uint8_t)(i * 7);
  if (hole_protection < 0)
    munmap(p + page, page);
  else
    mprotect(p + page, page, hole_protection);
  return p;
}

static void check_reads(void) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  static uint8_t out[200000];
  for (int hole = -1; hole <= PROT_NONE; hole++) {
    uint8_t *p = page_before_hole(hole);
    memset(out, 0, sizeof out);
    assert_int_equal(os_read_memory((uintptr_t)p, out, page), page);
    assert_memory_equal(out, p, page);
    assert_int_equal(os_read_memory((uintptr_t)p + 1001, out, page), page - 1001);
    assert_memory_equal(out, p + 1001, page - 1001);
    assert_int_equal(os_read_memory((uintptr_t)p + page, out, 8), -EFAULT);
    assert_int_equal(os_read_memory((uintptr_t)p + page - 3, out, 8), 3);
    munmap(p, 2 * page);
  }
  assert_int_equal(os_read_memory(0, out, 8), -EFAULT);
  assert_int_equal(os_read_memory(UINT64_MAX - 3, out, 8), -EFAULT);
  assert_int_equal(os_read_memory(UINT64_C(0x8000000000000000), out, 8), -EFAULT);
  assert_int_equal(os_read_memory((uintptr_t)out, out + 1, 0), 0);
}

/* Random pieces before, across and behind the end of memory: each as if it were read alone. */
static void check_pieces(void) {
  enum { PIECES = 100, BYTES = 64 };
  static uint8_t together[PIECES][BYTES], alone[PIECES][BYTES];
  os_piece_t pieces[PIECES];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint64_t random = 88172645463325252u;
  for (int round = 0; round < 200; round++) {
    uint8_t *p = page_before_hole(-1);
    int good_in_16 = round % 17;
    for (int i = 0; i < PIECES; i++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      bool good = (int)(random >> 20 & 15) < good_in_16;
      uint64_t from = good ? random % (page - BYTES) : page - BYTES + random % (2 * BYTES);
      pieces[i] = (os_piece_t){(uintptr_t)p + from, together[i], 1 + (random >> 40) % BYTES, 77};
    }
    os_read_pieces(pieces, PIECES);
    for (int i = 0; i < PIECES; i++) {
      assert_int_equal(pieces[i].got, os_read_memory(pieces[i].address, alone[i], pieces[i].size));
      if (pieces[i].got > 0) assert_memory_equal(together[i], alone[i], (size_t)pieces[i].got);
    }
    munmap(p, page);
  }
}

static void reads_never_fault(void **state) {
  (void)state;
  check_reads();
  check_pieces();
}

static void reads_never_fault_without_process_vm_readv(void **state) {
  (void)state;
  bool before = linux_read_by_probe;
  linux_read_by_probe = true;
  check_reads();
  check_pieces();
  linux_read_by_probe = before;
}

/* As a sandbox does it: the call is refused from one moment to the next. */
static void reads_never_fault_in_a_sandbox(void **state) {
  (void)state;
  if (is_emulated()) SKIP_BECAUSE("qemu-user has no seccomp");
  pid_t child = fork();
  if (child == 0) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (linux_read_by_probe || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(2);
    check_reads();
    _exit(linux_read_by_probe ? 0 : 3);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void readable_tells_the_truth(void **state) {
  (void)state;
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  sigset_t before, after;
  sigprocmask(SIG_SETMASK, NULL, &before);
  errno = 77;
  for (int hole = -1; hole <= PROT_NONE; hole++) {
    uint8_t *p = page_before_hole(hole);
    assert_true(os_readable((uintptr_t)p));
    assert_true(os_readable((uintptr_t)p + page - 8));
    assert_false(os_readable((uintptr_t)p + page - 7));
    assert_false(os_readable((uintptr_t)p + page));
    munmap(p, 2 * page);
  }
  assert_false(os_readable(0));
  assert_false(os_readable(UINT64_MAX - 7));
  assert_int_equal(errno, 77);
  sigprocmask(SIG_SETMASK, NULL, &after);
  assert_memory_equal(&before, &after, 8);
}

static void a_truncated_file_is_no_crash(void **state) {
  (void)state;
  if (is_emulated()) SKIP_BECAUSE("qemu-user itself dies of a mapping beyond the end of its file");
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  FILE *f = tmpfile();
  assert_non_null(f);
  assert_int_equal(ftruncate(fileno(f), (off_t)(2 * page)), 0);
  uint8_t *p = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, fileno(f), 0);
  assert_true(p != MAP_FAILED);
  assert_int_equal(ftruncate(fileno(f), (off_t)page), 0);
  uint8_t out[16];
  assert_int_equal(os_read_memory((uintptr_t)p + page - 4, out, 8), 4);
  assert_false(os_readable((uintptr_t)p + page));
  munmap(p, 2 * page);
  fclose(f);
}

static void maps_are_zeroed_and_wiped_in_children(void **state) {
  (void)state;
  size_t size = 3 * (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *kept = os_map(size), *wiped = os_map(size);
  assert_non_null(kept);
  assert_non_null(wiped);
  assert_int_equal((uintptr_t)kept % (size_t)sysconf(_SC_PAGESIZE), 0);
  for (size_t i = 0; i < size; i++)
    assert_int_equal(kept[i], 0);
  /* qemu-user says that it did and does not. */
  bool can_wipe = os_wipe_on_fork(wiped, size) && !is_emulated();
  kept[5] = wiped[5] = 42;
  pid_t child = fork();
  if (child == 0) _exit(kept[5] == 42 && wiped[5] == (can_wipe ? 0 : 42) ? 0 : 1);
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (can_wipe)
    assert_int_equal(status, 0);
  else
    print_message("SKIP: this kernel has no MADV_WIPEONFORK\n");
  os_unmap(kept, size);
  os_unmap(wiped, size);
  assert_false(os_readable((uintptr_t)kept));
  assert_null(os_map((size_t)1 << 62));
}

/* Wherever the system puts code: on aarch64 that is above 2^47. */
static void memory_near_code(void **state) {
  const uint64_t places[] = {(uintptr_t)memory_near_code, (uintptr_t)sysconf};
  const uint64_t reach = UINT64_C(1) << 30;
  size_t size = (size_t)sysconf(_SC_PAGESIZE);
  (void)state;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    uint64_t found = (uintptr_t)os_map_near(places[i], size);
    assert_int_not_equal(found, 0);
    assert_in_range(found, places[i] < reach ? 1 : places[i] - reach, places[i] + reach);
    assert_true(os_readable(found));
    assert_null(os_map_at(found, size));
    os_unmap((void *)(uintptr_t)found, size);
    assert_false(os_readable(found));
    assert_true(os_map_at(found, size) == (void *)(uintptr_t)found);
    os_unmap((void *)(uintptr_t)found, size);
  }
  assert_null(os_map_at(0, size));
  assert_null(os_map_at(UINT64_C(1) << 62, size));
}

typedef struct thread_test {
  uint32_t tid;
  uint32_t go;
  uint64_t word_seen;
} thread_test_t;

static void *report_and_wait(void *argument) {
  thread_test_t *t = argument;
  __atomic_store_n(&t->tid, (uint32_t)os_tid(), __ATOMIC_RELEASE);
  os_futex_wake(&t->tid, 1);
  while (__atomic_load_n(&t->go, __ATOMIC_ACQUIRE) == 0)
    os_futex_wait(&t->go, 0, 0);
  return NULL;
}

static void threads_and_futexes(void **state) {
  (void)state;
  assert_int_equal(os_pid(), getpid());
  assert_int_equal(os_tid(), (pid_t)syscall(SYS_gettid));
  thread_test_t t = {0, 0, 0};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, report_and_wait, &t), 0);
  while (__atomic_load_n(&t.tid, __ATOMIC_ACQUIRE) == 0)
    os_futex_wait(&t.tid, 0, 0);
  assert_true(os_thread_alive((pid_t)t.tid));
  assert_true(os_thread_alive(os_tid()));
  __atomic_store_n(&t.go, 1, __ATOMIC_RELEASE);
  os_futex_wake(&t.go, 1);
  pthread_join(thread, NULL);
  while (os_thread_alive((pid_t)t.tid)) /* joined just before its end */
    usleep(1000);
  assert_false(os_thread_alive(0));
  assert_false(os_thread_alive(-1));
  assert_false(os_thread_alive(1)); /* a thread of another process */

  uint32_t word = 5;
  assert_int_equal(os_futex_wait(&word, 4, 0), -EAGAIN);
  uint64_t before = os_monotonic_ns();
  assert_int_equal(os_futex_wait(&word, 5, 20000000), -ETIMEDOUT);
  assert_true(os_monotonic_ns() - before >= 20000000);
  assert_int_equal(os_futex_wake(&word, 1), 0);
}

typedef struct locked {
  lock_t lock;
  uint32_t releases;
} locked_t;

static void *takes_a_lock(void *context) {
  locked_t *l = context;
  bool taken = lock_take(&l->lock, 0);
  if (load_acquire(&l->releases)) {
    usleep(50000);
    lock_release(&l->lock);
  }
  return taken ? l : NULL;
}

/* Waits longer than one look at the owner takes, but not for one that has ended. */
static void a_lock_is_waited_for_while_its_owner_lives(void **state) {
  (void)state;
  for (uint32_t releases = 0; releases < 2; releases++) {
    locked_t l = {.releases = releases};
    pthread_t thread;
    void *taken;
    assert_int_equal(pthread_create(&thread, NULL, takes_a_lock, &l), 0);
    while (!load_acquire(&l.lock.process))
      usleep(100);
    assert_int_equal(lock_take(&l.lock, 0), releases);
    assert_int_equal(pthread_join(thread, &taken), 0);
    assert_ptr_equal(taken, &l);
  }
}

static void time_is_the_monotonic_clock(void **state) {
  (void)state;
  for (int i = 0; i < 1000; i++) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    uint64_t now = os_monotonic_ns();
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true(now >= (uint64_t)a.tv_sec * 1000000000u + (uint64_t)a.tv_nsec);
    assert_true(now <= (uint64_t)b.tv_sec * 1000000000u + (uint64_t)b.tv_nsec);
  }
  uint64_t first = arch_cycles();
  usleep(1000);
  assert_true(arch_cycles() > first);
}

static void files(void **state) {
  (void)state;
  char text[64];
  errno = 77;
  assert_int_equal(os_read_file("/nonexistent/file", text, sizeof text), -ENOENT);
  assert_int_equal(os_read_file("/proc/self/comm", text, 0), -EINVAL);
  char comm[64];
  FILE *f = fopen("/proc/self/comm", "r");
  assert_non_null(f);
  assert_non_null(fgets(comm, sizeof comm, f));
  fclose(f);
  assert_int_equal(os_read_file("/proc/self/comm", text, sizeof text), strlen(comm));
  assert_string_equal(text, comm);
  assert_int_equal(os_read_file("/proc/self/comm", text, 4), 3);
  assert_int_equal(strlen(text), 3);
  assert_int_equal(os_read_file("/proc", text, sizeof text), -EISDIR);

  int fd = os_open_read("/proc/self/exe");
  assert_true(fd >= 0);
  assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
  unsigned char magic[4];
  assert_int_equal(os_pread(fd, magic, 3, 1), 3);
  assert_memory_equal(magic, "ELF", 3);
  assert_int_equal(os_read(fd, magic, 4), 4);
  assert_memory_equal(magic, "\177ELF", 4);
  os_close(fd);
  assert_int_equal(os_read(fd, magic, 4), -EBADF);
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(os_write(ends[1], "abc", 3), 3);
  assert_int_equal(os_read(ends[0], text, 64), 3);
  close(ends[0]);
  close(ends[1]);
  assert_int_equal(errno, 77);
}

/* The registers of a context, against the compiler's own idea of them. */
static volatile sig_atomic_t handled;
static arch_frame_t frame_seen;
static uint64_t registers_seen[ARCH_DWARF_REGISTERS], known_seen;
static void note_registers(int signal, siginfo_t *info, void *ucontext) {
  (void)signal;
  (void)info;
  frame_seen = arch_context_frame(ucontext);
  uint64_t pc = arch_context_registers(ucontext, registers_seen, &known_seen);
  handled = pc == frame_seen.pc;
}

static void registers_of_a_context(void **state) {
  (void)state;
  struct sigaction action = {.sa_sigaction = note_registers, .sa_flags = SA_SIGINFO}, old;
  sigaction(SIGUSR1, &action, &old);
  uint64_t sp, pc;
#if defined(__x86_64__)
  /* tgkill(getpid, gettid, SIGUSR1) with planted registers; the pc is that after the instruction */
  register uint64_t planted8 __asm__("r12") = 0x1212121212121212u;
  register uint64_t planted9 __asm__("r15") = 0x1515151515151515u;
  __asm__ volatile("mov %%rsp, %0\n lea 1f(%%rip), %1\n syscall\n1:"
                   : "=&r"(sp), "=&r"(pc)
                   : "a"(SYS_tgkill), "D"(getpid()), "S"(os_tid()), "d"(SIGUSR1), "r"(planted8),
                     "r"(planted9)
                   : "rcx", "r11", "memory");
  assert_true(registers_seen[12] == 0x1212121212121212u);
  assert_true(registers_seen[15] == 0x1515151515151515u);
  assert_true(registers_seen[4] == (uint64_t)os_tid()); /* rsi */
  assert_true(registers_seen[5] == (uint64_t)getpid()); /* rdi */
  assert_true(registers_seen[1] == SIGUSR1);            /* rdx */
  assert_true(registers_seen[7] == frame_seen.sp && registers_seen[6] == frame_seen.fp);
#else
  uint64_t pid = (uint64_t)getpid(), tid = (uint64_t)os_tid(); /* calls clobber what follows */
  register uint64_t x8 __asm__("x8") = SYS_tgkill;
  register uint64_t x0 __asm__("x0") = pid;
  register uint64_t x1 __asm__("x1") = tid;
  register uint64_t x2 __asm__("x2") = SIGUSR1;
  register uint64_t x20 __asm__("x20") = 0x2020202020202020u;
  __asm__ volatile("mov %0, sp\n adr %1, 1f\n svc #0\n1:"
                   : "=&r"(sp), "=&r"(pc), "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x20)
                   : "memory");
  assert_true(registers_seen[20] == 0x2020202020202020u);
  assert_true(registers_seen[1] == (uint64_t)os_tid());
  assert_true(registers_seen[31] == frame_seen.sp && registers_seen[29] == frame_seen.fp);
  assert_true(registers_seen[30] == frame_seen.lr);
#endif
  assert_true(handled);
  assert_true(frame_seen.sp == sp);
  assert_true(frame_seen.pc == pc);
  sigaction(SIGUSR1, &old, NULL);
}

static void strip_keeps_plain_addresses(void **state) {
  (void)state;
  uint64_t pc = (uintptr_t)&strip_keeps_plain_addresses;
  assert_true(arch_strip(pc) == pc);
  assert_true(arch_strip(0) == 0);
#if defined(__aarch64__)
  /* Signed by paciasp where the CPU can, left alone where it cannot: stripped, it is plain again.
   */
  register uint64_t x30 __asm__("x30") = pc;
  __asm__ volatile("hint #25" : "+r"(x30));
  uint64_t is_signed = x30;
  if (is_signed == pc) print_message("SKIP: this CPU has no pointer authentication\n");
  assert_true(arch_strip(is_signed) == pc);
#endif
}

/* ---- copies --------------------------------------------------------------------------------- */

typedef enum copy_phase { STARTED, SETTLED, RELEASED, LEFT } copy_phase_t;
#define COPY_PATIENCE_NS (UINT64_C(300) * 1000000000) /* so that it goes, should the test not */

static void set_phase(uint32_t *phase, copy_phase_t value) {
  store_release(phase, (uint32_t)value);
  (void)os_futex_wake_shared(phase, 1);
}

/* Makes a copy of itself that stays until it is released, and ends. */
static void leave_a_copy(uint32_t *phase) {
  if (os_process_copy(false) == 0) {
    os_process_copy_settle("copy");
    set_phase(phase, SETTLED);
    (void)os_futex_wait_shared(phase, SETTLED, COPY_PATIENCE_NS);
    set_phase(phase, LEFT);
    os_exit(0);
  }
  while (load_acquire(phase) == STARTED)
    (void)os_futex_wait_shared(phase, STARTED, 0);
  os_exit(0);
}

static void a_copy_keeps_no_descriptor_of_a_program_that_ends(void **state) {
  (void)state;
  char byte;
  int pipe_fds[2];
  uint32_t *phase = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (is_emulated()) SKIP_BECAUSE("clone(2) and close_range(2) are the emulator's own");
  if (syscall(436 /* close_range(2) */, 1u << 30, 1u << 30, 0) != 0)
    SKIP_BECAUSE("this kernel has no close_range(2)");
  assert_true(phase != MAP_FAILED);
  assert_int_equal(pipe(pipe_fds), 0);
  pid_t program = fork();
  assert_true(program >= 0);
  if (program == 0) leave_a_copy(phase);
  close(pipe_fds[1]);
  assert_int_equal(waitpid(program, NULL, 0), program);
  assert_int_equal(read(pipe_fds[0], &byte, 1), 0); /* nobody has the other end any more */
  assert_int_equal(load_acquire(phase), SETTLED);   /* and the copy is there */
  set_phase(phase, RELEASED);
  close(pipe_fds[0]);
  munmap(phase, 4096);
}

extern char **environ;

static void what_a_program_begins_with(void **state) {
  (void)state;
  os_initial_stack_t b;
  assert_true(os_initial_stack(&b));
  uint64_t string = (uint64_t)(uintptr_t)environ[0], end = (uint64_t)(uintptr_t)sbrk(0);
  assert_true(string > b.stack);
  if (is_emulated()) SKIP_BECAUSE("the emulator tells where the stack is, and no more");
  assert_true(string < b.strings_end);
  for (uint64_t at = ALIGN_UP(b.stack, (uint64_t)8); at + 8 <= b.strings_end; at += 8)
    assert_true(os_readable(at));
  assert_true(b.heap != 0 && b.heap <= end);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_never_fault),
      cmocka_unit_test(reads_never_fault_without_process_vm_readv),
      cmocka_unit_test(reads_never_fault_in_a_sandbox),
      cmocka_unit_test(readable_tells_the_truth),
      cmocka_unit_test(a_truncated_file_is_no_crash),
      cmocka_unit_test(maps_are_zeroed_and_wiped_in_children),
      cmocka_unit_test(memory_near_code),
      cmocka_unit_test(threads_and_futexes),
      cmocka_unit_test(a_lock_is_waited_for_while_its_owner_lives),
      cmocka_unit_test(time_is_the_monotonic_clock),
      cmocka_unit_test(files),
      cmocka_unit_test(registers_of_a_context),
      cmocka_unit_test(strip_keeps_plain_addresses),
      cmocka_unit_test(what_a_program_begins_with),
      cmocka_unit_test(a_copy_keeps_no_descriptor_of_a_program_that_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
