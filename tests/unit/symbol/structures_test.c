/* SPDX-License-Identifier: MIT
 *
 * Offsets of members and addresses of variables from DWARF, against the compiler's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <elf.h>
#include <cmocka.h>

#include "symbol/dwarf/structures.h"

typedef struct pair {
  char first;
  uint64_t second;
} test_pair_t;

struct test_outer {
  char name[13];
  const test_pair_t *pointer;
  struct {
    uint16_t small;
    const volatile test_pair_t pair;
  } inner;
  uint32_t last : 7;
};

struct test_outer test_outers[3];

static void members_are_where_the_compiler_put_them(void **unused) {
  (void)unused;
  structure_member_t members[] = {
      {.structure = "test_outer", .path = "name"},
      {.structure = "test_outer", .path = "pointer"},
      {.structure = "test_outer", .path = "inner.small"},
      {.structure = "test_outer", .path = "inner.pair.second"},
      {.structure = "pair", .path = "second"},
  };
  structure_variable_t variable = {.name = "test_outers"};
  test_outers[0].name[0] = 1;
  assert_true(structures_find("/proc/self/exe", members, 5, &variable, 1));
  assert_int_equal(members[0].offset, 0);
  assert_int_equal(members[1].offset, offsetof(struct test_outer, pointer));
  assert_int_equal(members[2].offset, offsetof(struct test_outer, inner.small));
  assert_int_equal(members[3].offset, offsetof(struct test_outer, inner.pair.second));
  assert_int_equal(members[4].offset, offsetof(test_pair_t, second));
  assert_int_equal(variable.size, sizeof test_outers);
  /* AT_ENTRY is where the entry of the file is. */
  FILE *file = fopen("/proc/self/exe", "re");
  Elf64_Ehdr header;
  assert_non_null(file);
  assert_int_equal(fread(&header, sizeof header, 1, file), 1);
  (void)fclose(file);
  assert_int_equal(variable.address + (getauxval(AT_ENTRY) - header.e_entry),
                   (uintptr_t)test_outers);
}

static void what_is_missing_is_not_known(void **unused) {
  (void)unused;
  structure_member_t members[] = {{.structure = "test_outer", .path = "inner.absent"},
                                  {.structure = "test_outer", .path = "name.x"},
                                  {.structure = "test_absent", .path = "x"},
                                  {.structure = "test_outer", .path = "pointer"}};
  structure_variable_t variable = {.name = "test_absent"};
  assert_false(structures_find("/proc/self/exe", members, 4, &variable, 1));
  for (int i = 0; i < 3; i++)
    assert_false(members[i].is_known);
  assert_true(members[3].is_known && !variable.is_known);
  members[3].is_known = false;
  assert_false(structures_find("/dev/null", members + 3, 1, NULL, 0));
  assert_false(structures_find("/absent", members + 3, 1, NULL, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(members_are_where_the_compiler_put_them),
                                     cmocka_unit_test(what_is_missing_is_not_known)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
