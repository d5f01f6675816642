/* SPDX-License-Identifier: MIT
 *
 * The calling thread's stack as program counters: where it starts, what it leaves out, how it ends.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "oracle.h"
#include "skip.h"
#include "capture/capture.h"

static shadow_t the_shadow;
/* Prevents calls from becoming jumps. */
static volatile int zero;

/* ---- where it starts ------------------------------------------------------------------------- */

static NOINLINE int takes(uintptr_t *pcs, int max, uintptr_t *own) {
  SHADOW_ENTER();
  int count = sonde_stack(pcs, max);
  own[0] = (uintptr_t)__builtin_return_address(0);
  SHADOW_LEAVE();
  return count + zero;
}

static void first_pc_is_the_callers(void **state) {
  (void)state;
  uintptr_t pcs[64], own[1];
  shadow_start(&the_shadow);
  /* First without, then with the cache. */
  for (int i = 0; i < 3; i++) {
    int count = takes(pcs, 64, own);
    assert_true(count > 2);
    assert_true(pcs[0] > (uintptr_t)takes && pcs[0] < (uintptr_t)takes + 400);
    assert_int_equal(pcs[1], own[0]);
    the_shadow.depth = 1;
    the_shadow.ra[0] = own[0];
    assert_int_equal(shadow_check(pcs, count, 1, "first pc"), 1);
    the_shadow.depth = 0;
  }
}

static NOINLINE int captures(sonde_capture_t *capture) {
  int count = sonde_capture(capture);
  return count + zero;
}

static void skip_and_max(void **state) {
  (void)state;
  uintptr_t whole[64], part[64];
  sonde_capture_t all = {.pcs = whole, .max = 64};
  for (int round = 0; round < 2; round++) {
    sonde_capture_t c = {.pcs = whole, .max = 64};
    assert_true(captures(&c) > 3);
    all = c;
  }
  assert_int_equal(all.status, SONDE_STACK_COMPLETE);
  assert_int_equal(all.reason, 0);
  for (int skip = 0; skip < all.count + 3; skip++)
    for (int max = 1; max < all.count + 3; max++) {
      sonde_capture_t c = {.pcs = part, .max = max, .skip = skip};
      memset(part, 0xee, sizeof part);
      int count = captures(&c), left = all.count > skip ? all.count - skip : 0;
      assert_int_equal(count, left < max ? left : max);
      assert_int_equal(c.count, count);
      assert_int_equal(c.status, left > max ? SONDE_STACK_TRUNCATED : SONDE_STACK_COMPLETE);
      for (int i = skip < 2 ? 2 - skip : 0; i < count; i++)
        assert_int_equal(part[i], whole[skip + i]);
      assert_int_equal(part[count], (uintptr_t)0xeeeeeeeeeeeeeeee);
    }
}

static void wrong_arguments(void **state) {
  (void)state;
  uintptr_t pcs[4];
  uint32_t id = 7;
  assert_int_equal(sonde_stack(NULL, 4), SONDE_EINVAL);
  assert_int_equal(sonde_stack(pcs, 0), SONDE_EINVAL);
  assert_int_equal(sonde_stack(pcs, -1), SONDE_EINVAL);
  assert_int_equal(sonde_capture(NULL), SONDE_EINVAL);
  assert_int_equal(sonde_capture(&(sonde_capture_t){.pcs = pcs}), SONDE_EINVAL);
  assert_int_equal(sonde_capture(&(sonde_capture_t){.pcs = pcs, .max = 4, .async = 7}),
                   SONDE_EINVAL);
  assert_int_equal(sonde_capture(&(sonde_capture_t){.max = 4}), SONDE_EINVAL);
  assert_int_equal(sonde_capture(&(sonde_capture_t){.pcs = pcs, .max = 4, .skip = -1}),
                   SONDE_EINVAL);
  assert_int_equal(sonde_stack_id(NULL), SONDE_EINVAL);
  assert_int_equal(sonde_stack_of_id(0, pcs, 4), SONDE_ENOTFOUND);
  assert_int_equal(sonde_stack_of_id(0xffffffff, pcs, 4), SONDE_ENOTFOUND);
  assert_int_equal(sonde_stack_of_id(0x7fffffff, pcs, 4), SONDE_ENOTFOUND);
  assert_int_equal(sonde_stack_id(&id), 0);
  assert_int_equal(sonde_stack_of_id(id, NULL, 4), SONDE_EINVAL);
  assert_int_equal(sonde_stack_of_id(id, pcs, 0), SONDE_EINVAL);
}

/* A frame given by three registers: the caller's, as the compiler reports it. */
static NOINLINE int from_frame(sonde_capture_t *capture) {
  ucontext_t here;
  getcontext(&here);
  arch_frame_t frame = arch_context_frame(&here);
  capture->pc = frame.pc;
  capture->sp = frame.sp;
  capture->fp = frame.fp;
  int count = sonde_capture(capture);
  return count + zero;
}

static NOINLINE int from_context(sonde_capture_t *capture) {
  ucontext_t here;
  getcontext(&here);
  capture->ucontext = &here;
  int count = sonde_capture(capture);
  return count + zero;
}

static NOINLINE int from_here(sonde_capture_t *capture) {
  int count = sonde_capture(capture);
  return count + zero;
}

static void starts_at_frame_or_context(void **state) {
  (void)state;
  int (*const ways[])(sonde_capture_t *) = {from_frame, from_context};
  uintptr_t pcs[64], expected[64];
  for (int i = 0; i < 2; i++) {
    sonde_capture_t here = {.pcs = expected, .max = 64}, there = {.pcs = pcs, .max = 64};
    from_here(&here);
    ways[i](&there);
    assert_true(pcs[0] > (uintptr_t)ways[i] && pcs[0] < (uintptr_t)ways[i] + 400);
    assert_int_equal(there.status, SONDE_STACK_COMPLETE);
    assert_int_equal(there.count, here.count);
    for (int k = 2; k < here.count; k++)
      assert_int_equal(pcs[k], expected[k]);
  }
}

static void starts_at_invalid_frames(void **state) {
  (void)state;
  uintptr_t pcs[64];
  uint64_t random = seed_given();
  ucontext_t here;
  getcontext(&here);
  arch_frame_t frame = arch_context_frame(&here);
  for (int i = 0; i < 20000; i++) {
    uint64_t word = (uint64_t)chance(&random) << 32 | chance(&random);
    sonde_capture_t c = {.pcs = pcs, .max = 64, .pc = frame.pc, .sp = frame.sp, .fp = frame.fp};
    switch (chance(&random) % 6) {
    case 0: c.sp = word; break;
    case 1: c.fp = word; break;
    case 2: c.pc = word | 1; break;
    case 3: c.sp += word % 8192 & ~7u; break;
    case 4: c.fp = c.sp + word % 512; break;
    default: c.pc += word % 4096; c.fp = chance(&random) & 1 ? word : c.fp;
    }
    int count = sonde_capture(&c);
    assert_in_range(count, 1, 64);
    assert_int_equal(c.count, count);
  }
}

/* ---- how it ends ----------------------------------------------------------------------------- */

static NOINLINE int recurse(int depth, sonde_capture_t *capture) {
  int result = depth ? recurse(depth - 1, capture) : sonde_capture(capture);
  return result + zero;
}

static void *deep_stack(void *argument) {
  (void)argument;
  static uintptr_t pcs[200000];
  sonde_capture_t base = {.pcs = pcs, .max = 200000}, c;
  recurse(0, &base);
  for (int depth = 1; depth < 130000; depth += depth / 3 + 1) {
    c = (sonde_capture_t){.pcs = pcs, .max = 200000};
    recurse(depth, &c);
    EXPECT_EQUAL(c.status, SONDE_STACK_COMPLETE);
    EXPECT_EQUAL(c.count, base.count + depth);
    for (int i = 2; i < depth; i++)
      EXPECT_EQUAL(pcs[i], pcs[1]);
    c = (sonde_capture_t){.pcs = pcs, .max = 10};
    recurse(depth, &c);
    EXPECT_EQUAL(c.count, base.count + depth > 10 ? 10 : base.count + depth);
    EXPECT_EQUAL(c.status, base.count + depth > 10 ? SONDE_STACK_TRUNCATED : SONDE_STACK_COMPLETE);
  }
  return NULL;
}

static void on_stack_of(size_t size, void *(*run)(void *)) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  assert_int_equal(pthread_attr_setstacksize(&attributes, size), 0);
  assert_int_equal(pthread_create(&thread, &attributes, run, NULL), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
}

static void deep_stacks(void **state) {
  (void)state;
  on_stack_of(256u << 20, deep_stack);
}

static NOINLINE int large_frame(sonde_capture_t *capture, size_t size) {
  volatile char *room = __builtin_alloca(size);
  room[0] = 1;
  int count = sonde_capture(capture);
  return count + zero + room[0] - 1;
}

static void *large_frames_on_thread(void *argument) {
  (void)argument;
  uintptr_t pcs[64];
  int expected = 0;
  for (size_t size = 16; size < 60u << 20; size = size * 5 / 2) {
    sonde_capture_t c = {.pcs = pcs, .max = 64};
    int count = large_frame(&c, size);
    if (!expected) expected = count;
    EXPECT_EQUAL(c.status, SONDE_STACK_COMPLETE);
    EXPECT_EQUAL(count, expected);
  }
  return NULL;
}

static void large_frames(void **state) {
  (void)state;
  on_stack_of(128u << 20, large_frames_on_thread);
}

/* ---- signals --------------------------------------------------------------------------------- */

static sonde_capture_t in_handler, of_context;
static uintptr_t handler_pcs[128], context_pcs[128];
static int handler_count;

static void on_signal(int number, siginfo_t *info, void *ucontext) {
  (void)number;
  (void)info;
  in_handler = (sonde_capture_t){.pcs = handler_pcs, .max = 128};
  of_context = (sonde_capture_t){.pcs = context_pcs, .max = 128, .ucontext = ucontext};
  handler_count = sonde_capture(&in_handler);
  sonde_capture(&of_context);
}

static void install(int flags) {
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
  sigaction(SIGUSR1, &action, NULL);
}

static NOINLINE int raises(void) {
  SHADOW_ENTER();
  raise(SIGUSR1);
  SHADOW_LEAVE();
  return zero;
}

static void check_handler(void) {
  shadow_start(&the_shadow);
  raises();
  assert_int_equal(in_handler.status, SONDE_STACK_COMPLETE);
  assert_true(in_handler.flags & SONDE_FLAG_SIGNAL_FRAME);
  assert_int_equal(of_context.status, SONDE_STACK_COMPLETE);
  assert_false(of_context.flags & SONDE_FLAG_SIGNAL_FRAME);
  assert_true(handler_pcs[0] > (uintptr_t)on_signal && handler_pcs[0] < (uintptr_t)on_signal + 500);
  /* The handler, the trampoline, then the frames of the context. */
  assert_int_equal(in_handler.count, of_context.count + 2);
  assert_memory_equal(handler_pcs + 2, context_pcs, (size_t)of_context.count * sizeof *context_pcs);
  assert_true(shadow_check(handler_pcs, handler_count, 10, "handler") >= 3);
}

static void handler_on_the_same_stack(void **state) {
  (void)state;
  install(0);
  check_handler();
}

static void handler_on_the_alternate_stack(void **state) {
  (void)state;
  install(SA_ONSTACK);
  const size_t size = 65536;
  char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  /* On the emulated stack. */
  char within[16384];
  char *const places[] = {mapped, within, malloc(size)};
  const size_t sizes[] = {size, sizeof within, size};
  for (int i = 0; i < 6; i++) {
    stack_t alternate = {.ss_sp = places[i % 3], .ss_size = sizes[i % 3]},
            none = {.ss_flags = SS_DISABLE};
    assert_int_equal(sigaltstack(&alternate, NULL), 0);
    check_handler();
    check_handler();
    assert_int_equal(sigaltstack(&none, NULL), 0);
  }
  free(places[2]);
  munmap(mapped, size);
}

/* ---- processes and threads ------------------------------------------------------------------- */

static void child_sees_its_stack(bool with_vfork) {
  uintptr_t mine[64], theirs[64];
  shadow_start(&the_shadow);
  sonde_stack(mine, 64);
  pid_t pid = with_vfork ? vfork() : fork();
  if (pid == 0) {
    int count = 0;
    for (int i = 0; i < 3; i++)
      count = sonde_stack(theirs, 64);
    const shadow_t *s = &the_shadow;
    bool right = count == s->tail_count + 1;
    for (int i = 0; right && i < s->tail_count; i++)
      right = theirs[i + 1] == s->tail[i];
    _exit(right ? 42 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 42);
  int count = sonde_stack(mine, 64);
  shadow_check(mine, count, 1, "parent");
}

static NOINLINE void in_fork(void) { child_sees_its_stack(zero); }
static NOINLINE void in_vfork(void) { child_sees_its_stack(!zero); }
static void fork_child(void **state) {
  (void)state;
  in_fork();
}
static void vfork_child(void **state) {
  (void)state;
  in_vfork();
}

int main(void) {
  if (is_sanitized()) {
    printf("skipped: a sanitizer's own frames stand in the stacks that are compared\n");
    return 77;
  }
  /* glibc's backtrace loads libgcc at its first call. */
  uintptr_t warm[8];
  void *found[4];
  backtrace_of_libc()(found, 4);
  sonde_stack(warm, 8);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_pc_is_the_callers),
      cmocka_unit_test(skip_and_max),
      cmocka_unit_test(wrong_arguments),
      cmocka_unit_test(starts_at_frame_or_context),
      cmocka_unit_test(starts_at_invalid_frames),
      cmocka_unit_test(deep_stacks),
      cmocka_unit_test(large_frames),
      cmocka_unit_test(handler_on_the_same_stack),
      cmocka_unit_test(handler_on_the_alternate_stack),
      cmocka_unit_test(fork_child),
      cmocka_unit_test(vfork_child),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
