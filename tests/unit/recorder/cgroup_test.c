/* SPDX-License-Identifier: MIT
 *
 * Files of a cgroup, as the kernel writes them: limits of the hierarchy, events, throttling.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "recorder/monitor/usage/cgroup.h"

static char root[] = "/tmp/sonde-cgroup-XXXXXX";

static void write_file(const char *name, const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, name);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static usage_values_t read_values(const char *path) {
  cgroup_files_t files;
  usage_values_t values = {0};
  cgroup_open_at(&files, root, path);
  cgroup_read(&files, &values);
  cgroup_close(&files);
  return values;
}

static int make_tree(void **unused) {
  char path[256];
  (void)unused;
  if (!mkdtemp(root)) return 1;
  snprintf(path, sizeof path, "%s/a", root);
  if (mkdir(path, 0700) != 0) return 1;
  snprintf(path, sizeof path, "%s/a/b", root);
  if (mkdir(path, 0700) != 0) return 1;
  write_file("a/memory.max", "536870912\n");
  write_file("a/cpu.max", "max 100000\n");
  write_file("a/b/memory.max", "max\n");
  write_file("a/b/memory.current", "4096000\n");
  write_file("a/b/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n");
  write_file("a/b/cpu.max", "150000 100000\n");
  write_file("a/b/cpu.stat", "usage_usec 10\nnr_throttled 7\nthrottled_usec 2500\n");
  return 0;
}

static int remove_tree(void **unused) {
  char command[300];
  (void)unused;
  snprintf(command, sizeof command, "rm -r '%s'", root);
  return system(command);
}

static void values_are_read(void **unused) {
  (void)unused;
  usage_values_t v = read_values("/a/b");
  assert_int_equal(v.value[USAGE_CGROUP_MEMORY], 4096000);
  assert_int_equal(v.value[USAGE_CGROUP_LIMIT], 536870912);
  assert_int_equal(v.value[USAGE_CGROUP_OOM], 3);
  assert_int_equal(v.value[USAGE_CGROUP_OOM_KILLS], 2);
  assert_int_equal(v.value[USAGE_CGROUP_CPU], 1500);
  assert_int_equal(v.value[USAGE_CGROUP_THROTTLED], 2500000);
}

static void what_is_not_there_is_unknown(void **unused) {
  (void)unused;
  usage_values_t v = read_values("/a");
  assert_true(v.known[USAGE_CGROUP_LIMIT]);
  assert_false(v.known[USAGE_CGROUP_CPU]);
  assert_false(v.known[USAGE_CGROUP_MEMORY]);
  v = read_values("/");
  for (unsigned i = 0; i < USAGE_FIELDS; i++)
    assert_false(v.known[i]);
}

static void status_of_an_ended_process_has_no_memory(void **unused) {
  (void)unused;
  usage_values_t v = {0};
  assert_false(usage_parse_status("Name:\tx\nState:\tZ (zombie)\nThreads:\t1\n", &v));
  assert_true(usage_parse_status("Name:\tVmRSS:\nVmRSS:\t     12 kB\n\nVmSwap:\t 3 kB", &v));
  assert_int_equal(v.value[USAGE_RSS], 12288);
  assert_int_equal(v.value[USAGE_SWAP], 3072);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_read),
                                     cmocka_unit_test(what_is_not_there_is_unknown),
                                     cmocka_unit_test(status_of_an_ended_process_has_no_memory)};
  return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
