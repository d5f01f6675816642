/* SPDX-License-Identifier: MIT
 *
 * A signal at every instruction of a capture.
 *
 * The processor's trap flag raises SIGTRAP after each instruction between trace_on() and
 * trace_off(). The handler does what a handler may do: it captures, recurses, captures on another
 * stack, switches fibers, forks, jumps out. It does so at every instruction of a capture or, since
 * that is a different history for the interrupted state, at one instruction per round. The stack
 * that the handler captures, the result of the interrupted capture and the thread's later captures
 * must all be true. Captures start from every state that the frame cache can have.
 *
 * STEP_STRIDE is the distance to the next round's instruction, in 1/32 of the instructions passed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "oracle.h"
#include "skip.h"
#include "capture/stack.h"
#include "trap.h"
#include "capture/thread_state.h"

#ifndef STEP_STRIDE
#define STEP_STRIDE 64
/* More than a walk's ring. */
#define STEP_DEEP 130
#endif

#if defined(__x86_64__)

static volatile int zero;
static shadow_t main_shadow, fiber_shadow, handler_shadow;

/* ---- what is interrupted --------------------------------------------------------------------- */

typedef enum start_state { UNCHANGED, CHANGED, COLD, STALE, DEEP, PCS, STATES } start_state_t;
static const char *const state_names[] = {"unchanged", "changed", "cold", "stale", "deep", "pcs"};

static volatile uint64_t trap_flag;
static sigjmp_buf out;
static volatile bool jumped;

/* One call each, traced or not, so that all iterations have one stack. */
static NOINLINE uint32_t take_id(void) {
  SHADOW_ENTER();
  HAS_FRAME_POINTER();
  volatile uint32_t id = 0;
  if (sigsetjmp(out, 1) == 0) {
    trace_on(trap_flag);
    int result = sonde_stack_id((uint32_t *)&id);
    trace_off();
    EXPECT_EQUAL(result, 0);
  } else
    jumped = true;
  SHADOW_LEAVE();
  return id + (uint32_t)zero;
}

static NOINLINE int take_pcs(uintptr_t *pcs) {
  SHADOW_ENTER();
  HAS_FRAME_POINTER();
  volatile int count = 0;
  if (sigsetjmp(out, 1) == 0) {
    trace_on(trap_flag);
    count = sonde_stack(pcs, ORACLE_MAX);
    trace_off();
  } else
    jumped = true;
  if (!jumped) EXPECT_EQUAL(shadow_check(pcs, count, 1, "interrupted capture"), 1);
  SHADOW_LEAVE();
  return count + zero;
}

static void check_id(uint32_t id, int extra, const char *what) {
  static __thread uintptr_t pcs[ORACLE_MAX];
  int count = sonde_stack_of_id(id, pcs, ORACLE_MAX);
  if (count < STACK_OUTER + STACK_INNER) shadow_check(pcs, count, extra, what);
}

static NOINLINE uint32_t dig(int depth, unsigned path, bool pcs);

static NOINLINE uint32_t dig_with_frame_pointer(int depth, unsigned path, bool pcs) {
  SHADOW_ENTER();
  volatile char room[200 + (path & 48)];
  room[0] = 1;
  uint32_t id = dig(depth, path, pcs) + (uint32_t)zero * (uint32_t)room[0];
  SHADOW_LEAVE();
  return id;
}

/* Captures DEPTH frames further in, by a PATH of two kinds of frames. */
static NOINLINE uint32_t dig(int depth, unsigned path, bool pcs) {
  SHADOW_ENTER();
  uint32_t id;
  unsigned rest = path >> 1 | path << 31;
  static uintptr_t saved[ORACLE_MAX];
  if (depth)
    id = path & 1 ? dig_with_frame_pointer(depth - 1, rest, pcs) : dig(depth - 1, rest, pcs);
  else
    id = pcs ? (uint32_t)take_pcs(saved) : take_id();
  SHADOW_LEAVE();
  return id + (uint32_t)zero;
}

static NOINLINE uint32_t capture_from(start_state_t state, uint64_t flag) {
  SHADOW_ENTER();
  uint32_t id = 0;
  const int depth = state == DEEP ? STEP_DEEP : 12;
  /* Volatile: all iterations make the same call. */
  for (volatile int turn = 0; turn < 2; turn++) {
    trap_flag = turn == 1 ? flag : 0;
    if (turn == 1) {
      if (state == COLD) thread_state_current = NULL;
      if (state == STALE) thread_state_current->cache.epoch = 1;
      if (state == DEEP) frame_cache_clear(&thread_state_current->cache);
    }
    bool same = turn == 1 || state != CHANGED;
    id = dig(depth, same ? 0xa5a5a5a4u : 0xa5a5a5b6u, state == PCS);
  }
  trap_flag = 0;
  SHADOW_LEAVE();
  return id;
}

/* ---- what interrupts ------------------------------------------------------------------------- */

typedef enum action { CAPTURE, CAPTURE_DEEPER, SWITCH_FIBER, FORK, JUMP_OUT, ACTIONS } action_t;
static const char *const action_names[] = {"capture", "capture deeper", "switch to a fiber", "fork",
                                           "jump out"};

static volatile action_t action;
/* act_at < 0: at every instruction. */
static volatile long act_at, steps;

static NOINLINE void capture_and_check(int extra) {
  SHADOW_ENTER();
  uint32_t ids[2];
  /* Volatile: one call. */
  for (volatile int i = 0; i < 2; i++)
    EXPECT_EQUAL(sonde_stack_id(&ids[i]), 0);
  EXPECT_EQUAL(ids[0], ids[1]);
  check_id(ids[0], extra, "id in a handler");
  static uintptr_t pcs[ORACLE_MAX];
  int count = sonde_stack(pcs, ORACLE_MAX);
  shadow_check(pcs, count, extra, "stack in a handler");
  SHADOW_LEAVE();
}

static NOINLINE void recurse_and_check(int depth, int extra) {
  SHADOW_ENTER();
  if (depth)
    recurse_and_check(depth - 1, extra);
  else
    capture_and_check(extra);
  SHADOW_LEAVE();
}

static ucontext_t of_handler, of_fiber;
static char fiber_stack[65536] __attribute__((aligned(4096)));

static void fiber_runs(void) {
  fiber_shadow.depth = 0;
  fiber_shadow.tail_count = 1;
  fiber_shadow.tail[0] = (uintptr_t)__builtin_return_address(0);
  shadow = &fiber_shadow;
  recurse_and_check(20, 3);
  shadow = &handler_shadow;
}

static void act(void) {
  shadow_t *interrupted = shadow;
  int depth = interrupted->depth, status = 0;
  handler_shadow.depth = handler_shadow.tail_count = 0;
  handler_shadow.interrupted = interrupted;
  shadow = &handler_shadow;
  switch (action) {
  case CAPTURE: capture_and_check(24); break;
  case CAPTURE_DEEPER: recurse_and_check(30, 24); break;
  case SWITCH_FIBER:
    getcontext(&of_fiber);
    of_fiber.uc_stack.ss_sp = fiber_stack;
    of_fiber.uc_stack.ss_size = sizeof fiber_stack;
    of_fiber.uc_link = &of_handler;
    makecontext(&of_fiber, fiber_runs, 0);
    swapcontext(&of_handler, &of_fiber);
    break;
  case FORK: {
    pid_t pid = fork();
    if (pid == 0) {
      capture_and_check(24);
      /* The child continues with the interrupted capture. */
      break;
    }
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42)
      oracle_fail("instruction %ld: the child ended with status %#x", (long)act_at, status);
    break;
  }
  case JUMP_OUT: shadow = interrupted; siglongjmp(out, 1);
  default: break;
  }
  shadow = interrupted;
  EXPECT_EQUAL(shadow->depth, depth);
}

static pid_t parent;

static void on_trap(int number, siginfo_t *info, void *ucontext) {
  (void)number;
  (void)info;
  ucontext_t *u = ucontext;
  if (act_at >= 0) {
    if (steps++ < act_at) return;
    u->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  } else
    steps++;
  act();
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static uint32_t expected_of[STATES];

static void check_after(start_state_t state, uint32_t id) {
  if (state == PCS) return;
  if (!jumped) EXPECT_EQUAL(id, expected_of[state]);
  jumped = false;
  /* The thread's later captures are correct, whatever state that left. */
  for (int i = 0; i < 2; i++) {
    static uintptr_t pcs[ORACLE_MAX];
    shadow_check(pcs, sonde_stack(pcs, ORACLE_MAX), 24, "stack afterwards");
  }
}

static NOINLINE long interrupt(start_state_t state, action_t what, long at) {
  SHADOW_ENTER();
  action = what;
  act_at = at;
  steps = 0;
  jumped = false;
  uint32_t id = 0;
  /* The last iteration repeats it undisturbed. */
  for (volatile int turn = 0; turn < 3; turn++) {
    if (turn == 0 && expected_of[state]) continue;
    uint64_t flag = turn == 1 ? TRAP_FLAG : 0;
    id = capture_from(state, flag);
    if (turn == 0) expected_of[state] = id;
    check_after(state, id);
  }
  if (getpid() != parent) _exit(42);
  SHADOW_LEAVE();
  return steps;
}

static void install(int flags) {
  struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | flags};
  sigaction(SIGTRAP, &sa, NULL);
}

static NOINLINE void at_every_instruction(action_t what, int stride) {
  SHADOW_ENTER();
  for (start_state_t state = 0; state < STATES; state++) {
    expected_of[state] = 0;
    long all = 0, rounds = 0, next = what == JUMP_OUT || what == FORK ? 0 : -1;
    /* First at every instruction, which forks and jumps cannot do, then at one per round. */
    /* It takes a million instructions. */
    const bool brief = state == DEEP && STEP_STRIDE > 1;
    for (volatile bool more = what == CAPTURE || !brief; more; rounds++) {
      long at = next, seen = interrupt(state, what, at);
      if (at < 0) all = seen;
      more = seen > at && !brief;
      next = at + 1 + (at < 0 ? 0 : at * stride / 32 + (what == FORK ? 2 * stride : 0));
    }
    printf("  %-18s %-10s %6ld instructions at once, %5ld rounds to %ld\n", action_names[what],
           state_names[state], all, rounds, next);
    fflush(stdout);
  }
  SHADOW_LEAVE();
}

static void prepare(void) {
  parent = getpid();
  shadow_start(&main_shadow);
}

static void on_the_same_stack(void **state) {
  (void)state;
  prepare();
  install(0);
  at_every_instruction(CAPTURE, STEP_STRIDE);
  at_every_instruction(CAPTURE_DEEPER, STEP_STRIDE);
  at_every_instruction(SWITCH_FIBER, STEP_STRIDE);
  /* Prevents these calls from becoming jumps. */
  zero = 0;
}

static void on_an_alternate_stack(void **state) {
  (void)state;
  prepare();
  install(SA_ONSTACK);
  const size_t size = 1 << 16;
  char within[1 << 16];
  char *const places[] = {
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), within};
  for (int i = 0; i < 2; i++) {
    stack_t alternate = {.ss_sp = places[i], .ss_size = size}, none = {.ss_flags = SS_DISABLE};
    assert_int_equal(sigaltstack(&alternate, NULL), 0);
    at_every_instruction(CAPTURE, STEP_STRIDE);
    at_every_instruction(CAPTURE_DEEPER, STEP_STRIDE);
    at_every_instruction(JUMP_OUT, STEP_STRIDE);
    assert_int_equal(sigaltstack(&none, NULL), 0);
  }
  munmap(places[0], size);
}

static void jump_out(void **state) {
  (void)state;
  prepare();
  install(0);
  at_every_instruction(JUMP_OUT, STEP_STRIDE);
  zero = 0;
}

static void fork_within(void **state) {
  (void)state;
  prepare();
  install(0);
  at_every_instruction(FORK, STEP_STRIDE);
  zero = 0;
}

/* ---- one entry ------------------------------------------------------------------------------- */

#define JOINED (FRAME_CACHE_ENTRIES - 2)

static void on_trap_jump(int number) {
  (void)number;
  if (steps++ == act_at) siglongjmp(out, 1);
}

/* An entry whose inner frame saved the frame register RESTORED words below the slot; 0: nowhere. */
static void fill(frame_cache_t *cache, int64_t restored) {
  frame_cache_clear(cache);
  cache->top = JOINED;
  cache->entries[JOINED + 1] = (frame_cache_entry_t){.slot = 0x1010};
  frame_cache_entry_t *e = &cache->entries[JOINED];
  *e = (frame_cache_entry_t){.slot = 0x1000, .fp = 0x1008};
  e->tail = entry_pack(0, restored, 1, ENTRY_FP_LIVE | (restored ? ENTRY_FP_VERIFY : 0));
  cache->pairs[JOINED + 1] = 0;
  cache->pairs[JOINED] = entry_is_paired(e);
}

/* The flags, the place of the saved frame register and the chains agree in entries[top …]. */
static bool is_complete(const frame_cache_t *cache) {
  const frame_cache_entry_t *e = &cache->entries[JOINED];
  return cache->top > JOINED || (!(e->bits & ENTRY_FP_VERIFY) == !e->restored_words &&
                                 cache->pairs[JOINED] == entry_is_paired(e));
}

/* A handler jumps out at each instruction of the update of an entry; the cache stays in use. */
static void jump_out_of_an_update(void **state) {
  (void)state;
  static frame_cache_t cache;
  signal(SIGTRAP, on_trap_jump);
  for (volatile int from = 0; from < 3; from++)
    for (volatile int to = 0; to < 3; to++) {
      static rule_t inner;
      inner = rule_make(RULE_SP, 10, to ? (uint32_t)to + 1 : 0, RA_BELOW_CFA);
      volatile bool ended = false;
      for (act_at = 0; !ended; act_at++) {
        fill(&cache, from);
        steps = 0;
        if (sigsetjmp(out, 1) == 0) {
          trace_on(TRAP_FLAG);
          (void)frame_cache_update_joined(&cache, JOINED, inner);
          trace_off();
          ended = true;
        }
        EXPECT_EQUAL(is_complete(&cache), true);
      }
      EXPECT_EQUAL(act_at > 5, true);
      EXPECT_EQUAL(cache.entries[JOINED].restored_words, to);
    }
}

int main(void) {
  if (is_sanitized()) {
    printf("skipped: a sanitizer's own frames stand in the stacks that are compared\n");
    return 77;
  }
  void *found[4];
  backtrace_of_libc()(found, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(on_the_same_stack),
      cmocka_unit_test(on_an_alternate_stack),
      cmocka_unit_test(jump_out),
      cmocka_unit_test(fork_within),
      cmocka_unit_test(jump_out_of_an_update),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("skipped: this machine has no trap flag that a program may set\n");
  return 77;
}

#endif
