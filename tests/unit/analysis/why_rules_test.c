/* SPDX-License-Identifier: MIT
 *
 * The rules of `sonde why` on facts that are written down here: no clock, no program. Each case has
 * a program with the fault and one without it that differs in little.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analysis/why/rules.h"

#define MS UINT64_C(1000000)

/* ---- stacks: the number is the id --------------------------------------------------------- */

enum {
  COMPUTES = 1,
  THROWS,
  COPIES,
  FLUSHES,
  WRITES,
  ASKS_FOR_WRITING,
  SLEEPS,
  ALLOCATES,
  ANSWERS,
  STARTS_THREADS,
  CONNECTS,
  MAKES_SOCKETS,
  LOADS_ATOMIC,
  READS_PIPE,
  THROWS_AT_FIRST,
  THROWS_OFTEN,
  STACKS
};

static const char *const functions[STACKS][4] = {
    [COMPUTES] = {"solve", "main"},
    [THROWS] = {"_Unwind_RaiseException", "__cxa_throw", "find", "main"},
    [COPIES] = {"__memmove_avx_unaligned", "append", "main"},
    [FLUSHES] = {"fdatasync", "save", "main"},
    [WRITES] = {"write", "save", "main"},
    [ASKS_FOR_WRITING] = {"__pthread_rwlock_wrlock", "update", "main"},
    [SLEEPS] = {"clock_nanosleep", "look", "main"},
    [ALLOCATES] = {"malloc", "append", "main"},
    [ANSWERS] = {"malloc", "answer", "main"},
    [STARTS_THREADS] = {"pthread_create", "start", "main"},
    [CONNECTS] = {"connect", "try_it", "main"},
    [MAKES_SOCKETS] = {"socket", "try_it", "main"},
    [LOADS_ATOMIC] = {"std::__atomic_base<int>::load(std::memory_order) const", "watch", "main"},
    [READS_PIPE] = {"read", "receive", "main"},
    [THROWS_AT_FIRST] = {"__cxa_throw", "find", "start", "main"},
    [THROWS_OFTEN] = {"__cxa_throw", "find", "serve", "main"},
};

static int of_stack(void *context, uint32_t stack, why_function_t *out, int max) {
  (void)context;
  int count = 0;
  for (; count < max && count < 4 && functions[stack][count]; count++) {
    const char *name = functions[stack][count];
    bool own = strcmp(name, "main") == 0 || strcmp(name, "solve") == 0 ||
               (count > 0 && strncmp(name, "__", 2) != 0);
    out[count] = (why_function_t){.name = name,
                                  .library = "program",
                                  .path = "/program",
                                  .line = 7,
                                  .own = own,
                                  .known = true};
  }
  return count;
}

/* ---- facts -------------------------------------------------------------------------------- */

static why_t *new_facts(void) {
  why_t *w = calloc(1, sizeof *w);
  w->names.of_stack = of_stack;
  w->duration_ns = 2000 * MS;
  w->has_ticks = w->has_waits = true;
  return w;
}

static void add_thread(why_t *w, uint32_t tid, uint64_t run_ms, uint64_t switches) {
  why_thread_t *t = why_thread(w, tid);
  t->seen_ns = 2000 * MS;
  t->run_ns = run_ms * MS;
  t->switches = switches;
}

static void add_ticks(why_t *w, uint32_t tid, uint32_t stack, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    *ARRAY_ADD(w->ticks) = (why_tick_t){i * 10 * MS, tid, stack, 1};
  why_thread(w, tid)->ticks += count;
}

static void add_wait(why_t *w, uint32_t tid, uint32_t stack, const char *call, uint64_t from_ms,
                     uint64_t to_ms) {
  *ARRAY_ADD(w->waits) = (why_wait_t){.from_ns = from_ms * MS,
                                      .to_ns = to_ms * MS,
                                      .tid = tid,
                                      .stack = stack,
                                      .call = call,
                                      .what = ""};
}

/* A heap of the stacks COUNT; each level has BYTES (level) in BLOCKS (level) of stack 0. */
static replay_t *add_heap(why_t *w, uint32_t stack, uint64_t allocated_bytes,
                          uint64_t (*bytes)(uint64_t level), uint64_t (*blocks)(uint64_t level)) {
  replay_t *r = calloc(1, sizeof *r);
  r->stacks = calloc(1, sizeof *r->stacks);
  r->stack_count = 1;
  r->stacks[0].stack = stack;
  r->stacks[0].allocated = r->allocated = (counts_t){allocated_bytes / 64, allocated_bytes};
  for (uint64_t i = 0; i < WHY_LEVELS; i++) {
    why_level_t *l = &w->levels[w->level_count++];
    *l = (why_level_t){.time_ns = (i + 1) * 2000 * MS / (WHY_LEVELS + 1),
                       .bytes = bytes(i),
                       .stacks = calloc(1, sizeof *l->stacks),
                       .stack_count = 1};
    l->stacks[0] = (counts_t){blocks(i) * WEIGHT_ONE, bytes(i)};
  }
  r->stacks[0].live = (counts_t){blocks(WHY_LEVELS - 1), bytes(WHY_LEVELS - 1)};
  w->replay = r;
  return r;
}

/* The first finding that is a fault, and frees W. */
static finding_t found(why_t *w) {
  static findings_list_t list;
  replay_t *r = (replay_t *)(uintptr_t)w->replay;
  why_find(w, &list);
  finding_t first = list.count && !list.items[0].is_note ? list.items[0] : (finding_t){0};
  if (r) free(r->stacks);
  free(r);
  why_free(w);
  free(w);
  return first;
}

static void assert_fault(finding_t f, why_kind_t kind, const char *function) {
  if (!*f.what || f.kind != kind || !strstr(f.what, function))
    fail_msg("expected %s in %s; found: %s", why_kind_key(kind), function, f.what);
}

static void assert_none(finding_t f) {
  if (*f.what) fail_msg("expected nothing; found: %s", f.what);
}

/* ---- CPU time without a result ------------------------------------------------------------ */

static finding_t with_ticks(uint32_t stack, uint64_t count, uint64_t others) {
  why_t *w = new_facts();
  add_thread(w, 1, 10 * (count + others), 10);
  add_ticks(w, 1, stack, count);
  add_ticks(w, 1, COMPUTES, others);
  return found(w);
}

static void exceptions_that_use_most_time_are_told(void **unused) {
  (void)unused;
  assert_fault(with_ticks(THROWS, 60, 40), WHY_EXCEPTIONS, "find");
  assert_none(with_ticks(THROWS, 20, 80));
  assert_none(with_ticks(THROWS, 8, 0)); /* 80 ms */
}

/* The place is that of the stack with most samples, not of the first one. */
static void the_most_frequent_caller_is_named(void **unused) {
  (void)unused;
  why_t *w = new_facts();
  add_thread(w, 1, 800, 10);
  add_ticks(w, 1, THROWS_AT_FIRST, 5);
  for (int i = 0; i < 15; i++) { /* they alternate */
    add_ticks(w, 1, THROWS_OFTEN, 4);
    add_ticks(w, 1, COMPUTES, 1);
  }
  assert_fault(found(w), WHY_EXCEPTIONS, "called by serve");
}

static uint64_t one_block(uint64_t level) { return 1 + 0 * level; }
static uint64_t steady_bytes(uint64_t level) { return 100000 + 0 * level; }
static uint64_t rising_bytes(uint64_t level) { return 100000 + level * 100000; }
static uint64_t rising_blocks(uint64_t level) { return 10 + level * 100; }
static uint64_t saw_bytes(uint64_t level) { return level == 7 ? 1000000 : rising_bytes(level); }

static finding_t with_copies(uint64_t allocated_bytes) {
  why_t *w = new_facts();
  add_thread(w, 1, 1000, 10);
  add_ticks(w, 1, COPIES, 80);
  add_ticks(w, 1, COMPUTES, 20);
  add_heap(w, ALLOCATES, allocated_bytes, steady_bytes, one_block);
  return found(w);
}

static void copies_into_new_blocks_are_told(void **unused) {
  (void)unused;
  assert_fault(with_copies(UINT64_C(1000000000)), WHY_COPIES, "append");
  assert_none(with_copies(1000000)); /* it copies, but into what it has */
}

static finding_t with_allocations(uint64_t allocated_bytes, uint64_t ticks) {
  why_t *w = new_facts();
  add_thread(w, 1, 1000, 10);
  add_ticks(w, 1, ALLOCATES, ticks);
  add_ticks(w, 1, COMPUTES, 100 - ticks);
  add_heap(w, ALLOCATES, allocated_bytes, steady_bytes, rising_blocks);
  return found(w);
}

static void short_lived_blocks_are_told(void **unused) {
  (void)unused;
  assert_fault(with_allocations(UINT64_C(640000000), 50), WHY_TEMPORARY, "append");
  assert_none(with_allocations(UINT64_C(640000000), 10)); /* they cost little */
  assert_none(with_allocations(6400000, 50));             /* they are few */
}

/* ---- growth ------------------------------------------------------------------------------- */

static finding_t with_growth(uint64_t allocated_bytes, uint64_t (*bytes)(uint64_t),
                             uint64_t (*blocks)(uint64_t)) {
  why_t *w = new_facts();
  add_heap(w, ANSWERS, allocated_bytes, bytes, blocks);
  return found(w);
}

static void growth_is_of_blocks_that_stay(void **unused) {
  (void)unused;
  assert_fault(with_growth(2000000, rising_bytes, rising_blocks), WHY_GROWTH, "answer");
  /* one of a thousand blocks is lost, and the heap only rises */
  assert_fault(with_growth(UINT64_C(2000000000), rising_bytes, rising_blocks), WHY_GROWTH,
               "answer");
  /* a text that is made anew for each line */
  assert_none(with_growth(UINT64_C(2000000000), rising_bytes, one_block));
  /* blocks come and go */
  assert_none(with_growth(UINT64_C(2000000000), saw_bytes, rising_blocks));
}

/* ---- fragmentation ------------------------------------------------------------------------ */

/* 40 MB are allocated in the first half. */
static uint64_t freed_at_once(uint64_t level) {
  return level < WHY_LEVELS / 2 ? 5000000 * (level + 1) : 2000000;
}

static uint64_t freed_at_the_end(uint64_t level) {
  return level < WHY_LEVELS / 2 ? 5000000 * (level + 1)
                                : 2000000 * (2 * (uint64_t)WHY_LEVELS - 2 * level - 1);
}

/* 40 MB stay resident. */
static finding_t with_heap(uint64_t (*bytes)(uint64_t level)) {
  usage_point_t points[1] = {{0, 40000000}};
  usage_t usage = {.is_recorded = true, .to_ns = 2000 * MS};
  usage.series[USAGE_RSS] = (usage_series_t){.is_known = true,
                                             .first = 40000000,
                                             .last = 40000000,
                                             .peak = 40000000,
                                             .points = points,
                                             .count = 1};
  why_t *w = new_facts();
  w->usage = &usage;
  add_heap(w, ALLOCATES, 80000000, bytes, rising_blocks)->at_peak.bytes = 40000000;
  return found(w);
}

static void a_heap_that_is_being_freed_is_not_fragmented(void **unused) {
  (void)unused;
  assert_fault(with_heap(freed_at_once), WHY_RESIDENT, "append");
  assert_none(with_heap(freed_at_the_end));
}

/* ---- threads ------------------------------------------------------------------------------ */

/* 510 threads are started, of which ALIVE live when the kernel counts threads last. */
static finding_t with_threads(uint64_t alive, uint64_t counted_ms) {
  usage_point_t points[2] = {{0, 1}, {counted_ms * MS, alive}};
  usage_point_t faults[2] = {{0, 1}, {counted_ms * MS, 2}};
  usage_t usage = {.is_recorded = true, .to_ns = 2000 * MS};
  usage.series[USAGE_THREADS] = (usage_series_t){
      .is_known = true, .first = 1, .last = alive, .peak = alive, .points = points, .count = 2};
  usage.series[USAGE_MINOR_FAULTS] =
      (usage_series_t){.is_known = true, .points = faults, .count = 2};
  why_t *w = new_facts();
  w->usage = &usage;
  add_heap(w, STARTS_THREADS, 1000000, steady_bytes, rising_blocks);
  return found(w);
}

static void threads_that_live_are_not_said_to_have_ended(void **unused) {
  (void)unused;
  assert_fault(with_threads(500, 800), WHY_THREADS, "start");
  assert_fault(with_threads(3, 800), WHY_LEAK, "start");
  assert_none(with_threads(3, 1)); /* counted before there were any */
}

/* ---- loops -------------------------------------------------------------------------------- */

/* One descriptor more each 2 ms until LAST_MS, in a recording of 700 ms. */
static finding_t with_descriptors(uint64_t last_ms, uint64_t before_end_ms) {
  usage_point_t points[8] = {{0}};
  uint32_t count = 0;
  for (uint64_t ms = 5; ms <= last_ms; ms += 100)
    points[count++] = (usage_point_t){ms * MS, ms / 2};
  usage_t usage = {.is_recorded = true, .to_ns = 700 * MS, .before_end_ns = before_end_ms * MS};
  usage.series[USAGE_DESCRIPTORS] = (usage_series_t){.is_known = true,
                                                     .points = points,
                                                     .count = count,
                                                     .first = points[0].value,
                                                     .first_ns = points[0].time_ns,
                                                     .last = points[count - 1].value,
                                                     .peak = points[count - 1].value,
                                                     .peak_ns = points[count - 1].time_ns};
  why_t *w = new_facts();
  w->usage = &usage;
  return found(w);
}

static void descriptors_grow_to_their_last_reading(void **unused) {
  (void)unused;
  assert_int_equal(with_descriptors(505, 505).kind, WHY_DESCRIPTORS);
  assert_int_equal(with_descriptors(605, 605).kind, WHY_DESCRIPTORS);
  assert_none(with_descriptors(405, 605));
}

static finding_t with_loop(uint32_t stack, uint64_t count, uint32_t other, uint64_t others) {
  why_t *w = new_facts();
  add_thread(w, 1, 1900, 10);
  add_ticks(w, 1, stack, count);
  add_ticks(w, 1, other, others);
  return found(w);
}

static void tries_without_a_pause_are_told(void **unused) {
  (void)unused;
  assert_fault(with_loop(CONNECTS, 40, MAKES_SOCKETS, 60), WHY_BUSY_LOOP, "try_it");
  assert_none(with_loop(CONNECTS, 5, MAKES_SOCKETS, 95));
  assert_none(with_loop(CONNECTS, 40, COMPUTES, 60));
}

static void loops_over_an_atomic_variable_are_told(void **unused) {
  (void)unused;
  assert_fault(with_loop(LOADS_ATOMIC, 90, COMPUTES, 10), WHY_BUSY_LOOP, "watch");
  assert_none(with_loop(LOADS_ATOMIC, 40, COMPUTES, 60));
}

/* ---- waits -------------------------------------------------------------------------------- */

static finding_t with_flushes(uint64_t flush_ms, uint64_t switches, uint64_t runq_ms) {
  why_t *w = new_facts();
  add_thread(w, 1, 200, switches);
  why_thread(w, 1)->runq_ns = runq_ms * MS;
  add_wait(w, 1, FLUSHES, "fdatasync", 0, flush_ms);
  add_wait(w, 1, WRITES, "write", flush_ms, 100);
  return found(w);
}

static void a_flush_after_each_write_is_told(void **unused) {
  (void)unused;
  assert_fault(with_flushes(90, 2000, 0), WHY_DISK, "save");
  assert_fault(with_flushes(90, 2000, 1200), WHY_DISK, "save"); /* a busy machine */
  assert_none(with_flushes(20, 2000, 0));
  assert_none(with_flushes(90, 3, 0)); /* once, at the end */
}

static finding_t with_writer(uint64_t from_ms, uint32_t owner) {
  why_t *w = new_facts();
  add_thread(w, 1, 10, 100);
  add_wait(w, 1, ASKS_FOR_WRITING, "futex", from_ms, 2000);
  w->waits.items[0].owner = owner;
  return found(w);
}

/* A thread of a busy machine that waits for a CPU after nearly each flush. FLUSHES of its samples
 * are in one. */
static finding_t of_busy_machine(uint64_t run_ms, uint64_t flushes) {
  why_t *w = new_facts();
  add_thread(w, 7, run_ms, 1300);
  why_thread(w, 7)->runq_ns = 1860 * MS;
  for (uint64_t i = 0; i < flushes; i++)
    add_wait(w, 7, FLUSHES, "fdatasync", 200 * i, 200 * i + 10);
  return found(w);
}

static void a_flush_after_each_write_is_told_on_a_busy_machine(void **unused) {
  (void)unused;
  finding_t f = of_busy_machine(50, 9);
  assert_fault(f, WHY_DISK, "save");
  assert_non_null(strstr(f.what, "90 ms, 64 % of the time in which it did not wait for a CPU"));
  assert_none(of_busy_machine(50, 7)); /* too few to tell */
  assert_none(of_busy_machine(90, 9));
}

static void a_writer_that_readers_starve_is_told(void **unused) {
  (void)unused;
  assert_fault(with_writer(100, 0), WHY_STARVED, "update");
  assert_none(with_writer(1800, 0));
  assert_none(with_writer(100, 7)); /* another writer */
}

static finding_t with_sleepers(uint32_t threads, uint64_t switches) {
  why_t *w = new_facts();
  for (uint32_t tid = 1; tid <= threads; tid++) {
    add_thread(w, tid, 10, switches);
    add_ticks(w, tid, SLEEPS, 1);
    add_wait(w, tid, SLEEPS, "clock_nanosleep", 0, 1900);
  }
  return found(w);
}

static void many_threads_that_wake_up_for_nothing_are_told(void **unused) {
  (void)unused;
  assert_fault(with_sleepers(30, 1800), WHY_WAKEUPS, "look");
  assert_none(with_sleepers(30, 20)); /* ten times a second */
  assert_none(with_sleepers(3, 1800));
}

static finding_t with_wait(bool is_stuck, unsigned zombies) {
  why_t *w = new_facts();
  w->is_live = true;
  w->is_stuck = is_stuck;
  w->zombies = zombies;
  add_thread(w, 1, 0, 0);
  add_wait(w, 1, READS_PIPE, "read", 0, 2000);
  w->waits.items[0].what = "pipe:[7]";
  return found(w);
}

static void a_wait_is_a_fault_if_it_cannot_end(void **unused) {
  (void)unused;
  assert_fault(with_wait(true, 0), WHY_HANG, "receive");
  assert_none(with_wait(false, 0));
  assert_fault(with_wait(false, 20), WHY_ZOMBIES, "20 child processes");
  assert_none(with_wait(false, 2));
}

static void equal_functions_have_one_copy(void **state) {
  (void)state;
  why_t *w = new_facts();
  why_function_t function = {.name = "name", .file = "file.c", .library = "", .path = ""};
  const why_function_t *kept[1000];
  for (uint32_t i = 0; i < 1000; i++) {
    function.line = i;
    kept[i] = why_keep_function(w, &function);
    assert_non_null(kept[i]);
  }
  for (uint32_t i = 0; i < 1000; i++) {
    function.line = i;
    assert_ptr_equal(why_keep_function(w, &function), kept[i]);
    assert_int_equal(kept[i]->line, i);
  }
  function.own = true;
  assert_ptr_not_equal(why_keep_function(w, &function), kept[999]);
  const why_stack_t *s = why_stack(w, THROWS), *other = why_stack(w, THROWS_OFTEN);
  assert_ptr_equal(s->functions[s->count - 1], other->functions[other->count - 1]); /* main */
  why_free(w);
  free(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_most_frequent_caller_is_named),
      cmocka_unit_test(tries_without_a_pause_are_told),
      cmocka_unit_test(loops_over_an_atomic_variable_are_told),
      cmocka_unit_test(a_wait_is_a_fault_if_it_cannot_end),
      cmocka_unit_test(exceptions_that_use_most_time_are_told),
      cmocka_unit_test(copies_into_new_blocks_are_told),
      cmocka_unit_test(short_lived_blocks_are_told),
      cmocka_unit_test(growth_is_of_blocks_that_stay),
      cmocka_unit_test(threads_that_live_are_not_said_to_have_ended),
      cmocka_unit_test(descriptors_grow_to_their_last_reading),
      cmocka_unit_test(a_heap_that_is_being_freed_is_not_fragmented),
      cmocka_unit_test(a_flush_after_each_write_is_told),
      cmocka_unit_test(a_flush_after_each_write_is_told_on_a_busy_machine),
      cmocka_unit_test(a_writer_that_readers_starve_is_told),
      cmocka_unit_test(many_threads_that_wake_up_for_nothing_are_told),
      cmocka_unit_test(equal_functions_have_one_copy)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
