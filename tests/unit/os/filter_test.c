/* SPDX-License-Identifier: MIT
 *
 * The interpreter of seccomp filters against the kernel: random programs are installed in forked
 * children, and the children observe the verdicts. SONDE_SEED repeats a run.
 */
#include "os/linux/calls/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "skip.h"

#define ALLOW               SECCOMP_RET_ALLOW
#define RET(value)          BPF_STMT(BPF_RET | BPF_K, (value))
#define LOAD(offset)        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define COUNT(program)      ((uint32_t)(sizeof(program) / sizeof *(program)))
#define VERDICT(program, c) filter_verdict(program, COUNT(program), c)

/* ---- programs by hand ----------------------------------------------------------------------- */

static void valid_programs_only(void **state) {
  (void)state;
  const struct {
    struct sock_filter program[3];
    uint32_t count;
    bool valid;
  } cases[] = {
      {{RET(ALLOW)}, 1, true},
      {{RET(ALLOW)}, 0, false},
      {{LOAD(0)}, 1, false},                                         /* no return at the end */
      {{LOAD(64), RET(ALLOW)}, 2, false},                            /* behind the data */
      {{LOAD(2), RET(ALLOW)}, 2, false},                             /* not aligned */
      {{BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0), RET(ALLOW)}, 2, true},  /* to the next */
      {{BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0), RET(ALLOW)}, 2, false}, /* behind the end */
      {{BPF_JUMP(BPF_JMP | BPF_JA, UINT32_MAX, 0, 0), RET(ALLOW)}, 2, false}, /* backwards */
      {{BPF_JUMP(BPF_JMP | BPF_JEQ, 0, 1, 0), RET(ALLOW)}, 2, false},
      {{BPF_JUMP(BPF_JMP | BPF_JEQ, 0, 0, 255), RET(ALLOW)}, 2, false},
      {{BPF_STMT(BPF_LD | BPF_MEM, 0), RET(ALLOW)}, 2, false}, /* never stored */
      {{BPF_STMT(BPF_ST, 3), BPF_STMT(BPF_LD | BPF_MEM, 3), RET(ALLOW)}, 3, true},
      {{BPF_STMT(BPF_ST, 16), RET(ALLOW)}, 2, false}, /* no such cell */
      {{BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), RET(ALLOW)}, 2, false},
      {{BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 32), RET(ALLOW)}, 2, false},
      {{BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, 3), RET(ALLOW)}, 2, false},
      {{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0), RET(ALLOW)}, 2, false},
      {{BPF_STMT(0xffff, 0), RET(ALLOW)}, 2, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (filter_is_valid(cases[i].program, cases[i].count) != cases[i].valid)
      fail_msg("case %zu", i);
  static struct sock_filter long_program[BPF_MAXINSNS + 1];
  for (size_t i = 0; i <= BPF_MAXINSNS; i++)
    long_program[i] = (struct sock_filter)RET(ALLOW);
  assert_true(filter_is_valid(long_program, BPF_MAXINSNS));
  assert_false(filter_is_valid(long_program, BPF_MAXINSNS + 1));
}

/* The second argument must be 7; the filter looks at both of its words. */
static void unknown_arguments_count_as_the_worst(void **state) {
  (void)state;
  const struct sock_filter program[] = {
      LOAD(offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 3),
      LOAD(offsetof(struct seccomp_data, args[1]) + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      RET(ALLOW),
      RET(SECCOMP_RET_ERRNO | EPERM),
  };
  filter_call_t call = {.number = 1, .machine = FILTER_MACHINE, .known = 0x3f};
  call.arguments[1] = 7;
  assert_int_equal(VERDICT(program, &call), ALLOW);
  call.arguments[1] = (UINT64_C(1) << 32) + 7;
  assert_int_equal(VERDICT(program, &call), SECCOMP_RET_ERRNO | EPERM);
  call.known = 0x3d;
  assert_int_equal(VERDICT(program, &call), SECCOMP_RET_ERRNO | EPERM);
  call.known = 2; /* the argument that the filter looks at */
  call.arguments[1] = 7;
  assert_int_equal(VERDICT(program, &call), ALLOW);
  assert_true(filter_verdict_allows(SECCOMP_RET_LOG));
  assert_false(filter_verdict_allows(SECCOMP_RET_ERRNO));
  assert_false(filter_verdict_allows(0x7fc00000)); /* SECCOMP_RET_USER_NOTIF */
}

/* Two ways at each of a thousand jumps: the number of paths is bounded, and the verdict is safe. */
static void too_many_paths_kill(void **state) {
  (void)state;
  static struct sock_filter program[3001];
  for (uint32_t i = 0; i < 3000; i += 3) {
    program[i] = (struct sock_filter)LOAD(16);
    program[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1u << (i % 32), 0, 1);
    program[i + 2] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 1);
  }
  program[3000] = (struct sock_filter)RET(ALLOW);
  const filter_call_t call = {.machine = FILTER_MACHINE};
  assert_true(filter_is_valid(program, 3001));
  assert_int_equal(filter_verdict(program, 3001, &call), 0x80000000u);
  const filter_call_t known = {.machine = FILTER_MACHINE, .known = 0x3f};
  assert_int_equal(filter_verdict(program, 3001, &known), ALLOW);
}

/* ---- random programs ------------------------------------------------------------------------ */

static uint64_t seed;

static uint32_t draw(uint32_t below) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (uint32_t)(seed >> 20) % below;
}

#define TESTED   SYS_getuid /* the call that the random part decides on */
#define BODY_MAX 24u
#define PROLOGUE 2u
#define CALLS    6u
#define ALL_BITS (draw(2) ? draw(8) : draw(UINT32_MAX))

typedef struct subject {
  struct sock_filter program[PROLOGUE + BODY_MAX + 1];
  uint32_t count;
  uint64_t arguments[CALLS][6];
} subject_t;

static struct sock_filter draw_instruction(uint32_t left) {
  static const uint16_t codes[] = {BPF_LD | BPF_W | BPF_ABS,
                                   BPF_LD | BPF_W | BPF_ABS,
                                   BPF_LD | BPF_W | BPF_LEN,
                                   BPF_LDX | BPF_W | BPF_LEN,
                                   BPF_LD | BPF_IMM,
                                   BPF_LDX | BPF_IMM,
                                   BPF_LD | BPF_MEM,
                                   BPF_LDX | BPF_MEM,
                                   BPF_ST,
                                   BPF_STX,
                                   BPF_ST,
                                   BPF_MISC | BPF_TAX,
                                   BPF_MISC | BPF_TXA,
                                   BPF_ALU | BPF_ADD,
                                   BPF_ALU | BPF_SUB,
                                   BPF_ALU | BPF_MUL,
                                   BPF_ALU | BPF_DIV,
                                   BPF_ALU | BPF_AND,
                                   BPF_ALU | BPF_OR,
                                   BPF_ALU | BPF_XOR,
                                   BPF_ALU | BPF_LSH,
                                   BPF_ALU | BPF_RSH,
                                   BPF_ALU | BPF_NEG,
                                   BPF_JMP | BPF_JEQ,
                                   BPF_JMP | BPF_JGT,
                                   BPF_JMP | BPF_JGE,
                                   BPF_JMP | BPF_JSET,
                                   BPF_JMP | BPF_JA,
                                   BPF_RET | BPF_K,
                                   BPF_RET | BPF_A};
  static const uint32_t verdicts[] = {ALLOW,
                                      SECCOMP_RET_ERRNO | 5,
                                      SECCOMP_RET_TRAP | 9,
                                      SECCOMP_RET_TRACE,
                                      0x7fc00000,
                                      SECCOMP_RET_KILL_THREAD,
                                      0x80000000,
                                      0x12345678,
                                      SECCOMP_RET_ERRNO | 0xffff};
  uint16_t code = codes[draw(sizeof codes / sizeof *codes)];
  uint32_t class = BPF_CLASS(code), k = ALL_BITS;
  if ((class == BPF_ALU || class == BPF_JMP) && code != (BPF_JMP | BPF_JA) &&
      code != (BPF_ALU | BPF_NEG) && draw(3) == 0)
    code |= BPF_X;
  if (class == BPF_LD && BPF_MODE(code) == BPF_ABS) k = 4 * draw(16);
  if (BPF_MODE(code) == BPF_MEM || class == BPF_ST || class == BPF_STX) k = draw(3);
  if (code == (BPF_ALU | BPF_LSH) || code == (BPF_ALU | BPF_RSH)) k = draw(32);
  if (code == (BPF_JMP | BPF_JA)) k = draw(left ? left : 1);
  if (class == BPF_RET) k = verdicts[draw(sizeof verdicts / sizeof *verdicts)];
  if (draw(80) == 0) k = draw(UINT32_MAX); /* most of these are refused */
  if (draw(200) == 0) code = (uint16_t)draw(65536);
  uint32_t reach = left < 6 ? left : 6;
  return (struct sock_filter){code, (uint8_t)draw(reach + (draw(60) == 0) + !reach),
                              (uint8_t)draw(reach + (draw(60) == 0) + !reach), k};
}

/* All calls but TESTED are allowed; the body decides on that one. Two cells are stored to first, so
 * that most loads are valid. */
static void draw_subject(subject_t *s) {
  uint32_t body = 1 + draw(BODY_MAX);
  s->count = 0;
  s->program[s->count++] = (struct sock_filter)LOAD(0);
  s->program[s->count++] =
      (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TESTED, 0, (uint8_t)body);
  for (uint32_t i = 0; i < body; i++)
    s->program[s->count++] =
        i < 2 && body > 3 ? (struct sock_filter)BPF_STMT(BPF_ST, i) : draw_instruction(body - i);
  s->program[s->count++] = (struct sock_filter)RET(ALLOW);
  for (uint32_t c = 0; c < CALLS; c++)
    for (int i = 0; i < 6; i++)
      s->arguments[c][i] = (uint64_t)(draw(2) ? 0 : draw(UINT32_MAX)) << 32 | ALL_BITS;
}

static filter_call_t call_of(const subject_t *s, uint32_t c) {
  filter_call_t call = {.number = TESTED, .machine = FILTER_MACHINE, .known = 0x3f};
  memcpy(call.arguments, s->arguments[c], sizeof call.arguments);
  call.pc_unknown = true;
  return call;
}

/* ---- what the kernel does ------------------------------------------------------------------- */

enum { NOT_INSTALLED = -100000, TRAPPED = -200000, NOT_MADE = -300000 };

/* Written by the child: whether the filter was installed, and the result of each call. */
typedef struct observed {
  int32_t installed;
  int32_t results[CALLS];
} observed_t;

static observed_t *observed;
static volatile int32_t trap_data;

static void on_trap(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  trap_data = info->si_errno;
}

static void observe(const subject_t *s) {
  struct sock_fprog program = {(unsigned short)s->count, (struct sock_filter *)s->program};
  struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
  sigaction(SIGSYS, &action, NULL);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    observed->installed = errno;
    _exit(0);
  }
  for (uint32_t c = 0; c < CALLS; c++) {
    const uint64_t *a = s->arguments[c];
    trap_data = -1;
    observed->results[c] = NOT_MADE;
    long r = syscall(TESTED, a[0], a[1], a[2], a[3], a[4], a[5]);
    observed->results[c] = trap_data >= 0 ? TRAPPED - trap_data : r < 0 ? -errno : (int32_t)r;
  }
  _exit(0);
}

/* The result of the call under VERDICT; NOT_MADE: it ends the process. */
static int32_t expected(uint32_t verdict) {
  uint32_t data = verdict & 0xffff;
  switch (verdict & 0xffff0000u) {
  case SECCOMP_RET_ALLOW:
  case SECCOMP_RET_LOG: return (int32_t)getuid();
  case SECCOMP_RET_ERRNO: return data == 0 ? 0 : -(int32_t)(data > 4095 ? 4095 : data);
  case SECCOMP_RET_TRAP: return TRAPPED - (int32_t)data;
  case SECCOMP_RET_TRACE:
  case 0x7fc00000: return -ENOSYS; /* there is neither a tracer nor a listener */
  default: return NOT_MADE;
  }
}

/* The pc is unknown to the interpreter: a program that looks at it is left out. */
static bool reads_pc(const subject_t *s) {
  for (uint32_t i = 0; i < s->count; i++)
    if (s->program[i].code == (BPF_LD | BPF_W | BPF_ABS) && s->program[i].k / 8 == 1) return true;
  return false;
}

static void check_verdicts(const subject_t *s, int status) {
  for (uint32_t c = 0; c < CALLS; c++) {
    filter_call_t call = call_of(s, c);
    int32_t wanted = expected(filter_verdict(s->program, s->count, &call));
    assert_int_equal(observed->results[c], wanted);
    if (wanted != NOT_MADE) continue;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    return;
  }
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Returns true if the kernel accepted the program. */
static bool compare(const subject_t *s) {
  memset(observed, 0, sizeof *observed);
  pid_t child = fork();
  if (child == 0) observe(s);
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(filter_is_valid(s->program, s->count), observed->installed == 0);
  if (observed->installed != 0) return false;
  if (!reads_pc(s)) check_verdicts(s, status);
  return true;
}

static void verdicts_are_the_kernels(void **state) {
  (void)state;
  if (is_emulated()) SKIP_BECAUSE("qemu-user has no seccomp");
  enum { PROGRAMS = 600 };
  observed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(observed, MAP_FAILED);
  int accepted = 0;
  for (int i = 0; i < PROGRAMS; i++) {
    subject_t s;
    draw_subject(&s);
    accepted += compare(&s);
  }
  printf("%d of %d programs accepted\n", accepted, PROGRAMS);
  assert_in_range(accepted, PROGRAMS / 4, PROGRAMS - PROGRAMS / 20);
}

/* Whatever an unknown argument is, the verdict is not more severe than the one found without it. */
static void unknown_is_never_too_mild(void **state) {
  (void)state;
  for (int i = 0; i < 20000; i++) {
    subject_t s;
    draw_subject(&s);
    if (!filter_is_valid(s.program, s.count)) continue;
    filter_call_t unknown = call_of(&s, 0);
    unknown.known = (uint8_t)draw(64);
    uint32_t worst = filter_verdict(s.program, s.count, &unknown);
    for (uint32_t c = 0; c < CALLS; c++) {
      filter_call_t call = call_of(&s, c);
      for (int a = 0; a < 6; a++)
        if (unknown.known >> a & 1) call.arguments[a] = unknown.arguments[a];
      uint32_t verdict = filter_verdict(s.program, s.count, &call);
      assert_true((int32_t)(worst & 0xffff0000u) <= (int32_t)(verdict & 0xffff0000u));
    }
  }
}

int main(void) {
  const char *given = getenv("SONDE_SEED");
  seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
  if (seed == 0) seed = 1;
  printf("SONDE_SEED=%llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(valid_programs_only),
      cmocka_unit_test(unknown_arguments_count_as_the_worst),
      cmocka_unit_test(too_many_paths_kill),
      cmocka_unit_test(verdicts_are_the_kernels),
      cmocka_unit_test(unknown_is_never_too_mild),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
