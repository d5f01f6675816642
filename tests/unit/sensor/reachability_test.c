/* SPDX-License-Identifier: MIT
 *
 * The leak search (sensor/leaks/reachability.h) against a brute-force search that follows every
 * pointer of every block, on random graphs in synthetic memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "skip.h"
#include "os/os.h"
#include "sensor/leaks/reachability.h"

#define BLOCKS 600
#define BASE   UINT64_C(0x100000000)

static uint8_t *memory;
static uint64_t memory_size;
static uint64_t state;

static uint64_t chance(uint64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % below;
}

static const void *read_made_up(void *context, uint64_t address, uint64_t size, void *buffer,
                                uint64_t *got) {
  (void)context;
  (void)buffer;
  *got = 0;
  if (address < BASE || address >= BASE + memory_size) return NULL;
  uint64_t left = BASE + memory_size - address;
  *got = size < left ? size : left;
  return memory + (address - BASE);
}

static uint64_t *word_at(uint64_t address) {
  return (uint64_t *)(void *)(memory + (address - BASE));
}

/* Blocks of all sizes with gaps between them, some of them far. */
static uint32_t lay_out(leaks_block_t *blocks) {
  uint64_t at = 16;
  uint32_t n = 0;
  for (; n < BLOCKS; n++) {
    uint64_t size = chance(12) ? chance(120) : chance(30000);
    if (chance(100) == 0) at += 3 << 20;
    if (at + size + 64 > memory_size) break;
    blocks[n] = (leaks_block_t){.address = BASE + at, .size = size};
    at += ALIGN_UP(size + 1, UINT64_C(16)) + 16 * chance(3);
  }
  for (uint64_t i = 0; i < memory_size / 8; i++)
    ((uint64_t *)(void *)memory)[i] = 0;
  for (uint32_t i = 0; i < n; i++)
    for (uint64_t w = ALIGN_UP(blocks[i].address, UINT64_C(8));
         w + 8 <= blocks[i].address + blocks[i].size; w += 8) {
      const leaks_block_t *to = &blocks[chance(n)];
      if (chance(12) == 0) *word_at(w) = to->address + (to->size ? chance(to->size) : 0);
      if (chance(50) == 0) *word_at(w) = to->address + to->size + (to->size == 0);
    }
  return n;
}

static uint32_t holder_of(const leaks_block_t *blocks, uint32_t n, uint64_t value) {
  for (uint32_t i = 0; i < n; i++)
    if (value - blocks[i].address < (blocks[i].size ? blocks[i].size : 1)) return i;
  return REACHABILITY_NONE;
}

/* Everything that FROM leads to is set in SEEN. */
static void follow(const leaks_block_t *blocks, uint32_t n, uint32_t from, bool *seen) {
  static uint32_t waiting[BLOCKS];
  uint32_t count = 0;
  if (!seen[from]) waiting[count++] = from;
  seen[from] = true;
  while (count) {
    const leaks_block_t *b = &blocks[waiting[--count]];
    for (uint64_t w = b->address; w + 8 <= b->address + b->size; w += 8) {
      uint32_t to = *word_at(w) ? holder_of(blocks, n, *word_at(w)) : REACHABILITY_NONE;
      if (to == REACHABILITY_NONE || seen[to]) continue;
      seen[to] = true;
      waiting[count++] = to;
    }
  }
}

/* Whether block I leads to itself through another block. */
static bool is_on_a_cycle(const leaks_block_t *blocks, uint32_t n, uint32_t i) {
  static bool seen[BLOCKS];
  memset(seen, 0, sizeof seen);
  for (uint64_t w = blocks[i].address; w + 8 <= blocks[i].address + blocks[i].size; w += 8) {
    uint32_t to = *word_at(w) ? holder_of(blocks, n, *word_at(w)) : REACHABILITY_NONE;
    if (to != REACHABILITY_NONE && to != i) follow(blocks, n, to, seen);
  }
  return seen[i];
}

static void check(const leaks_block_t *blocks, uint32_t n, const bool *reached) {
  static bool led_to[BLOCKS], pointed[BLOCKS];
  memset(led_to, 0, sizeof led_to);
  memset(pointed, 0, sizeof pointed);
  int cycles = 0;
  for (uint32_t i = 0; i < n; i++) {
    for (uint64_t w = blocks[i].address; !reached[i] && w + 8 <= blocks[i].address + blocks[i].size;
         w += 8) {
      uint32_t to = holder_of(blocks, n, *word_at(w));
      if (to != REACHABILITY_NONE && to != i) pointed[to] = true;
    }
    bool head = blocks[i].verdict == LEAKS_LEAKED || blocks[i].verdict == LEAKS_CYCLE;
    if (head) follow(blocks, n, i, led_to);
  }
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(blocks[i].verdict == LEAKS_REACHED, reached[i]);
    if (reached[i]) continue;
    assert_int_equal(blocks[i].verdict == LEAKS_LEAKED, !pointed[i]);
    assert_true(led_to[i]); /* nothing that is lost goes without a head */
    if (blocks[i].verdict == LEAKS_CYCLE && cycles++ < 4) assert_true(is_on_a_cycle(blocks, n, i));
    if (blocks[i].verdict == LEAKS_INDIRECT) {
      const leaks_block_t *owner = &blocks[blocks[i].owner];
      assert_true(owner->verdict == LEAKS_LEAKED || owner->verdict == LEAKS_CYCLE);
    }
  }
}

static void random_graphs(void **unused) {
  (void)unused;
  static leaks_block_t blocks[BLOCKS];
  static bool reached[BLOCKS];
  memory_size = 24u << 20;
  memory = os_map(memory_size);
  const char *given = getenv("SONDE_SEED");
  state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
  print_message("SONDE_SEED=%llu\n", (unsigned long long)state);
  for (int round = 0; round < repeats(30); round++) {
    uint32_t n = lay_out(blocks);
    reachability_t g;
    memset(reached, 0, sizeof reached);
    assert_true(reachability_open(&g, blocks, n, read_made_up, NULL));
    for (int i = 0; i < 4; i++) {
      uint32_t root = (uint32_t)chance(n);
      uint64_t value = blocks[root].address + (blocks[root].size ? chance(blocks[root].size) : 0);
      assert_int_equal(reachability_find(&g, value), root);
      reachability_word(&g, value, 1, LEAKS_BY_REGISTER);
      follow(blocks, n, root, reached);
    }
    reachability_judge(&g);
    check(blocks, n, reached);
  }
  os_unmap(memory, memory_size);
}

/* Each block of LINKS points to the block whose number it is. */
static void judge_links(leaks_block_t *blocks, const int *links, uint32_t n) {
  reachability_t g;
  memory_size = 65536;
  memory = os_map(memory_size);
  for (uint32_t i = 0; i < n; i++)
    blocks[i] = (leaks_block_t){.address = BASE + 64 * (i + 1), .size = 48};
  for (uint32_t i = 0; i < n; i++)
    if (links[i] >= 0) *word_at(blocks[i].address + 8) = blocks[links[i]].address;
  assert_true(reachability_open(&g, blocks, n, read_made_up, NULL));
  reachability_judge(&g);
  os_unmap(memory, memory_size);
}

/* What a cycle leads to is no cycle, wherever it is; nor is a block that points to itself. */
static void tails_of_cycles(void **unused) {
  leaks_block_t b[6];
  (void)unused;
  judge_links(b, (const int[]){1, -1, 3, 4, 2, 5}, 6);
  assert_int_equal(b[0].verdict, LEAKS_LEAKED);
  assert_int_equal(b[1].verdict, LEAKS_INDIRECT);
  assert_int_equal(b[2].verdict, LEAKS_CYCLE);
  assert_int_equal(b[3].verdict, LEAKS_INDIRECT);
  assert_int_equal(b[5].verdict, LEAKS_LEAKED);
  /* 2 and 3 are a cycle, 2 also leads to 0, and 0 to 1 */
  memset(b, 0, sizeof b);
  reachability_t g;
  memory_size = 65536;
  memory = os_map(memory_size);
  for (uint32_t i = 0; i < 4; i++)
    b[i] = (leaks_block_t){.address = BASE + 64 * (i + 1), .size = 48};
  *word_at(b[2].address) = b[3].address;
  *word_at(b[3].address) = b[2].address;
  *word_at(b[2].address + 8) = b[0].address;
  *word_at(b[0].address) = b[1].address;
  assert_true(reachability_open(&g, b, 4, read_made_up, NULL));
  reachability_judge(&g);
  os_unmap(memory, memory_size);
  assert_int_equal(b[2].verdict, LEAKS_CYCLE);
  for (int i = 0; i < 4; i++)
    if (i != 2) {
      assert_int_equal(b[i].verdict, LEAKS_INDIRECT);
      assert_int_equal(b[i].owner, 2);
    }
}

static uint64_t told_where[8];
static uint32_t told_count;
static void note(void *context, uint64_t where, uint64_t value, leaks_holder_t holder,
                 uint32_t index) {
  (void)context;
  (void)value;
  (void)holder;
  (void)index;
  if (told_count < 8) told_where[told_count] = where;
  told_count++;
}

static void referrers_are_told(void **unused) {
  (void)unused;
  leaks_block_t blocks[] = {{.address = BASE + 16, .size = 32}, {.address = BASE + 64, .size = 8}};
  memory_size = 4096;
  memory = os_map(memory_size);
  *word_at(BASE + 24) = BASE + 71;
  *word_at(BASE + 512) = BASE + 64;
  reachability_t g;
  assert_true(reachability_open(&g, blocks, 2, read_made_up, NULL));
  reachability_list_referrers(&g, 1, note);
  (void)reachability_root(&g, BASE + 500, BASE + 600, LEAKS_BY_DATA, 0);
  reachability_search_blocks(&g);
  assert_int_equal(told_count, 2);
  assert_int_equal(told_where[0], BASE + 512);
  assert_int_equal(told_where[1], BASE + 24);
  os_unmap(memory, memory_size);
}

static void disorder_is_refused(void **unused) {
  (void)unused;
  leaks_block_t overlap[] = {{.address = BASE, .size = 32}, {.address = BASE + 31, .size = 8}};
  leaks_block_t wraps[] = {{.address = UINT64_MAX - 8, .size = 64}};
  leaks_block_t far[] = {{.address = 4096, .size = 8},
                         {.address = UINT64_C(1) << 62, .size = UINT64_C(1) << 61}};
  reachability_t g;
  assert_false(reachability_open(&g, overlap, 2, read_made_up, NULL));
  assert_false(reachability_open(&g, wraps, 1, read_made_up, NULL));
  assert_false(reachability_open(&g, far, 2, read_made_up, NULL));
  assert_true(reachability_open(&g, far, 0, read_made_up, NULL));
  assert_int_equal(reachability_find(&g, 5), REACHABILITY_NONE);
  reachability_judge(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tails_of_cycles), cmocka_unit_test(random_graphs),
      cmocka_unit_test(referrers_are_told), cmocka_unit_test(disorder_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
