/* SPDX-License-Identifier: MIT
 *
 * Perf maps and jitdump files: what they say, what is cut, what is damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "target/jit/parse.h"

static const char *name_at(jit_t *jit, uint64_t address) {
  const jit_symbol_t *symbol = jit_find(jit, address);
  return symbol ? symbol->name : "";
}

static size_t parse_map(jit_t *jit, const char *text, size_t size) {
  return jit_parse_perf_map(&(jit_parse_t){0}, jit, text, size);
}

/* Reads a dump as a file is read: from one offset to the next. */
static void parse_dump(jit_t *jit, const uint8_t *bytes, size_t size) {
  jit_parse_t state = {0};
  uint32_t pid;
  uint64_t at = size >= JIT_HEADER_BYTES ? jit_parse_header(&state, bytes, &pid) : 0, done = at;
  for (; done && at < size; at += done)
    done = jit_parse_records(&state, jit, bytes + at, size - at);
}

static void perf_map_is_read(void **state) {
  static const char text[] = "1000 20 first function\n"
                             "0x2000 0x10 with prefix\n"
                             "nonsense\n"
                             "3000 0 empty\n"
                             "1010 8 published later\n"
                             "ffffffffffffffff 20 wraps\n"
                             "5000 10 still being writ";
  jit_t *jit = jit_new();
  (void)state;
  assert_int_equal(parse_map(jit, text, sizeof text - 1), strrchr(text, '\n') + 1 - text);
  assert_string_equal(name_at(jit, 0x1000), "first function");
  assert_string_equal(name_at(jit, 0x100f), "first function");
  assert_string_equal(name_at(jit, 0x1010), "published later");
  assert_string_equal(name_at(jit, 0x1018), "first function");
  assert_string_equal(name_at(jit, 0x1020), "");
  assert_string_equal(name_at(jit, 0x200f), "with prefix");
  assert_string_equal(name_at(jit, 0x3000), "");
  assert_string_equal(name_at(jit, 0x5000), "");
  assert_string_equal(name_at(jit, 0xfff), "");
  jit_close(jit);
}

/* Code that is large holds any number of places where smaller code was before or is now. */
static void many_within_one(void **state) {
  char line[64];
  jit_t *jit = jit_new();
  (void)state;
  parse_map(jit, line, (size_t)sprintf(line, "10000 10000 large\n"));
  for (unsigned i = 0; i < 1000; i++) {
    int size = sprintf(line, "%x 8 small\n", 0x10000 + i * 16);
    parse_map(jit, line, (size_t)size);
  }
  assert_string_equal(name_at(jit, 0x10007), "small");
  assert_string_equal(name_at(jit, 0x13e78), "large"); /* between the last two */
  assert_string_equal(name_at(jit, 0x1ffff), "large");
  assert_string_equal(name_at(jit, 0x20000), "");
  jit_close(jit);
}

static size_t put_record(uint8_t *at, uint32_t kind, const uint64_t *words, size_t count,
                         const char *name, size_t code) {
  size_t size = 16 + 8 + count * 8 + (name ? strlen(name) + 1 : 0) + code;
  uint32_t head[2] = {kind, (uint32_t)size};
  memset(at, 0, size);
  memcpy(at, head, sizeof head);
  memcpy(at + 24, words, count * 8);
  if (name) strcpy((char *)at + 24 + count * 8, name);
  return size;
}

static size_t build_dump(uint8_t *out) {
  uint32_t header[10] = {0x4a695444, 1, 40, 62};
  size_t size = sizeof header;
  memcpy(out, header, sizeof header);
  size += put_record(out + size, 0, (uint64_t[]){0x1000, 0x1000, 0x40, 1}, 4, "one", 0x40);
  size += put_record(out + size, 4, (uint64_t[]){1, 2, 3}, 3, NULL, 0);
  size += put_record(out + size, 0, (uint64_t[]){0x2000, 0x2000, 0x40, 2}, 4, "two", 0x40);
  size += put_record(out + size, 1, (uint64_t[]){0x3000, 0x1000, 0x3000, 0x40, 1}, 5, NULL, 0);
  size += put_record(out + size, 0, (uint64_t[]){0x1000, 0x1000, 0x40, 3}, 4, "three", 0x40);
  return size;
}

static void dump_is_read(void **state) {
  uint8_t bytes[2048];
  size_t size = build_dump(bytes);
  (void)state;
  jit_t *jit = jit_new();
  parse_dump(jit, bytes, size - 0x20); /* the last code is not written yet */
  assert_string_equal(name_at(jit, 0x1000), "three");
  assert_string_equal(name_at(jit, 0x203f), "two");
  assert_string_equal(name_at(jit, 0x3010), "one");
  assert_string_equal(name_at(jit, 0x2040), "");
  jit_close(jit);
}

typedef struct seen {
  unsigned count;
  uint64_t earliest_ns, latest_ns;
} seen_t;

static void see(void *context, jit_symbol_t *symbol) {
  seen_t *seen = context;
  seen->count++;
  if (symbol->latest_ns < seen->latest_ns) return;
  seen->earliest_ns = symbol->earliest_ns;
  seen->latest_ns = symbol->latest_ns;
}

/* A map has the times of the reading, a dump its own. */
static void every_code_has_its_time(void **state) {
  static const char first[] = "1000 20 old\n", second[] = "1000 10 new\n";
  uint8_t bytes[2048];
  size_t size = build_dump(bytes);
  jit_t *jit = jit_new();
  seen_t seen = {0};
  (void)state;
  jit_set_times(jit, 0, 100);
  parse_map(jit, first, sizeof first - 1);
  jit_set_times(jit, 100, 200);
  parse_map(jit, second, sizeof second - 1);
  jit_find_all(jit, 0x1008, see, &seen);
  assert_int_equal(seen.count, 2);
  assert_int_equal(seen.earliest_ns, 100);
  assert_int_equal(seen.latest_ns, 200);
  jit_clear(jit);
  *(uint64_t *)(void *)(bytes + 40 + 8) = 777; /* of the first record */
  parse_dump(jit, bytes, size);
  const jit_symbol_t *moved = jit_find(jit, 0x3000);
  assert_string_equal(moved->name, "one");
  seen = (seen_t){0};
  jit_find_all(jit, 0x1000, see, &seen);
  assert_int_equal(seen.count, 2);
  assert_int_equal(seen.earliest_ns, 777);
  assert_int_equal(seen.latest_ns, 777);
  jit_close(jit);
}

/* A line that is longer than a piece of the file is skipped, also when it comes in parts. */
static void long_lines_are_skipped(void **state) {
  static char text[JIT_PIECE_BYTES];
  static const char rest[] = "1000 10 part of it\n2000 10 next\n";
  jit_parse_t parse = {0};
  jit_t *jit = jit_new();
  (void)state;
  memset(text, 'x', sizeof text);
  memcpy(text, "3000 10 ", 8);
  assert_int_equal(jit_parse_perf_map(&parse, jit, text, sizeof text), sizeof text);
  assert_int_equal(jit_parse_perf_map(&parse, jit, rest, sizeof rest - 1), sizeof rest - 1);
  assert_int_equal(jit_count(jit), 1);
  assert_string_equal(name_at(jit, 0x2000), "next");
  jit_close(jit);
}

static void damage_does_no_harm(void **state) {
  uint8_t good[2048];
  size_t size = build_dump(good);
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
  (void)state;
  printf("SONDE_SEED=%u\n", seed);
  srand(seed);
  for (int round = 0; round < 20000; round++) {
    size_t length = (size_t)rand() % (size + 1);
    uint8_t *bytes = malloc(length ? length : 1);
    memcpy(bytes, good, length);
    for (int i = rand() % 6; i > 0 && length; i--)
      bytes[(size_t)rand() % length] = (uint8_t)rand();
    jit_t *jit = jit_new();
    parse_dump(jit, bytes, length);
    parse_map(jit, (const char *)bytes, length);
    jit_find(jit, (uint64_t)rand());
    jit_close(jit);
    free(bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(perf_map_is_read),       cmocka_unit_test(many_within_one),
      cmocka_unit_test(dump_is_read),           cmocka_unit_test(every_code_has_its_time),
      cmocka_unit_test(long_lines_are_skipped), cmocka_unit_test(damage_does_no_harm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
