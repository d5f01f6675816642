/* SPDX-License-Identifier: MIT
 *
 * The agent's memcpy and its family against libc's, on random sizes, offsets and overlaps. They are
 * included under other names, so that both are here.
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

#define memcpy  agent_memcpy
#define memmove agent_memmove
#define memset  agent_memset
#define memcmp  agent_memcmp
#include "base/mem.c"
#undef memcpy
#undef memmove
#undef memset
#undef memcmp

enum { AREA = 8192, ROUNDS = 20000 };
static uint8_t ours[AREA], theirs[AREA];

static size_t random_size(void) {
  size_t limit = (size_t[]){8, 40, 300, AREA / 2}[rand() % 4];
  return (size_t)rand() % (limit + 1);
}

static void fill(void) {
  for (int i = 0; i < AREA; i++)
    ours[i] = theirs[i] = (uint8_t)rand();
}

static void copies_agree(void **state) {
  (void)state;
  for (int i = 0; i < ROUNDS; i++) {
    if (i % 100 == 0) fill();
    size_t size = random_size();
    size_t from = (size_t)rand() % (AREA - size), to = (size_t)rand() % (AREA - size);
    if (i & 1) /* close together: they overlap */
      to = from < 20 ? from : from - (size_t)(rand() % 20);
    bool apart = to + size <= from || from + size <= to;
    if (apart && i % 3 == 0) {
      assert_ptr_equal(agent_memcpy(ours + to, ours + from, size), ours + to);
      memcpy(theirs + to, theirs + from, size);
    } else {
      assert_ptr_equal(agent_memmove(ours + to, ours + from, size), ours + to);
      memmove(theirs + to, theirs + from, size);
    }
    assert_memory_equal(ours, theirs, AREA);
  }
}

static void sets_agree(void **state) {
  (void)state;
  fill();
  for (int i = 0; i < ROUNDS / 10; i++) {
    size_t size = random_size(), to = (size_t)rand() % (AREA - size);
    int byte = rand() - RAND_MAX / 2;
    assert_ptr_equal(agent_memset(ours + to, byte, size), ours + to);
    memset(theirs + to, byte, size);
    assert_memory_equal(ours, theirs, AREA);
  }
}

static int sign(int x) { return (x > 0) - (x < 0); }

static void comparisons_agree(void **state) {
  (void)state;
  fill();
  for (int i = 0; i < ROUNDS; i++) {
    size_t size = random_size(), a = (size_t)rand() % (AREA - size), place = a + size / 2;
    uint8_t kept = ours[place];
    if (size && i & 1) ours[place] = (uint8_t)rand();
    assert_int_equal(sign(agent_memcmp(ours + a, theirs + a, size)),
                     sign(memcmp(ours + a, theirs + a, size)));
    ours[place] = kept;
  }
}

int main(void) {
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
  printf("SONDE_SEED=%u\n", seed);
  srand(seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_agree),
      cmocka_unit_test(sets_agree),
      cmocka_unit_test(comparisons_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
