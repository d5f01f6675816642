/* SPDX-License-Identifier: MIT
 *
 * Owners of Python files by the records of their installers: quoted paths, files that nobody lists,
 * several folders, names that the metadata lacks.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "symbol/distribution.h"

static char root[] = "/tmp/sonde-distribution-XXXXXX";

static void make_folder(const char *path) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  assert_int_equal(mkdir(whole, 0700), 0);
}

static void put(const char *path, const char *text) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  FILE *file = fopen(whole, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static const char *owner(distributions_t *d, const char *path) {
  char whole[512];
  snprintf(whole, sizeof whole, "%s/%s", root, path);
  return distribution_of(d, whole);
}

static int set_up(void **state) {
  (void)state;
  if (!mkdtemp(root)) return -1;
  make_folder("site-packages");
  make_folder("site-packages/one-1.0.dist-info");
  put("site-packages/one-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName:  One.Thing \r\n");
  put("site-packages/one-1.0.dist-info/RECORD",
      "one/__init__.py,sha256=x,1\r\n\"one/a,\"\"b\"\".py\",,\none/data.txt,,\n../../bin/one.py,,\n"
      "/absolute.py,,\none/last.py");
  make_folder("site-packages/two-1.0.dist-info");
  put("site-packages/two-1.0.dist-info/METADATA", "Version: 1\n\nName: body\n");
  put("site-packages/two-1.0.dist-info/RECORD", "two.py,,\n");
  make_folder("site-packages/pipe-1.0.dist-info");
  char pipe[512];
  snprintf(pipe, sizeof pipe, "%s/site-packages/pipe-1.0.dist-info/METADATA", root);
  if (mkfifo(pipe, 0600)) return -1;
  make_folder("dist-packages");
  for (int i = 0; i < 200; i++) {
    char path[128], text[128];
    snprintf(path, sizeof path, "dist-packages/d%d-1.dist-info", i);
    make_folder(path);
    snprintf(path, sizeof path, "dist-packages/d%d-1.dist-info/METADATA", i);
    snprintf(text, sizeof text, "Name: d%d\n", i);
    put(path, text);
    snprintf(path, sizeof path, "dist-packages/d%d-1.dist-info/RECORD", i);
    snprintf(text, sizeof text, "d%d.py,,\nshared%d/m.py,,\n", i, i / 2);
    put(path, text);
  }
  return 0;
}

static int remove_all(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  return system(command);
}

static void a_file_has_the_distribution_that_lists_it(void **state) {
  (void)state;
  distributions_t *d = distributions_new();
  assert_non_null(d);
  assert_string_equal(owner(d, "site-packages/one/__init__.py"), "One.Thing");
  assert_string_equal(owner(d, "site-packages/one/a,\"b\".py"), "One.Thing");
  assert_string_equal(owner(d, "site-packages/one/last.py"), "One.Thing");
  assert_null(owner(d, "site-packages/one/data.txt"));
  assert_null(owner(d, "site-packages/one/other.py"));
  assert_null(owner(d, "site-packages/two.py"));
  assert_null(owner(d, "bin/one.py"));
  assert_null(owner(d, "site-packages"));
  assert_null(distribution_of(d, "site-packages/one/__init__.py"));
  assert_null(distribution_of(d, ""));
  distributions_free(d);
}

static void several_folders_are_read(void **state) {
  (void)state;
  distributions_t *d = distributions_new();
  assert_non_null(d);
  for (int i = 0; i < 200; i++) {
    char path[64], name[16];
    snprintf(path, sizeof path, "dist-packages/d%d.py", i);
    snprintf(name, sizeof name, "d%d", i);
    assert_string_equal(owner(d, path), name);
  }
  assert_non_null(owner(d, "dist-packages/shared7/m.py"));
  assert_string_equal(owner(d, "site-packages/one/last.py"), "One.Thing");
  assert_null(owner(d, "dist-packages/one/last.py"));
  distributions_free(d);
}

static void any_number_of_folders_may_be_asked_for(void **state) {
  (void)state;
  distributions_t *d = distributions_new();
  assert_non_null(d);
  assert_non_null(owner(d, "site-packages/one/last.py"));
  for (int i = 0; i < 300000; i++) {
    char path[64];
    snprintf(path, sizeof path, "/no/%d/site-packages/m.py", i);
    assert_null(distribution_of(d, path));
  }
  assert_non_null(owner(d, "site-packages/one/last.py"));
  distributions_free(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_file_has_the_distribution_that_lists_it),
                                     cmocka_unit_test(several_folders_are_read),
                                     cmocka_unit_test(any_number_of_folders_may_be_asked_for)};
  return cmocka_run_group_tests(tests, set_up, remove_all);
}
