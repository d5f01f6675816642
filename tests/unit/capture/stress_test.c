/* SPDX-License-Identifier: MIT
 *
 * Captures from random programs, compared with the shadow stack and with the full walk.
 *
 * Threads start and end and run random calls through frames of every kind, with longjmp, C++
 * exceptions, fibers on stacks that are freed and reused, and libraries with one layout but
 * different frames that are loaded at each other's address. Another thread sends them signals all
 * the time. The handlers, on the thread's stack or on the alternate one, capture as well.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "oracle.h"
#include "skip.h"
#include "sonde/name.h"
#include "capture/stack.h"

#ifndef STRESS_CAPTURES
/* In total. */
#define STRESS_CAPTURES 60000
/* One in this many is compared with the full walk too. */
#define STRESS_FULL_EACH 8
/* No process besides this one. */
#define STRESS_PROCESSES 0
#endif
/* Captures in handlers, so that a share of 99 in 100 is significant. */
#define SIGNALS_MIN  2000
#define BROKEN_SHOWN 16

#if defined(__SANITIZE_ADDRESS__)
/* The sanitizer does not know their stacks, nor what a jump leaves on them. */
#define FIBERS_MAX 0
#else
#define FIBERS_MAX 3
#endif
#define WORKERS   3
#define DEPTH_MAX 60
/* Frames of libraries between a handler and the interrupted code. */
#define EXTRA_MAX 120

typedef struct guard guard_t;
struct guard {
  guard_t *outer;
  bool throws;
  /* Of the shadow stack where it is caught. */
  int depth;
  sigjmp_buf out;
};

typedef struct worker {
  uint64_t random;
  guard_t *guard;
  shadow_t *own_shadow;
  /* Calls until the thread ends. */
  long left;
  int fibers;
  pthread_t thread;
  bool alive;
} worker_t;

static volatile int zero;
static long captures, full_walks, signals, signals_complete, signals_skipped, signals_without_row,
    fibers_run, jumps, throws, reloads, reloads_same_place, threads_started;
/* Where the first incomplete captures ended. */
static uintptr_t broken_at[BROKEN_SHOWN];
static long broken;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int (*stress_try)(int (*)(void *), void *, int (*)(void *), void (*)(int));
static void (*stress_throw)(void);

static int step(worker_t *w, int depth);

/* ---- the checks ------------------------------------------------------------------------------ */

static NOINLINE int check(worker_t *w) {
  SHADOW_ENTER();
  static __thread uintptr_t pcs[ORACLE_MAX], others[ORACLE_MAX];
  uint32_t id = 0;
  ucontext_t here;
  int count = sonde_stack(pcs, ORACLE_MAX);
  EXPECT_EQUAL(shadow_check(pcs, count, 1, "stack"), 1);
  EXPECT_EQUAL(sonde_stack_id(&id), 0);
  int other = sonde_stack_of_id(id, others, ORACLE_MAX);
  same_outside(pcs, count, others, other, 1, "stack and id");
  if (chance(&w->random) % STRESS_FULL_EACH == 0) {
    unwind_step_t end;
    getcontext(&here);
    other = full_stack(&here, others, ORACLE_MAX, &end);
    same_outside(pcs, count, others, other, 1, "stack and full walk");
    EXPECT_EQUAL(end, STEP_END);
    (void)add_relaxed(&full_walks, 1);
  }
  (void)add_relaxed(&captures, 2);
  SHADOW_LEAVE();
  return zero;
}

static void note_broken(const sonde_capture_t *c) {
  long at = add_relaxed(&broken, 1);
  if (at < BROKEN_SHOWN && c->count > 0) broken_at[at] = c->pcs[c->count - 1];
}

/* Code without unwind information: the _init and _fini of libraries. */
static bool without_row(uintptr_t pc) {
  cfi_row_t row;
  const image_t *image = walk_images()->find(walk_images(), pc);
  return image && cfi_find_row(image, pc - image->slide, &row) != 0;
}

static void on_signal(int number, siginfo_t *info, void *ucontext) {
  (void)number;
  (void)info;
  int saved = errno;
  shadow_t *interrupted = shadow;
  uintptr_t pcs[512], others[512];
  uint32_t id = 0;
  sonde_capture_t c = {.pcs = pcs, .max = 512},
                  of_context = {.pcs = others, .max = 512, .ucontext = ucontext};
  sonde_capture(&c);
  sonde_capture(&of_context);
  (void)add_relaxed(&signals, 1);
  if (c.status == SONDE_STACK_COMPLETE)
    (void)add_relaxed(&signals_complete, 1);
  else
    note_broken(&c);
  if (interrupted) {
    if (c.flags & SONDE_FLAG_HEURISTIC ||
        (c.status != SONDE_STACK_COMPLETE && without_row(pcs[c.count - 1]))) {
      (void)add_relaxed(&signals_without_row, 1);
      errno = saved;
      return;
    }
    shadow_check(pcs, c.count, EXTRA_MAX, "stack in a handler");
    EXPECT_EQUAL(c.count, of_context.count + 2);
    EXPECT_EQUAL(memcmp(pcs + 2, others, (size_t)of_context.count * sizeof *others), 0);
    EXPECT_EQUAL(sonde_stack_id(&id), 0);
    int other = sonde_stack_of_id(id, others, 512);
    same_outside(pcs, c.count, others, other, 1, "stack and id in a handler");
  } else
    (void)add_relaxed(&signals_skipped, 1);
  errno = saved;
}

/* ---- frames of every kind -------------------------------------------------------------------- */

#define FRAME(name, locals, use)                                                                   \
  static NOINLINE int name(worker_t *w, int depth) {                                               \
    SHADOW_ENTER();                                                                                \
    locals;                                                                                        \
    int result = zero;                                                                             \
    do                                                                                             \
      result += step(w, depth);                                                                    \
    while (chance(&w->random) % 3 == 0);                                                           \
    result += zero * (int)(use);                                                                   \
    SHADOW_LEAVE();                                                                                \
    return result;                                                                                 \
  }

FRAME(plain_frame, , 0)
FRAME(small_frame, volatile char room[40]; room[7] = 1, room[7])
FRAME(big_frame, volatile char room[5000]; room[7] = 1, room[7])
FRAME(alloca_frame, volatile char *room = __builtin_alloca(16 + chance(&w->random) % 900);
      room[0] = 1, room[0])
FRAME(vla_frame, volatile int room[1 + chance(&w->random) % 200]; room[0] = 1, room[0])
FRAME(realigned_frame, volatile char room[64] __attribute__((aligned(64))); room[0] = 1, room[0])
FRAME(realigned_alloca_frame, volatile char room[128] __attribute__((aligned(128)));
      volatile char *more = __builtin_alloca(16 + chance(&w->random) % 300);
      room[0] = more[0] = 1, room[0] + more[0])
FRAME(registers_frame, volatile long source = zero; long a = source + 1; long b = source + 2;
      long c = source + 3; long d = source + 4; long e = source + 5;
      long f = source + 6, a *b + c * d + e * f)

static int (*const kinds[])(worker_t *, int) = {plain_frame,
                                                small_frame,
                                                big_frame,
                                                alloca_frame,
                                                vla_frame,
                                                realigned_frame,
                                                realigned_alloca_frame,
                                                registers_frame};

/* ---- longjmp and exceptions ------------------------------------------------------------------ */

typedef struct call {
  worker_t *worker;
  int depth;
} call_t;

static NOINLINE int guarded_call(void *argument) {
  SHADOW_ENTER();
  call_t *call = argument;
  int result = kinds[chance(&call->worker->random) % ARRAY_COUNT(kinds)](call->worker, call->depth);
  SHADOW_LEAVE();
  return result + zero;
}

/* During an exception. libgcc writes the catcher's registers over those that its own frames saved,
 * so at the end no unwinder can find the outer frames. */
static __thread shadow_t *thrown_over;

static int note(void *ra) { return shadow_push(ra); }
static void forget(int depth) {
  shadow_t *s = shadow ? shadow : thrown_over;
  signal_fence();
  s->depth = depth;
  signal_fence();
  shadow = s;
}

static NOINLINE int with_try(worker_t *w, int depth) {
  SHADOW_ENTER();
  guard_t guard = {.outer = w->guard, .throws = true, .depth = shadow->depth + 1};
  call_t call = {w, depth};
  w->guard = &guard;
  stress_try(guarded_call, &call, note, forget);
  w->guard = guard.outer;
  SHADOW_LEAVE();
  return zero;
}

static NOINLINE int with_setjmp(worker_t *w, int depth) {
  SHADOW_ENTER();
  guard_t guard = {.outer = w->guard, .throws = false, .depth = shadow->depth};
  call_t call = {w, depth};
  w->guard = &guard;
  if (sigsetjmp(guard.out, 0) == 0) guarded_call(&call);
  w->guard = guard.outer;
  SHADOW_LEAVE();
  return zero;
}

static NOINLINE void leave_for_guard(worker_t *w) {
  guard_t *guard = w->guard;
  shadow->depth = guard->depth;
  signal_fence();
  if (guard->throws) {
    (void)add_relaxed(&throws, 1);
    thrown_over = shadow;
    shadow = NULL;
    stress_throw();
  }
  (void)add_relaxed(&jumps, 1);
  siglongjmp(guard->out, 1);
}

/* ---- fibers ---------------------------------------------------------------------------------- */

typedef struct fiber {
  worker_t *worker;
  ucontext_t inside, outside;
  shadow_t shadow;
} fiber_t;

static void fiber_runs(unsigned high, unsigned low) {
  fiber_t *f = (fiber_t *)((uintptr_t)high << 32 | low);
  f->shadow.depth = 0;
  f->shadow.interrupted = NULL;
  /* Where makecontext lets it end. */
  f->shadow.tail_count = 1;
  f->shadow.tail[0] = (uintptr_t)__builtin_return_address(0);
  shadow = &f->shadow;
  call_t call = {f->worker, 30};
  guarded_call(&call);
  shadow = NULL;
}

/* Runs a fiber from its start to its end, on a stack from malloc or, in three sizes, from mmap. */
static NOINLINE int with_fiber(worker_t *w) {
  SHADOW_ENTER();
  shadow_t *own = shadow;
  guard_t *guard = w->guard;
  size_t size = (size_t)(64 + 4 * (chance(&w->random) % 3)) << 12;
  bool mapped = chance(&w->random) & 1;
  void *stack = mapped
                    ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                    : malloc(size);
  fiber_t *f = malloc(sizeof *f);
  f->worker = w;
  getcontext(&f->inside);
  f->inside.uc_stack.ss_sp = stack;
  f->inside.uc_stack.ss_size = size;
  f->inside.uc_link = &f->outside;
  uintptr_t at = (uintptr_t)f;
  makecontext(&f->inside, (void (*)(void))fiber_runs, 2, (unsigned)(at >> 32), (unsigned)at);
  w->guard = NULL;
  w->fibers++;
  shadow = NULL;
  swapcontext(&f->outside, &f->inside);
  shadow = own;
  w->fibers--;
  w->guard = guard;
  if (mapped)
    munmap(stack, size);
  else
    free(stack);
  free(f);
  (void)add_relaxed(&fibers_run, 1);
  SHADOW_LEAVE();
  return zero;
}

/* ---- libraries in each other's place --------------------------------------------------------- */

#define VARIANTS 4

static struct {
  uintptr_t base;
  int variant;
} last_at[256];

static void remember_place(uintptr_t base, int variant) {
  pthread_mutex_lock(&lock);
  int at = (int)(base >> 12 & 255);
  if (last_at[at].base == base && last_at[at].variant != variant) reloads_same_place++;
  last_at[at].base = base;
  last_at[at].variant = variant;
  reloads++;
  pthread_mutex_unlock(&lock);
}

static NOINLINE int with_library(worker_t *w, int depth) {
  SHADOW_ENTER();
  char path[512];
  int variant = (int)(chance(&w->random) % VARIANTS);
  snprintf(path, sizeof path, SONDE_FIXTURES "/libstress_reload%d.so", variant);
  void *library = dlopen(path, RTLD_NOW);
  if (!library) oracle_fail("%s", dlerror());
  typedef int reload_t(int (*)(void *), void *, int (*)(void *), void (*)(int));
  reload_t *reload = (reload_t *)dlsym(library, "stress_reload");
  remember_place((uintptr_t)reload, variant);
  call_t call = {w, depth};
  guard_t *guard = w->guard;
  /* The thread that opened the library closes it. */
  w->guard = NULL;
  reload(guarded_call, &call, note, forget);
  w->guard = guard;
  dlclose(library);
  SHADOW_LEAVE();
  return zero;
}

/* ---- the random program ---------------------------------------------------------------------- */

static ALWAYS_INLINE int step_as(worker_t *w, int depth, uint32_t what) {
  if (depth >= DEPTH_MAX || w->left-- <= 0) return check(w);
  if (what < 60) return kinds[what % ARRAY_COUNT(kinds)](w, depth + 1);
  if (what < 85) return check(w);
  if (what < 89) return with_setjmp(w, depth + 1);
  if (what < 93) return with_try(w, depth + 1);
  if (what < 95) return w->fibers < FIBERS_MAX ? with_fiber(w) : check(w);
  if (what < 96) return with_library(w, depth + 1);
  if (w->guard) leave_for_guard(w);
  return check(w);
}

static NOINLINE int step(worker_t *w, int depth) {
  SHADOW_ENTER();
  int result = step_as(w, depth, chance(&w->random) % 100);
  SHADOW_LEAVE();
  return result + zero;
}

static NOINLINE void run_worker(worker_t *w) {
  shadow_start(w->own_shadow);
  w->left = 200 + chance(&w->random) % 3000;
  while (w->left > 0)
    plain_frame(w, 0);
  shadow = NULL;
}

static void *worker_runs(void *argument) {
  worker_t *w = argument;
  char *alternate = malloc(1 << 16);
  stack_t stack = {.ss_sp = alternate, .ss_size = 1 << 16}, none = {.ss_flags = SS_DISABLE};
  sigaltstack(&stack, NULL);
  run_worker(w);
  zero = 0;
  sigaltstack(&none, NULL);
  free(alternate);
  return NULL;
}

static worker_t workers[WORKERS];

static void start_worker(worker_t *w, uint64_t random) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)(2 + random % 3) << 20);
  shadow_t *own = w->own_shadow ? w->own_shadow : malloc(sizeof *own);
  *w = (worker_t){.random = random | 1, .own_shadow = own};
  EXPECT_EQUAL(pthread_create(&w->thread, &attributes, worker_runs, w), 0);
  pthread_attr_destroy(&attributes);
  w->alive = true;
  threads_started++;
}

static void random_programs(void **state) {
  (void)state;
  uint64_t random = seed_given();
  void *library = dlopen(SONDE_FIXTURES "/libstress_throw.so", RTLD_NOW);
  if (!library) oracle_fail("%s", dlerror());
  *(void **)&stress_try = dlsym(library, "stress_try");
  *(void **)&stress_throw = dlsym(library, "stress_throw");
  struct sigaction same = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  struct sigaction other = {.sa_sigaction = on_signal,
                            .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigaction(SIGUSR1, &same, NULL);
  sigaction(SIGUSR2, &other, NULL);
  while (load_relaxed(&captures) < STRESS_CAPTURES || load_relaxed(&signals) < SIGNALS_MIN) {
    worker_t *w = &workers[chance(&random) % WORKERS];
    if (!w->alive)
      start_worker(w, (uint64_t)chance(&random) << 32 | chance(&random));
    else if (load_relaxed(&w->left) <= 0) {
      pthread_join(w->thread, NULL);
      w->alive = false;
    } else
      pthread_kill(w->thread, chance(&random) & 1 ? SIGUSR1 : SIGUSR2);
    nanosleep(&(struct timespec){.tv_nsec = 20000 + chance(&random) % 100000}, NULL);
  }
  for (int i = 0; i < WORKERS; i++)
    if (workers[i].alive) pthread_join(workers[i].thread, NULL);
  printf("  %ld captures equal to the shadow stack, %ld of them to the full walk\n"
         "  %ld captures in handlers (%ld of them at an instant that nothing is known of), %ld "
         "complete,\n"
         "  %ld ended in code without unwind rows\n"
         "  %ld fibers, %ld longjmps, %ld exceptions, %ld threads\n"
         "  %ld libraries loaded, %ld in the place of another one\n",
         captures, full_walks, signals, signals_skipped, signals_complete, signals_without_row,
         fibers_run, jumps, throws, threads_started, reloads, reloads_same_place);
  assert_true((fibers_run > 10 || !FIBERS_MAX) && jumps > 10 && throws > 10 && threads_started > 2);
  /* The emulator never maps at an address that was mapped before. */
  if (!is_emulated()) assert_true(reloads_same_place > 5);
  if (signals_complete * 100 < signals * 99) {
    fflush(stdout);
    fprintf(stderr, "where the first that are not complete ended:\n");
    sonde_stack_print(STDERR_FILENO, broken_at,
                      (int)(broken < BROKEN_SHOWN ? broken : BROKEN_SHOWN), SONDE_NAME_EXACT);
  }
  assert_true(signals_complete * 100 >= signals * 99);
}

/* Random stacks never repeat, and the stack table holds 76 million nodes, so a long run consists of
 * processes. Each of them prints its seed. */
static int run_processes(void) {
  for (int i = 0; i < STRESS_PROCESSES; i++) {
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) return -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

int main(void) {
  void *found[4];
  if (STRESS_PROCESSES) {
    int done = run_processes();
    if (done >= 0) return done;
  }
  backtrace_of_libc()(found, 4);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
