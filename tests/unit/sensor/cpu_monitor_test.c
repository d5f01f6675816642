/* SPDX-License-Identifier: MIT
 *
 * sonde/cpu.h: the call tree of samples, and a monitor that finds the thread that uses the CPU.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "os/os.h"
#include "sensor/cpu/call_tree.h"
#include "skip.h"
#include "sonde/name.h"

/* ---- the tree ------------------------------------------------------------------------------- */

static call_tree_t tree;
static sonde_cpu_node_t nodes[CALL_TREE_NODES];

/* Functions as letters, innermost first. */
static void add(const char *functions, uint64_t weight_ns) {
  uintptr_t pcs[CALL_TREE_DEPTH];
  uint64_t ids[CALL_TREE_DEPTH];
  int count = (int)strlen(functions);
  for (int i = 0; i < count; i++) {
    ids[i] = (uint64_t)functions[i];
    pcs[i] = (uintptr_t)functions[i] * 16;
  }
  call_tree_add(&tree, pcs, ids, count, weight_ns);
}

static void assert_node(int i, char function, int depth, int caller, uint64_t cpu, uint64_t self) {
  assert_int_equal((nodes[i].pc + 1) / 16, function);
  assert_int_equal(nodes[i].depth, depth);
  assert_int_equal(nodes[i].caller, caller);
  assert_int_equal(nodes[i].cpu_ns, cpu);
  assert_int_equal(nodes[i].self_ns, self);
}

static void stacks_become_a_tree(void **unused) {
  (void)unused;
  call_tree_clear(&tree);
  add("ba", 1);
  add("dca", 2);
  add("ca", 3);
  add("ba", 5);
  add("z", 1);
  assert_int_equal(call_tree_write(&tree, nodes), 5);
  assert_node(0, 'a', 0, -1, 11, 0);
  assert_node(1, 'b', 1, 0, 6, 6);
  assert_node(2, 'c', 1, 0, 5, 3);
  assert_node(3, 'd', 2, 2, 2, 2);
  assert_node(4, 'z', 0, -1, 1, 1);
  assert_int_equal(tree.sampled_ns, 12);
  assert_int_equal(tree.samples, 5);
  add("dca", 20);
  assert_int_equal(call_tree_write(&tree, nodes), 5);
  assert_node(1, 'c', 1, 0, 25, 3);
}

static void recursion_is_one_node(void **unused) {
  (void)unused;
  call_tree_clear(&tree);
  add("bbba", 4);
  assert_int_equal(call_tree_write(&tree, nodes), 2);
  assert_node(1, 'b', 1, 0, 4, 4);
}

static void a_full_tree_counts_for_the_caller(void **unused) {
  (void)unused;
  uint64_t ids[2] = {0, 1}, total = 0;
  uintptr_t pcs[2] = {16, 32};
  call_tree_clear(&tree);
  assert_int_equal(call_tree_write(&tree, nodes), 0);
  for (int i = 0; i < CALL_TREE_NODES + 10; i++) {
    ids[0] = 100 + (uint64_t)i;
    call_tree_add(&tree, pcs, ids, 2, 1);
  }
  assert_int_equal(call_tree_write(&tree, nodes), CALL_TREE_NODES);
  for (int i = 0; i < CALL_TREE_NODES; i++)
    total += nodes[i].self_ns;
  assert_int_equal(total, CALL_TREE_NODES + 10);
  assert_int_equal(nodes[0].self_ns, 11);
}

/* ---- the monitor ---------------------------------------------------------------------------- */

static atomic_bool is_found;
static atomic_int burner;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static void burn(void) {
  static volatile uint64_t sink;
  for (int i = 0; i < 1000; i++)
    sink = sink + (uint64_t)i;
}

static void *use_cpu(void *unused) {
  atomic_store(&burner, os_tid());
  while (!atomic_load(&is_found))
    burn();
  return unused;
}

static void *rest(void *unused) {
  pthread_mutex_lock(&held);
  pthread_mutex_unlock(&held);
  return unused;
}

typedef struct found {
  int episodes, others;
  uint64_t length_ns, cpu_ns, sampled_ns, unknown_ns, burned_ns, self_ns;
  uint32_t samples;
  int lines;
} found_t;

static void on_episode(const sonde_cpu_episode_t *e, void *context) {
  found_t *f = context;
  if (e->tid != atomic_load(&burner)) {
    f->others++;
    return;
  }
  f->episodes++;
  f->length_ns = e->length_ns;
  f->cpu_ns = e->cpu_ns;
  f->sampled_ns = e->sampled_ns;
  f->unknown_ns = e->unknown_ns;
  f->samples = e->samples;
  for (int i = 0; i < e->count; i++) {
    sonde_name_t name;
    f->self_ns += e->nodes[i].self_ns;
    if (sonde_name(e->nodes[i].pc, SONDE_NAME_EXACT, &name) == 0 &&
        strcmp(name.symbol, "burn") == 0)
      f->burned_ns += e->nodes[i].cpu_ns;
  }
  f->lines = sonde_cpu_print(2, e);
  assert_int_equal(sonde_cpu_monitor(10, 1, on_episode, f), SONDE_EBUSY);
  assert_int_equal(sonde_cpu_monitor_stop(), 0);
}

/* 10 %: a busy machine gives the thread at least that. */
static void the_thread_and_its_code_are_found(void **unused) {
  (void)unused;
  found_t f = {0};
  pthread_t one, two;
  pthread_mutex_lock(&held);
  pthread_create(&one, NULL, use_cpu, NULL);
  pthread_create(&two, NULL, rest, NULL);
  assert_int_equal(sonde_cpu_monitor(10, 1, on_episode, &f), 0);
  atomic_store(&is_found, true);
  pthread_mutex_unlock(&held);
  pthread_join(one, NULL);
  pthread_join(two, NULL);
  assert_int_equal(f.episodes, 1);
  assert_int_equal(f.others, 0);
  assert_true(f.length_ns >= 1000000000 && f.cpu_ns >= f.length_ns / 10);
  assert_true(f.samples >= 1 && f.lines >= 2);
  assert_true(f.sampled_ns + f.unknown_ns <= f.cpu_ns);
  assert_int_equal(f.self_ns, f.sampled_ns);
  assert_true(f.burned_ns >= f.sampled_ns / 2);
}

static void wrong_arguments_are_refused(void **unused) {
  (void)unused;
  found_t f;
  assert_int_equal(sonde_cpu_monitor(0, 1, on_episode, &f), SONDE_EINVAL);
  assert_int_equal(sonde_cpu_monitor(101, 1, on_episode, &f), SONDE_EINVAL);
  assert_int_equal(sonde_cpu_monitor(50, 0, on_episode, &f), SONDE_EINVAL);
  assert_int_equal(sonde_cpu_monitor(50, 86401, on_episode, &f), SONDE_EINVAL);
  assert_int_equal(sonde_cpu_monitor(50, 1, NULL, &f), SONDE_EINVAL);
  assert_int_equal(sonde_cpu_print(2, NULL), SONDE_EINVAL);
}

static void a_stop_before_the_start_counts(void **unused) {
  (void)unused;
  found_t f;
  assert_int_equal(sonde_cpu_monitor_stop(), 0);
  assert_int_equal(sonde_cpu_monitor(50, 1, on_episode, &f), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stacks_become_a_tree),
                                     cmocka_unit_test(recursion_is_one_node),
                                     cmocka_unit_test(a_full_tree_counts_for_the_caller),
                                     cmocka_unit_test(the_thread_and_its_code_are_found),
                                     cmocka_unit_test(wrong_arguments_are_refused),
                                     cmocka_unit_test(a_stop_before_the_start_counts)};
  if (skips_under_tsan()) return 77;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
