/* SPDX-License-Identifier: MIT
 *
 * The last component of linker names, which g++, clang++ and rustc wrote.
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

#include "base/link_name.h"

typedef struct last {
  const char *name, *component; /* NULL: none */
} last_t;

static const last_t cases[] = {
    {"_ZN4shop10checkpointEi", "checkpoint"},
    {"_ZNK3net6Socket4readEv", "read"},
    {"_ZNKR3net6Socket4readEv", "read"},
    {"_ZN3net6Socket4readIiEEvT_", "read"},
    {"_ZN3net5parseERKNS_4TextE", "parse"}, /* an argument is no component */
    {"_ZN3netL5innerEi", "inner"},
    {"_ZN3net4textB5cxx11Ev", "text"},
    {"_ZN12_GLOBAL__N_14anonEi", "anon"},
    {"_ZN3net4TextC2ERKS0_", "Text"},
    {"_ZN4shop10checkpointEi.constprop.0", "checkpoint"},
    {"_ZNSt6vectorIiSaIiEE9push_backEOi", "push_back"},
    {"_ZN1WIiE3getEv", "get"},
    {"_ZN1WILi10EE3getEv", "get"},
    {"_ZN1WIL4Mode2EE3getEv", "get"},
    {"_ZN1WILN3net4ModeE2EE3getEv", "get"},
    {"_ZN1WIA10_cE3getEv", "get"},
    {"_ZN1WIJidEE3getEv", "get"},
    {"_ZN1WIFivEE3getEv", "get"},
    {"_ZN1WIDnE3getEv", "get"},
    {"_ZN1WIN3net4TextEE3getEv", "get"},
    {"_ZN1WIZ4mainEUlvE_E3getEv", "get"},
    {"_ZN1WIZ4mainEUliE0_E3getEv", "get"},
    {"_ZN4bank6settle17h0123456789abcdefE", "settle"},
    {"_ZN4bank4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
     "_$u7b$$u7b$closure$u7d$$u7d$"},
    {"_ZN3net4TextD1Ev", NULL},
    {"_ZN1BclEi", NULL},
    {"_ZN1BcvbEv", NULL},
    {"_ZZ3runvENKUliE_clEi", NULL},
    {"_Z7computei", NULL},
    {"compute", NULL},
    {"_ZN", NULL},
    {"_ZN4shop", NULL},
    {"_ZN99shopE", NULL},
    {"_ZN1WI", NULL},
    {"_ZN99999999999999999999999shopE", NULL},
    {"", NULL}};
enum { CASES = sizeof cases / sizeof *cases };

static void components_are_found(void **state) {
  (void)state;
  for (size_t i = 0; i < CASES; i++) {
    uint32_t size = 0;
    const char *last = link_name_last(cases[i].name, &size), *wanted = cases[i].component;
    if (!last != !wanted || (wanted && (size != strlen(wanted) || memcmp(last, wanted, size) != 0)))
      fail_msg("%s: '%.*s', not '%s'", cases[i].name, last ? (int)size : 0, last ? last : "",
               wanted ? wanted : "");
  }
}

static void globs_match_the_component(void **state) {
  (void)state;
  assert_true(link_name_matches(">checkpoint", "_ZN4shop10checkpointEi"));
  assert_true(link_name_matches(">check*", "_ZN4shop10checkpointEi"));
  assert_false(link_name_matches(">check", "_ZN4shop10checkpointEi"));
  assert_false(link_name_matches(">shop", "_ZN4shop10checkpointEi"));
  assert_false(link_name_matches(">Text", "_ZN3net5parseERKNS_4TextE"));
  assert_true(link_name_matches("comp*", "compute"));
  assert_false(link_name_matches(">compute", "compute"));
}

/* Pieces in any order, and groups in groups. */
static void any_name_ends(void **state) {
  (void)state;
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  printf("SONDE_SEED=%u\n", seed);
  srand(seed);
  static const char letters[] = "INLXJFZESTDUAClt0123456789_Ri";
  for (int i = 0; i < 100000; i++) {
    size_t length = 1 + (size_t)rand() % 40;
    char *name = malloc(3 + length + 1); /* of its size, for the sanitizer */
    assert_non_null(name);
    memcpy(name, "_ZN", 3);
    for (size_t k = 0; k < length; k++)
      name[3 + k] = letters[(size_t)rand() % (sizeof letters - 1)];
    name[3 + length] = 0;
    uint32_t size = 0;
    const char *last = link_name_last(name, &size);
    assert_true(!last || (last > name && last + size <= name + 3 + length));
    free(name);
  }
  char deep[4096] = "_ZN1WI";
  for (char letter = 'I'; letter; letter = letter == 'I' ? 'L' : 0) {
    memset(deep + 6, letter, sizeof deep - 7);
    uint32_t size;
    assert_null(link_name_last(deep, &size));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(components_are_found),
      cmocka_unit_test(globs_match_the_component),
      cmocka_unit_test(any_name_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
