/* SPDX-License-Identifier: MIT
 *
 * Stack ids: one stack has one id, by whatever method it was found, and the id leads back to the
 * stack.
 */
#include <dlfcn.h>
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
#include "capture/leveled_table.h"
#include "capture/thread_state.h"

static volatile int zero;

/* ---- equal and different --------------------------------------------------------------------- */

typedef struct taken {
  uint32_t id;
  int count;
  uintptr_t pcs[ORACLE_MAX];
} taken_t;

/* One call site for both, so that both iterations see one stack. */
static ALWAYS_INLINE void take(taken_t *taken) {
  for (int i = 0; i < 2; i++) {
    int (*const pcs)(uintptr_t *, int) = sonde_stack;
    if (i)
      EXPECT_EQUAL(sonde_stack_id(&taken->id), 0);
    else
      taken->count = pcs(taken->pcs, ORACLE_MAX);
  }
}

static NOINLINE int left(int depth, unsigned path, taken_t *taken);
static NOINLINE int right(int depth, unsigned path, taken_t *taken);

static NOINLINE int leaf(taken_t *taken) {
  take(taken);
  return zero;
}
static ALWAYS_INLINE int go_on(int depth, unsigned path, taken_t *taken) {
  if (depth == 0) return leaf(taken) + zero;
  return (path & 1 ? right(depth - 1, path >> 1, taken) : left(depth - 1, path >> 1, taken)) + zero;
}
static NOINLINE int left(int depth, unsigned path, taken_t *taken) {
  return go_on(depth, path, taken) + zero;
}
static NOINLINE int right(int depth, unsigned path, taken_t *taken) {
  volatile char room[512];
  room[path & 511] = 1;
  return go_on(depth, path, taken) + zero * room[3];
}

static void paths_have_their_ids(void **state) {
  (void)state;
  static uint32_t id_of[4096];
  static taken_t taken;
  uint64_t random = seed_given();
  for (int i = 0; i < 100000; i++) {
    unsigned path = chance(&random) % 4096;
    left(12, path, &taken);
    if (!id_of[path]) {
      for (int other = 0; other < 4096; other++)
        assert_int_not_equal(id_of[other], taken.id);
      id_of[path] = taken.id;
    }
    assert_int_equal(id_of[path], taken.id);
  }
}

static void ids_lead_back(void **state) {
  (void)state;
  static taken_t taken;
  static uintptr_t back[ORACLE_MAX];
  for (unsigned path = 0; path < 64; path++) {
    left(6, path, &taken);
    int count = sonde_stack_of_id(taken.id, back, ORACLE_MAX);
    assert_int_equal(count, taken.count);
    assert_memory_equal(back + 1, taken.pcs + 1, (size_t)(count - 1) * sizeof *back);
    assert_true(back[0] > (uintptr_t)leaf && back[0] < (uintptr_t)leaf + 400);
    for (int max = 1; max < count; max++) {
      memset(back, 0xee, sizeof back);
      assert_int_equal(sonde_stack_of_id(taken.id, back, max), max);
      assert_memory_equal(back + 1, taken.pcs + 1, (size_t)(max - 1) * sizeof *back);
      assert_int_equal(back[max], (uintptr_t)0xeeeeeeeeeeeeeeee);
    }
  }
}

/* ---- depth ----------------------------------------------------------------------------------- */

/* A loop with one call site, even if the compiler unrolls loops. */
#ifdef __clang__
#define LOOPS_STAY __attribute__((optnone))
#else
#define LOOPS_STAY
#endif

LOOPS_STAY static NOINLINE int recurse(int depth, uint32_t *ids, int rounds) {
  if (depth) return recurse(depth - 1, ids, rounds) + zero;
  for (int i = 0; i < rounds; i++)
    EXPECT_EQUAL(sonde_stack_id(&ids[i]), 0);
  return zero;
}

static volatile int the_depth;
static volatile bool nested;
static uint32_t cold_id;
static int base_depth;

/* A capture that finds the thread's state busy works without the cache. */
static ALWAYS_INLINE void set_busy(bool busy) {
  thread_state_current->busy = busy ? UINT64_MAX : 0;
}

LOOPS_STAY static void *run_cold(void *argument) {
  uint32_t ids[3];
  (void)argument;
  if (the_depth < 0) {
    uintptr_t pcs[16];
    base_depth = sonde_stack(pcs, 16);
    return NULL;
  }
  if (nested) {
    sonde_stack_id(&ids[0]);
    set_busy(true);
  }
  /* Between the captures, the cache holds other parts of the stack. */
  const int depths[] = {the_depth, the_depth / 2, the_depth, the_depth + 3, the_depth, the_depth};
  for (int i = 0; i < 6; i++) {
    if (i == 5 && nested) set_busy(false);
    recurse(depths[i], ids, 3);
    EXPECT_EQUAL(ids[1], ids[0]);
    EXPECT_EQUAL(ids[2], ids[0]);
    if (i == 0) cold_id = ids[0];
    if (depths[i] == the_depth) EXPECT_EQUAL(ids[0], cold_id);
  }
  return NULL;
}

static void on_new_thread(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64u << 20);
  assert_int_equal(pthread_create(&thread, &attributes, run_cold, NULL), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
}

static void depth_does_not_change_ids(void **state) {
  (void)state;
  static uintptr_t pcs[2048];
  const int depths[] = {0,   1,   22,  23,  24,  25,  90,  95,   96,   97,    100,
                        190, 192, 383, 384, 385, 400, 440, 444,  447,  448,   449,
                        500, 504, 507, 508, 509, 510, 511, 512,  513,  520,   544,
                        600, 800, 895, 896, 897, 960, 961, 1000, 5000, 100000};
  the_depth = -1;
  on_new_thread();
  for (size_t i = 0; i < ARRAY_COUNT(depths); i++) {
    the_depth = depths[i];
    nested = false;
    on_new_thread();
    uint32_t without = cold_id;
    nested = true;
    on_new_thread();
    assert_int_equal(cold_id, without);
    int depth = base_depth + depths[i] + 1, saved = STACK_OUTER + STACK_INNER;
    int count = sonde_stack_of_id(cold_id, pcs, 2048);
    assert_int_equal(count, depth > saved ? saved : depth);
  }
}

/* ---- the table is full ----------------------------------------------------------------------- */

/* Fills every slot that a node of PARENT and FRAME may have. */
static void fill_slots(uint32_t parent, uint32_t frame, bool fill, uint64_t saved[LEVELED_MAX][8]) {
  uint64_t hash = leveled_hash((uint64_t)parent << 32 | frame);
  for (unsigned level = 0; level < LEVELED_MAX; level++) {
    unsigned bits = leveled_bits(STACK_TABLE_BITS, level);
    uint64_t *slots = leveled_map((void **)&stack_table.level[level], bits, sizeof(uint64_t));
    assert_non_null(slots);
    for (uint32_t i = 0; i < STACK_TABLE_BUCKET; i++) {
      uint64_t *slot = &slots[(uint32_t)(hash >> (64 - bits)) ^ i];
      if (fill) {
        saved[level][i] = *slot;
        *slot = (uint64_t)0x70000001 << 32 | (level * 8 + i + 1);
      } else
        *slot = saved[level][i];
    }
  }
}

/* All iterations make the same call, so that they have the same stack. */
static NOINLINE void take_by(int (*volatile call)(int, unsigned, taken_t *), int turns,
                             bool (*prepare)(int turn), taken_t *taken) {
  for (volatile int turn = 0; turn < turns; turn++)
    if (prepare(turn)) call(8, 5, taken);
}

static uint32_t parents[64], nodes_down[64];
static int chain_depth;
static taken_t full_taken;

/* True in the first iteration and in the child of each further one, for which the node of frame
 * number TURN finds no slot. */
static bool prepare_full(int turn) {
  uint64_t saved[LEVELED_MAX][8];
  uint32_t parent, frame, node = 0;
  int status;
  if (turn == 0) return true;
  if (turn == 1)
    for (uint32_t at = full_taken.id; at; at = parent) {
      assert_true(stack_table_get(at, &parent, &frame));
      parents[chain_depth] = parent;
      nodes_down[chain_depth++] = frame;
    }
  if (turn >= chain_depth) return false;
  fill_slots(parents[turn], nodes_down[turn], true, saved);
  for (int k = chain_depth; k-- > turn + 1;)
    node = stack_table_child(node, nodes_down[k]);
  /* By chance one of these had its slot there: make them again. */
  if (node != parents[turn]) {
    fill_slots(parents[turn], nodes_down[turn], false, saved);
    return false;
  }
  for (int k = turn + 1; k-- > 0;)
    node = stack_table_child(node, nodes_down[k]);
  assert_int_equal(node, STACK_TABLE_FULL);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(300);
    close(2);
    frame_cache_clear(
        /* Do not look up again what the parent knows. */
        &thread_state_current->cache);
    /* EXPECT_EQUAL will find SONDE_EFULL instead of 0; otherwise the next iteration fails. */
    return true;
  }
  waitpid(pid, &status, 0);
  fill_slots(parents[turn], nodes_down[turn], false, saved);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  return false;
}

static void a_full_table_is_reported(void **state) {
  (void)state;
  if (is_emulated())
    SKIP_BECAUSE("qemu-user ignores MADV_WIPEONFORK, which empties a child's cache");
  take_by(left, 40, prepare_full, &full_taken);
  assert_true(chain_depth > 10);
}

static NOINLINE int id_here(uint32_t *id) { return sonde_stack_id(id) + zero; }

/* ---- threads --------------------------------------------------------------------------------- */

static capture_thread_t *state_of_thread;
static pid_t tid_of_thread;

static void *remember_state(void *argument) {
  uint32_t id;
  EXPECT_EQUAL(sonde_stack_id(&id), 0);
  *(uint32_t *)argument = id;
  state_of_thread = thread_state_current;
  tid_of_thread = os_tid();
  return NULL;
}

static void states_are_reused(void **state) {
  (void)state;
  uint32_t first = 0;
  capture_thread_t *seen[64];
  int distinct = 0;
  for (int i = 0; i < 200; i++) {
    pthread_t thread;
    uint32_t id;
    pthread_create(&thread, NULL, remember_state, &id);
    pthread_join(thread, NULL);
    /* The thread was joined just before its end. */
    while (os_thread_alive(tid_of_thread))
      usleep(100);
    if (i == 0) first = id;
    assert_int_equal(id, first);
    bool known = false;
    for (int k = 0; k < distinct; k++)
      known |= seen[k] == state_of_thread;
    if (!known) {
      assert_true(distinct < 64);
      seen[distinct++] = state_of_thread;
    }
  }
  assert_in_range(distinct, 1, 16);
  assert_true(sizeof(capture_thread_t) <= 16384);
}

static void forked_children_agree(void **state) {
  (void)state;
  uint32_t id = 0;
  int pipes[2];
  assert_int_equal(pipe(pipes), 0);
  pid_t pid = -1;
  for (int i = 0; i < 2; i++) {
    /* The same call in the parent and in its child. */
    id_here(&id);
    if (i == 0) pid = fork();
  }
  if (pid == 0) {
    (void)!write(pipes[1], &id, sizeof id);
    _exit(0);
  }
  uint32_t childs = 0;
  assert_int_equal(read(pipes[0], &childs, sizeof childs), sizeof childs);
  waitpid(pid, NULL, 0);
  assert_int_equal(childs, id);
  close(pipes[0]);
  close(pipes[1]);
}

/* ---- a stack whose outer part is gone ---------------------------------------------------------
 */

static ucontext_t fiber_main, fiber;
static volatile int fiber_depth;
static uint32_t fiber_id;

static NOINLINE int dig(int depth) {
  volatile char room[120];
  room[depth & 63] = 1;
  if (depth) return dig(depth - 1) + zero * room[3];
  EXPECT_EQUAL(sonde_stack_id(&fiber_id), 0);
  return zero;
}
static void fiber_runs(void) { dig(fiber_depth); }

static void run_fiber(char *low, size_t size, int depth) {
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = low;
  fiber.uc_stack.ss_size = size;
  fiber.uc_link = &fiber_main;
  fiber_depth = depth;
  makecontext(&fiber, fiber_runs, 0);
  swapcontext(&fiber_main, &fiber);
}

/* A stack is unmapped and a shorter one is mapped into its lower part, so that the same function
 * recurses at the same addresses. The outer slots of the cache must not be read. */
static void stack_replaced_by_a_shorter_one(void **state) {
  (void)state;
  if (is_sanitized()) SKIP_BECAUSE("AddressSanitizer does not follow swapcontext");
  const size_t size = 64 << 10, page = 4096;
  char *low = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int depth = 37; depth < 41; depth++) {
    uint32_t expected = 0;
    for (size_t offset = 0; offset < 256; offset += 16)
      for (int turn = 0; turn < 2; turn++) {
        /* First deep and whole, then the remainder, moved by OFFSET to meet the old frames. */
        size_t mapped = turn == 0 ? size : 5 * page;
        assert_ptr_equal(mmap(low, mapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                         low);
        memset(low, 0, mapped);
        if (turn)
          run_fiber(low, mapped - offset, depth);
        else
          run_fiber(low, mapped, 380);
        if (turn) {
          if (!expected) expected = fiber_id;
          assert_int_equal(fiber_id, expected);
        }
        munmap(low, size);
      }
  }
}

/* ---- what looks the same -------------------------------------------------------------------- */

/* Two paths lead here through frames of different size, so that the last slots have the same
 * addresses and contents. The outer slots are elsewhere, and their old contents remain in memory
 * that nothing has overwritten. Only the saved frame pointer distinguishes the two. */
typedef struct sized {
  taken_t taken;
  /* Of sized_middle. */
  uintptr_t frame;
  bool
      /* Instead of the id: either call changes the cache for the other one. */
      wants_pcs;
  /* Inner frames with frame pointers, each leading to the next. */
  int chain;
} sized_t;

static NOINLINE int sized_middle(int chain, sized_t *out) {
  volatile char *room = __builtin_alloca(16 + (size_t)zero);
  room[0] = 1;
  if (chain == out->chain) out->frame = (uintptr_t)__builtin_frame_address(0);
  if (chain > 0) return sized_middle(chain - 1, out) + zero * room[0];
  if (out->wants_pcs)
    out->taken.count = sonde_stack(out->taken.pcs, ORACLE_MAX);
  else
    EXPECT_EQUAL(sonde_stack_id(&out->taken.id), 0);
  return zero * room[0];
}
static NOINLINE int sized_by(size_t size, sized_t *out) {
  volatile char *room = __builtin_alloca(size);
  room[0] = 1;
  return sized_middle(out->chain, out) + zero * room[0];
}
static NOINLINE int through_small(size_t size, sized_t *out) { return sized_by(size, out) + zero; }
static NOINLINE int through_large(size_t size, sized_t *out) {
  volatile char room[1024];
  room[0] = 1;
  return sized_by(size, out) + zero * room[0];
}

static void check_saved_frame_pointers(int chain) {
  enum { TURNS = 2000 };
  int (*const ways[])(size_t, sized_t *) = {through_small, through_large};
  static sized_t found[2];
  static uint32_t ids[TURNS];
  static uint8_t way[TURNS];
  size_t sizes[2] = {4096, 4096};
  uint64_t random = seed_given();
  found[0].chain = found[1].chain = chain;
  /* Volatile, since the compiler would otherwise make several calls and stacks. No other function
   * is called, since that would overwrite the stack. */
  for (volatile int i = 0; i < TURNS; i++) {
    int k = i < 4 || i >= TURNS - 20 ? i & 1 : (int)(chance(&random) & 1);
    found[k].wants_pcs = i >= TURNS - 20;
    if (thread_state_current)
      thread_state_current->cache.predictor.paused = thread_state_current->cache.predictor.wrong =
          /* Always predicted. */
          0;
    ways[k](sizes[k], &found[k]);
    /* A smaller stack is higher. */
    if (i == 1) sizes[1] += found[1].frame - found[0].frame;
    way[i] = (uint8_t)k;
    ids[i] = found[k].taken.id;
  }
  assert_true(found[0].frame == found[1].frame);
  assert_int_not_equal(ids[2], ids[3]);
  for (int i = 4; i < TURNS - 20; i++)
    assert_int_equal(ids[i], ids[2 + way[i]]);
  for (int k = 0; k < 2; k++) {
    uintptr_t pcs[ORACLE_MAX];
    int count = sonde_stack_of_id(ids[2 + k], pcs, ORACLE_MAX);
    same_outside(found[k].taken.pcs, found[k].taken.count, pcs, count, 1, "sized frames");
  }
}

static void saved_frame_pointers_count(void **state) {
  (void)state;
  if (is_sanitized()) SKIP_BECAUSE("a sanitizer lays frames out as it likes");
  check_saved_frame_pointers(0);
}

/* The same with a chain of entries in the cache, which are compared together. */
static void chained_frame_pointers_count(void **state) {
  (void)state;
  if (is_sanitized()) SKIP_BECAUSE("a sanitizer lays frames out as it likes");
  for (int chain = 1; chain < 12; chain++)
    check_saved_frame_pointers(chain);
}

/* Captures with vector registers in use, as they are where a traced call has them as arguments. The
 * frames have frame pointers, whose words a vector instruction compares. */
#if defined(__x86_64__)
static NOINLINE int capture_with_vectors(int depth) {
  volatile char *room = __builtin_alloca(16 + (size_t)zero);
  room[0] = 1;
  if (depth) return capture_with_vectors(depth - 1) + zero * room[0];
  for (int i = 0; i < 4; i++) {
    uint32_t id = 0, *to = &id;
    uint64_t before[2] = {UINT64_C(0x0123456789abcdef), ~(uint64_t)i}, after[2] = {0};
    __asm__ volatile("movups %[before], %%xmm0\n\tcall *%[capture]\n\tmovups %%xmm0, %[after]"
                     : [after] "=m"(after), "+D"(to)
                     : [before] "m"(before), [capture] "r"(sonde_stack_id)
                     : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "memory");
    assert_memory_equal(before, after, sizeof before);
    assert_int_not_equal(id, 0);
  }
  return zero * room[0];
}
#endif

static void vectors_are_unchanged(void **state) {
  (void)state;
#if defined(__x86_64__)
  for (int depth = 0; depth < 14; depth++)
    capture_with_vectors(depth);
#else
  SKIP_BECAUSE("captures use no vector register here");
#endif
}

/* Frames with frame pointers at the same addresses, called from two places: only the return
 * addresses distinguish the stacks. */
enum { SITES = 9 };
static NOINLINE uint32_t from_either_site(int depth, unsigned sites) {
  volatile char *room = __builtin_alloca(16 + (size_t)zero);
  uint32_t id = 0;
  room[0] = 1;
  if (depth == 0)
    EXPECT_EQUAL(sonde_stack_id(&id), 0);
  else if (sites >> (depth - 1) & 1) {
    id = from_either_site(depth - 1, sites);
    /* Keeps the two calls apart. */
    __asm__ volatile("" : : "i"(1));
  } else {
    id = from_either_site(depth - 1, sites);
    __asm__ volatile("" : : "i"(2));
  }
  return id + (uint32_t)(zero * room[0]);
}

/* A function of its own, so that one call follows each choice. */
static NOINLINE unsigned choose_sites(int i, uint64_t *random) {
  /* Often only the outer ones. */
  if (i % 4) return (unsigned)i % 4 + (unsigned)(i / 64 % 8 << 6);
  return (unsigned)chance(random) & ((1 << SITES) - 1);
}

static void return_addresses_of_chains_count(void **state) {
  (void)state;
  static uint32_t ids[1 << SITES];
  uint64_t random = seed_given();
  for (volatile int i = 0; i < 20000; i++) {
    unsigned sites = choose_sites(i, &random);
    uint32_t id = from_either_site(SITES, sites);
    if (ids[sites])
      assert_int_equal(id, ids[sites]);
    else
      for (int k = 0; k < 1 << SITES; k++)
        assert_int_not_equal(id, ids[k]);
    ids[sites] = id;
  }
}

/* A library with the same code, but of another build, at the address of an unloaded one. */
typedef int reload_t(int (*call)(void *), void *argument, int (*note)(void *), void (*forget)(int));

static int call_leaf(void *taken) { return leaf(taken) + zero; }
static int note_nothing(void *ra) { return ra == NULL; }
static void forget_nothing(int noted) { (void)noted; }

static void other_builds_have_other_ids(void **state) {
  (void)state;
  static taken_t taken[2];
  const char *paths[] = {SONDE_FIXTURES "/libstress_reload0.so",
                         SONDE_FIXTURES "/libstress_twin.so"};
  int same_place = 0;
  uintptr_t last = 0;
  for (int i = 0; i < 20; i++) {
    void *library = dlopen(paths[i & 1], RTLD_NOW);
    assert_non_null(library);
    reload_t *reload = (reload_t *)dlsym(library, "stress_reload");
    /* One call site, even if the compiler unrolls the loop. */
    for (int k = 0; k < 3 + zero; k++)
      reload(call_leaf, &taken[i & 1], note_nothing, forget_nothing);
    if (i && last == (uintptr_t)reload) {
      same_place++;
      assert_int_equal(taken[0].count, taken[1].count);
      assert_memory_equal(taken[0].pcs, taken[1].pcs, (size_t)taken[0].count * sizeof(uintptr_t));
      assert_int_not_equal(taken[0].id, taken[1].id);
    }
    last = (uintptr_t)reload;
    dlclose(library);
  }
  /* The emulator never maps at an address that was mapped before. */
  if (!is_emulated()) assert_true(same_place > 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paths_have_their_ids),
      cmocka_unit_test(ids_lead_back),
      cmocka_unit_test(depth_does_not_change_ids),
      cmocka_unit_test(states_are_reused),
      cmocka_unit_test(forked_children_agree),
      cmocka_unit_test(stack_replaced_by_a_shorter_one),
      cmocka_unit_test(saved_frame_pointers_count),
      cmocka_unit_test(chained_frame_pointers_count),
      cmocka_unit_test(vectors_are_unchanged),
      cmocka_unit_test(return_addresses_of_chains_count),
      cmocka_unit_test(other_builds_have_other_ids),
      cmocka_unit_test(a_full_table_is_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
