/* SPDX-License-Identifier: MIT
 *
 * A hardware shadow stack, on a machine that has none: a filter of our own sends the question for
 * it to a handler, which answers as a kernel does where one is on. Nothing that moves a return
 * address is started then, and the reason is said in words.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "hook/trampoline.h"
#include "os/os.h"
#include "skip.h"
#include "sonde/trace.h"

#if defined(__x86_64__)
#define ASKED_BY SYS_arch_prctl
#define QUESTION 0x5005 /* ARCH_SHSTK_STATUS; ARCH_SHSTK_SHSTK is bit 0 */
#else
#define ASKED_BY SYS_prctl
#define QUESTION 74 /* PR_GET_SHADOW_STACK_STATUS; PR_SHADOW_STACK_ENABLE is bit 0 */
#endif

static volatile uint64_t status;
static volatile long result;
static volatile int asked;

static void answer(int signal, siginfo_t *info, void *context) {
  ucontext_t *at = context;
  (void)signal, (void)info;
  asked++;
#if defined(__x86_64__)
  if (!result) memcpy((void *)at->uc_mcontext.gregs[REG_RSI], (const void *)&status, 8);
  at->uc_mcontext.gregs[REG_RAX] = result;
#else
  if (!result) memcpy((void *)at->uc_mcontext.regs[1], (const void *)&status, 8);
  at->uc_mcontext.regs[0] = (uint64_t)result;
#endif
}

static bool questions_are_ours(void) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ASKED_BY, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QUESTION, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/* In each test anew: cmocka sets a handler of its own before. */
static void answer_from_now_on(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGSYS, &action, NULL), 0);
}

/* An older kernel knows nothing of it, a newer one without the hardware has its own error; a status
 * without bit 0 tells of writes alone. */
static void what_the_kernel_answers(void **state) {
  (void)state;
  answer_from_now_on();
  static const struct {
    long result;
    uint64_t status;
    bool is_on;
  } answers[] = {{-EINVAL, 1, false}, {-EOPNOTSUPP, 1, false},
                 {0, 0, false},       {0, 2, false},
                 {0, 1, true},        {0, 3, true}};
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    result = answers[i].result;
    status = answers[i].status;
    int before = asked;
    assert_int_equal(os_shadow_stack(), answers[i].is_on);
    assert_int_equal(asked, before + 1);
  }
}

static void refused_in_words(void **state) {
  (void)state;
  answer_from_now_on();
  result = 0;
  status = 1;
  const char *why = trampoline_ready();
  assert_non_null(why);
  assert_non_null(strstr(why, "shadow stack"));
  assert_int_equal(sonde_trace_calls("getppid"), SONDE_EUNSUPPORTED);
  status = 0;
  assert_null(trampoline_ready());
}

int main(void) {
  if (is_emulated() || !questions_are_ours()) {
    puts("skipped: no filter for system calls here");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_kernel_answers),
      cmocka_unit_test(refused_in_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
