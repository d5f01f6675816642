/* SPDX-License-Identifier: MIT
 *
 * Lines of Ruby's instruction sequences, in tables that a test writes, and whose code a file is.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "symbol/roles/php.h"
#include "symbol/roles/ruby.h"
#include "target/interpreter/ruby/code.h"
#include "target/interpreter/ruby/layout.h"
#include "target/interpreter/ruby/objects.h"

enum { POSITIONS = 3000, INDEX_WORDS = 6 + 10 * ((POSITIONS + 511) / 512) };

/* This process, except for its first page. */
static bool read_own(memory_t *self, uint64_t address, void *out, size_t size) {
  (void)self;
  if (address < 4096) return false;
  memcpy(out, (const void *)(uintptr_t)address, size);
  return true;
}

static memory_t memory = {read_own};

static uint64_t at(const void *p) { return (uint64_t)(uintptr_t)p; }

/* Writes the index of the positions that begin a line, as struct succ_index_table of Ruby. */
static void write_index(const bool *begins, uint64_t *index) {
  uint32_t rank = 0;
  memset(index, 0, INDEX_WORDS * sizeof *index);
  for (int i = 0; i < POSITIONS; i++) {
    uint64_t *block = index + 6 + (i - 54) / 512 * 10;
    int bit = (i - 54) % 512;
    if (i >= 54 && bit == 0) block[0] = rank;
    if (i >= 54 && bit && bit % 64 == 0)
      block[1] |= (uint64_t)(rank - (uint32_t)block[0]) << (bit / 64 - 1) * 9;
    rank += begins[i];
    if (i < 54)
      index[i / 9] |= (uint64_t)rank << i % 9 * 7;
    else if (begins[i])
      block[2 + bit / 64] |= UINT64_C(1) << bit % 64;
  }
}

static void finds_lines(void **state) {
  (void)state;
  static bool begins[POSITIONS];
  static uint64_t words[POSITIONS], index[INDEX_WORDS];
  static struct { uint32_t line, other[2]; } lines[POSITIONS];
  const char *seed = getenv("SONDE_SEED");
  srand(seed ? (unsigned)atoi(seed) : 1);
  for (int round = 0; round < 20; round++) {
    uint32_t count = 0, expected[POSITIONS];
    int one_in = 1 + rand() % 70;
    for (int i = 0; i < POSITIONS; i++) {
      begins[i] = i == 0 || rand() % one_in == 0;
      if (begins[i]) lines[count++].line = (uint32_t)rand() % 100000;
      expected[i] = lines[count - 1].line;
    }
    write_index(begins, index);
    const ruby_code_t code = {.instructions = at(words),
                              .size = POSITIONS,
                              .lines = at(lines),
                              .lines_count = count,
                              .lines_index = at(index)};
    for (int i = 0; i < POSITIONS; i++)
      assert_int_equal(ruby_code_line(&memory, &code, at(words + i + 1)), expected[i]);
    assert_int_equal(ruby_code_line(&memory, &code, at(words)), expected[0]);
    assert_true(ruby_code_has(&code, at(words + POSITIONS)));
    assert_false(ruby_code_has(&code, at(words + POSITIONS) + 8));
    assert_false(ruby_code_has(&code, at(words) + 4));
    assert_false(ruby_code_has(&code, at(words) - 8));
  }
}

static void survives_damage(void **state) {
  (void)state;
  uint64_t word = 64;
  ruby_code_t code = {.instructions = 4096, .size = 4, .lines = 64, .lines_count = 1};
  assert_int_equal(ruby_code_line(&memory, &code, 4104), 0);
  code.lines_count = 2;
  assert_int_equal(ruby_code_line(&memory, &code, 4104), 0);
  assert_false(ruby_code_read(&memory, 64, &code));
  assert_false(ruby_word(&memory, 0, &word));
  assert_false(ruby_word(&memory, at(&word) + 1, &word));
  assert_null(ruby_text(&memory, at(&word)));
  assert_false(ruby_item(&memory, at(&word), 0, &word));
  assert_int_equal(ruby_symbols(&memory, 64), 0);
}

static void reads_strings_and_arrays(void **state) {
  (void)state;
  char text[2000];
  memset(text, 'x', sizeof text);
  const uint64_t inside[5] = {RUBY_STRING | 3 << 14, 0, UINT64_C(0x636261)};
  const uint64_t outside[5] = {RUBY_STRING | RUBY_FLAG_1, 0, sizeof text, at(text)};
  const uint64_t path[5] = {RUBY_ARRAY | RUBY_FLAG_1 | 2 << 15, 0, at(inside), at(outside)};
  const uint64_t list[5] = {RUBY_ARRAY, 0, 3, 0, at(inside)};
  uint64_t item;
  char *found = ruby_text(&memory, at(inside));
  assert_string_equal(found, "abc");
  free(found);
  found = ruby_text(&memory, at(outside));
  assert_int_equal(strlen(found), 1023);
  free(found);
  found = ruby_path(&memory, at(path));
  assert_string_equal(found, "abc");
  free(found);
  assert_true(ruby_item(&memory, at(list), 2, &item));
  assert_int_equal(item, inside[2]);
  assert_false(ruby_item(&memory, at(list), 3, &item));
  assert_false(ruby_item(&memory, at(path), 2, &item));
}

static void knows_whose_code_a_file_is(void **state) {
  (void)state;
  assert_int_equal(ruby_role("/usr/lib/ruby/3.1.0/set.rb"), SOURCE_STANDARD);
  assert_int_equal(ruby_role("<internal:kernel>"), SOURCE_STANDARD);
  assert_int_equal(ruby_role("/usr/lib/ruby/vendor_ruby/rubygems.rb"), SOURCE_PACKAGE);
  assert_int_equal(ruby_role("/var/lib/gems/3.1.0/gems/rack-3.0/lib/rack.rb"), SOURCE_PACKAGE);
  assert_int_equal(ruby_role("/home/me/lib/ruby/mine.rb"), SOURCE_APP);
  assert_int_equal(ruby_role("test.rb"), SOURCE_APP);
  assert_int_equal(ruby_role(NULL), SOURCE_APP);
  assert_int_equal(php_role("/srv/shop/vendor/acme/tax/src/Tax.php"), SOURCE_PACKAGE);
  assert_int_equal(php_role("/usr/share/php/Twig/Environment.php"), SOURCE_PACKAGE);
  assert_int_equal(php_role("/srv/shop/index.php"), SOURCE_APP);
  assert_int_equal(php_role(NULL), SOURCE_APP);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_lines),
      cmocka_unit_test(survives_damage),
      cmocka_unit_test(reads_strings_and_arrays),
      cmocka_unit_test(knows_whose_code_a_file_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
