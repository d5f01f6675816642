/* SPDX-License-Identifier: MIT
 *
 * The symbol index compared with a slow and obvious oracle on random facts; damaged indexes; the
 * cache folder with several processes. SONDE_SEED repeats a run.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "symbol/index/cache.h"
#include "symbol/index/index.h"

#define WANT (INDEX_LINES | INDEX_INLINES | INDEX_RAW)

static uint64_t state;

static uint64_t pick(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

static void seed(void) {
  const char *given = getenv("SONDE_SEED");
  state = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 2654435761u + 1;
  printf("SONDE_SEED=%llu\n", (unsigned long long)state);
  if (!state) state = 1;
}

/* ---- random facts ------------------------------------------------------------------------- */

#define CODE_LOW 0x1000u

typedef struct made {
  facts_t facts;
  scope_t *scopes; /* copies: encoding sorts the facts */
  scope_range_t *ranges;
  line_row_t *rows;
  function_symbol_t *symbols;
  size_t scope_count, range_count, row_count, symbol_count;
  uint64_t end;
} made_t;

static uint32_t text(facts_t *facts, const char *format, uint64_t number) {
  char buffer[64];
  uint32_t offset;
  snprintf(buffer, sizeof buffer, format, (unsigned long long)number);
  assert_true(strings_add(&facts->strings, buffer, &offset));
  return offset;
}

static void make_inlined(facts_t *facts, uint64_t low, uint64_t high, uint32_t parent, int depth) {
  uint64_t at = low;
  while (depth < 6 && at + 2 < high && pick(3)) {
    uint64_t from = at + pick((high - at) / 2 + 1), to = from + 1 + pick(high - from);
    if (to > high) to = high;
    uint32_t scope;
    scope_t inlined = {.parent = parent + 1,
                       .name = pick(10) ? text(facts, "inlined%llu", pick(50)) : 0,
                       .call_file = text(facts, "/src/file%llu.h", pick(9)),
                       .call_line = (uint32_t)pick(5000),
                       .call_column = (uint32_t)pick(100)};
    assert_true(facts_scope(facts, &inlined, &scope));
    assert_true(facts_range(facts, from, to, scope));
    make_inlined(facts, from, to, scope, depth + 1);
    at = to;
  }
}

static void make_rows(facts_t *facts, uint64_t low, uint64_t high, uint32_t unit) {
  for (uint64_t at = low; at < high; at += 1 + pick(12)) {
    line_row_t row = {.address = at,
                      .file = text(facts, "/src/file%llu.c", pick(9)),
                      .line = (uint32_t)pick(100000),
                      .column = (uint32_t)pick(90),
                      .unit = unit};
    assert_true(facts_row(facts, &row));
  }
  line_row_t end = {.address = high, .unit = unit, .end = 1};
  assert_true(facts_row(facts, &end));
}

static void make_some(made_t *made, size_t functions) {
  facts_t *facts = &made->facts;
  assert_true(facts_init(facts));
  uint64_t at = CODE_LOW;
  for (size_t i = 0; i < functions; i++) {
    uint64_t low = at + pick(40), high = low + 1 + pick(pick(10) ? 200 : 20000);
    uint32_t scope;
    scope_t function = {.name = text(facts, "_Z9function%llui", i), .entry = low};
    if (pick(8)) {
      assert_true(facts_scope(facts, &function, &scope));
      assert_true(facts_range(facts, low, high, scope));
      make_inlined(facts, low, high, scope, 0);
    }
    if (pick(8)) make_rows(facts, low, high, 0);
    if (pick(8)) {
      function_symbol_t symbol = {.address = low, .size = high - low, .yields = pick(2) != 0};
      symbol.name = text(facts, "symbol%llu", i);
      assert_true(facts_symbol(facts, &symbol));
    }
    at = high;
  }
  made->end = at;
#define COPY(field, count)                                                                         \
  made->count = facts->count;                                                                      \
  made->field = malloc((facts->count + 1) * sizeof *facts->field);                                 \
  if (facts->count) memcpy(made->field, facts->field, facts->count * sizeof *facts->field)
  COPY(scopes, scope_count);
  COPY(ranges, range_count);
  COPY(rows, row_count);
  COPY(symbols, symbol_count);
#undef COPY
}

static void make(made_t *made) { make_some(made, 1 + pick(200)); }

static void unmake(made_t *made) {
  facts_free(&made->facts);
  free(made->scopes);
  free(made->ranges);
  free(made->rows);
  free(made->symbols);
}

static index_t *encode(made_t *made, uint64_t fingerprint, uint8_t **bytes, size_t *size) {
  index_origin_t origin = {
      .fingerprint = fingerprint, .code_low = 0, .code_high = made->end + 100, .has_symbols = 1};
  *bytes = index_encode(&made->facts, &origin, size);
  assert_non_null(*bytes);
  index_t *index = index_from_bytes(*bytes, *size, false);
  assert_non_null(index);
  return index;
}

/* ---- the oracle --------------------------------------------------------------------------- */

static int depth_of(const made_t *made, uint32_t scope) {
  int depth = 0;
  for (; made->scopes[scope].parent; scope = made->scopes[scope].parent - 1)
    depth++;
  return depth;
}

/* The deepest scope with a range that contains ADDRESS. Scopes of equal depth do not overlap. */
static long deepest(const made_t *made, uint64_t address) {
  long found = -1;
  for (size_t i = 0; i < made->range_count; i++) {
    const scope_range_t *range = &made->ranges[i];
    if (range->low <= address && address < range->high &&
        (found < 0 || depth_of(made, range->scope) > depth_of(made, (uint32_t)found)))
      found = range->scope;
  }
  return found;
}

static const line_row_t *row_of(const made_t *made, uint64_t address) {
  for (size_t i = 0; i + 1 < made->row_count; i++)
    if (!made->rows[i].end && made->rows[i].address <= address &&
        address < made->rows[i + 1].address)
      return &made->rows[i];
  return NULL;
}

static const function_symbol_t *symbol_of(const made_t *made, uint64_t address) {
  for (size_t i = 0; i < made->symbol_count; i++)
    if (address - made->symbols[i].address < made->symbols[i].size) return &made->symbols[i];
  return NULL;
}

static void assert_text(const made_t *made, const char *given, uint32_t expected) {
  if (expected)
    assert_string_equal(given, strings_at(&made->facts.strings, expected));
  else
    assert_null(given);
}

static void check_answer(const made_t *made, uint64_t address, const symbol_frame_t *frames,
                         int count) {
  long scope = deepest(made, address);
  const line_row_t *row = row_of(made, address);
  const function_symbol_t *symbol = symbol_of(made, address);
  if (!row && scope < 0 && !symbol) {
    assert_int_equal(count, 0);
    return;
  }
  assert_int_equal(count, scope < 0 ? 1 : depth_of(made, (uint32_t)scope) + 1);
  assert_text(made, frames[0].file, row ? row->file : 0);
  assert_int_equal(frames[0].line, row ? row->line : 0);
  assert_int_equal(frames[0].column, row ? row->column : 0);
  for (int i = 0; i < count; i++) {
    bool outermost = i == count - 1;
    const scope_t *at = scope < 0 ? NULL : &made->scopes[scope];
    bool by_symbol = outermost && symbol && !(symbol->yields && at);
    assert_text(made, frames[i].raw, by_symbol ? symbol->name : at ? at->name : 0);
    assert_int_equal(frames[i].inlined, !outermost);
    assert_int_equal(frames[i].has_offset, outermost && (by_symbol || at));
    if (frames[i].has_offset)
      assert_int_equal(frames[i].function_offset,
                       address - (by_symbol ? symbol->address : at->entry));
    if (outermost) break;
    assert_text(made, frames[i + 1].file, at->call_file);
    assert_int_equal(frames[i + 1].line, at->call_line);
    scope = (long)at->parent - 1;
  }
}

static void check_address(const made_t *made, index_t *index, uint64_t address) {
  symbol_frame_t frames[SYMBOL_FRAMES_MAX];
  int count = index_lookup(index, address, WANT, frames, SYMBOL_FRAMES_MAX);
  check_answer(made, address, frames, count);
}

static void equals_the_oracle(void **unused) {
  (void)unused;
  for (int round = 0; round < 60; round++) {
    made_t made;
    uint8_t *bytes;
    size_t size;
    make(&made);
    index_t *index = encode(&made, 1, &bytes, &size);
    for (int i = 0; i < 400; i++) { /* a new index has packed symbols, which are soon unpacked */
      uint64_t address = pick(8) ? CODE_LOW + pick(made.end - CODE_LOW) : pick(made.end + 99);
      index_t *opened = index_from_bytes(bytes, size, false);
      check_address(&made, index, address);
      check_address(&made, opened, address);
      index_close(opened);
    }
    assert_false(index_is_bad(index));
    index_close(index);
    free(bytes);
    unmake(&made);
  }
}

/* A changed bit is detected, or lies in padding, which no look-up reads. */
static void damage_is_detected(void **unused) {
  (void)unused;
  made_t made;
  uint8_t *bytes;
  size_t size;
  make_some(&made, 12);
  index_close(encode(&made, 1, &bytes, &size));
  int noticed = 0, rounds = 1000;
  for (int round = 0; round < rounds; round++) {
    size_t at = pick(size);
    uint8_t bit = (uint8_t)(1 << pick(8));
    bytes[at] ^= bit;
    index_t *index = index_from_bytes(bytes, size, false);
    symbol_frame_t frames[SYMBOL_FRAMES_MAX];
    uint64_t step = (made.end - CODE_LOW) / 200 + 1;
    for (uint64_t address = CODE_LOW; index && address < made.end; address += step) {
      int count = index_lookup(index, address, WANT, frames, SYMBOL_FRAMES_MAX);
      if (index_is_bad(index)) break;
      check_answer(&made, address, frames, count); /* a second look-up may find the damage */
    }
    noticed += !index || index_is_bad(index);
    index_close(index);
    bytes[at] ^= bit;
  }
  printf("%d of %d flipped bits noticed, the others in no answer\n", noticed, rounds);
  assert_true(noticed > rounds / 2);
  for (size_t cut = 0; cut < size; cut += 1 + size / 97)
    assert_null(index_from_bytes(bytes, cut, false));
  free(bytes);
  unmake(&made);
}

static void symbols_of_unknown_size(void **unused) {
  (void)unused;
  facts_t facts;
  assert_true(facts_init(&facts));
  const function_symbol_t symbols[] = {
      {.address = 0x1000, .size = 0x100, .name = text(&facts, "sized", 0)},
      {.address = 0x1080, .limit = 0x3000, .yields = 1, .name = text(&facts, "label", 0)},
      {.address = 0x1200, .limit = 0x3000, .yields = 1, .name = text(&facts, "open", 0)},
      {.address = 0x1300, .limit = 0x1400, .yields = 1, .name = text(&facts, "last", 0)},
      {.address = 0x2000, .size = 0x10, .name = text(&facts, "small_alias", 0)},
      {.address = 0x2000, .size = 0x20, .name = text(&facts, "first_alias", 0)},
      {.address = 0x2000, .size = 0x20, .name = text(&facts, "last_alias", 0)},
  };
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
    assert_true(facts_symbol(&facts, &symbols[i]));
  index_origin_t origin = {.code_high = 0x10000, .has_symbols = 1};
  size_t size;
  uint8_t *bytes = index_encode(&facts, &origin, &size);
  index_t *index = index_from_bytes(bytes, size, true);
  assert_non_null(index);
  static const struct {
    uint64_t address;
    const char *name;
  } cases[] = {{0xfff, NULL},    {0x1000, "sized"},      {0x10ff, "sized"},      {0x1100, NULL},
               {0x1200, "open"}, {0x12ff, "open"},       {0x1300, "last"},       {0x13ff, "last"},
               {0x1400, NULL},   {0x2000, "last_alias"}, {0x201f, "last_alias"}, {0x2020, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    symbol_frame_t frame;
    int count = index_lookup(index, cases[i].address, WANT, &frame, 1);
    assert_int_equal(count, cases[i].name != NULL);
    if (count) assert_string_equal(frame.function, cases[i].name);
  }
  index_close(index);
  facts_free(&facts);
}

/* ---- the cache folder --------------------------------------------------------------------- */

static char home[] = "/tmp/sonde-cache-XXXXXX";

static int make_home(void **unused) {
  (void)unused;
  seed();
  if (!mkdtemp(home)) return -1;
  return setenv("XDG_CACHE_HOME", home, 1);
}

static int remove_home(void **unused) {
  (void)unused;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", home);
  return system(command);
}

static void set_used(const char *key, time_t when) {
  char path[INDEX_CACHE_PATH_MAX];
  assert_true(index_cache_path(key, path));
  struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
  assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void keeps_and_evicts(void **unused) {
  (void)unused;
  made_t made;
  uint8_t *bytes;
  size_t size;
  index_cache_entry_t *entries;
  make(&made);
  index_close(encode(&made, 7, &bytes, &size));
  assert_null(index_cache_open("aa", 7));
  index_cache_store("aa", bytes, size);
  index_t *index = index_cache_open("aa", 7);
  assert_non_null(index);
  check_address(&made, index, CODE_LOW + 50);
  index_cache_store("bb", bytes, size);
  index_cache_store("cc", bytes, size);
  set_used("bb", 1000);
  set_used("aa", 2000);
  index_close(index_cache_open("bb", 7)); /* used again: now aa is the oldest */
  assert_int_equal(index_cache_list(&entries), 3);
  assert_string_equal(entries[0].key, "aa");
  assert_int_equal(entries[0].size_bytes, size);
  free(entries);
  assert_true(index_cache_set_limit(2 * size));
  assert_int_equal(index_cache_limit(), 2 * size);
  assert_int_equal(index_cache_shrink(2 * size), 1);
  assert_null(index_cache_open("aa", 7));
  check_address(&made, index, CODE_LOW + 60); /* still mapped */
  index_close(index);
  assert_null(index_cache_open("bb", 8)); /* made from other files: removed */
  assert_null(index_cache_open("bb", 7));
  assert_true(index_cache_set_limit(size - 1));
  index_cache_store("dd", bytes, size); /* exceeds the limit of the cache */
  assert_null(index_cache_open("dd", 7));
  index_cache_shrink(0);
  assert_int_equal(index_cache_list(&entries), 0);
  free(entries);
  assert_true(index_cache_set_limit(INDEX_CACHE_LIMIT_DEFAULT));
  free(bytes);
  unmake(&made);
}

static void keeps_what_was_spent(void **unused) {
  (void)unused;
  assert_int_equal(index_cache_spent("ff"), 0);
  index_cache_spend("ff", 5);
  index_cache_spend("ff", 7);
  index_cache_spend("gg", UINT64_MAX - 1);
  index_cache_spend("gg", 2); /* no overflow */
  assert_int_equal(index_cache_spent("ff"), 12);
  assert_int_equal(index_cache_spent("gg"), UINT64_MAX - 1);
  index_cache_forget_spent("ff");
  assert_int_equal(index_cache_spent("ff"), 0);
  index_cache_shrink(1); /* removes indexes alone */
  assert_int_equal(index_cache_spent("gg"), UINT64_MAX - 1);
  index_cache_shrink(0);
  assert_int_equal(index_cache_spent("gg"), 0);
}

static void damaged_files_are_removed(void **unused) {
  (void)unused;
  made_t made;
  uint8_t *bytes;
  size_t size;
  char path[INDEX_CACHE_PATH_MAX];
  make(&made);
  index_close(encode(&made, 7, &bytes, &size));
  index_cache_store("ee", bytes, size);
  assert_true(index_cache_path("ee", path));
  assert_int_equal(truncate(path, (off_t)size / 2), 0);
  assert_null(index_cache_open("ee", 7));
  assert_int_not_equal(access(path, F_OK), 0);
  free(bytes);
  unmake(&made);
}

/* Concurrent writers, readers and an evicter: a reader sees a complete index or none. */
static void processes_share_the_folder(void **unused) {
  (void)unused;
  made_t made;
  uint8_t *bytes;
  size_t size;
  make(&made);
  index_close(encode(&made, 9, &bytes, &size));
  for (char key[] = "k0"; key[1] < '3'; key[1]++) /* a reader may be done before a writer begins */
    index_cache_store(key, bytes, size);
  pid_t children[6];
  for (int i = 0; i < 6; i++) {
    if ((children[i] = fork()) != 0) continue;
    int opened = 0;
    for (int round = 0; round < 300; round++) {
      char key[8];
      snprintf(key, sizeof key, "k%d", round % 3);
      if (i < 3)
        index_cache_store(key, bytes, size);
      else if (i == 5 && round % 10 == 0)
        index_cache_shrink(size);
      index_t *index = index_cache_open(key, 9);
      symbol_frame_t frames[8];
      if (!index) continue;
      opened++;
      index_lookup(index, CODE_LOW + pick(made.end - CODE_LOW), WANT, frames, 8);
      if (index_is_bad(index)) _exit(1);
      index_close(index);
    }
    _exit(opened > 0 ? 0 : 2);
  }
  for (int i = 0; i < 6; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_int_equal(status, 0);
  }
  free(bytes);
  unmake(&made);
}

/* Processes of different pid namespaces may have the same pid and share a home folder. */
static void keeps_temporary_files_of_others(void **unused) {
  (void)unused;
  static const char *const forms[] = {"%s/sonde/symbols/ff.%d.new", "%s/sonde/symbols/ff.%d-0.new"};
  static const char theirs[] = "half an index";
  char path[INDEX_CACHE_PATH_MAX], found[sizeof theirs];
  made_t made;
  uint8_t *bytes;
  size_t size;
  make(&made);
  index_close(encode(&made, 9, &bytes, &size));
  index_cache_store("ff", bytes, size); /* creates the folder */
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, forms[i], home, (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, theirs, sizeof theirs), sizeof theirs);
    close(fd);
  }
  index_cache_store("ff", bytes, size);
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, forms[i], home, (int)getpid());
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, found, sizeof found), sizeof theirs);
    assert_string_equal(found, theirs);
    close(fd);
    unlink(path);
  }
  index_t *index = index_cache_open("ff", 9);
  assert_non_null(index);
  index_close(index);
  free(bytes);
  unmake(&made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_the_oracle),
      cmocka_unit_test(damage_is_detected),
      cmocka_unit_test(symbols_of_unknown_size),
      cmocka_unit_test(keeps_and_evicts),
      cmocka_unit_test(keeps_what_was_spent),
      cmocka_unit_test(damaged_files_are_removed),
      cmocka_unit_test(processes_share_the_folder),
      cmocka_unit_test(keeps_temporary_files_of_others),
  };
  return cmocka_run_group_tests(tests, make_home, remove_home);
}
