/* SPDX-License-Identifier: MIT
 *
 * Patterns of names as reports print them select the linker names of the same functions, which
 * g++ and rustc wrote, and no others.
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
#include "symbol/link_pattern.h"

static const char *const linked[] = {
    "_ZN3net6Socket4readEPvm",              /* net::Socket::read(void*, unsigned long) */
    "_ZNK3net6Socket4readEv",               /* net::Socket::read() const */
    "_ZN3net6Socket8readLineEv",            /* net::Socket::readLine() */
    "_ZN3net6Socket4readIiEEvT_",           /* void net::Socket::read<int>(int) */
    "_ZN3net5parseERKNS_4TextE",            /* net::parse(net::Text const&) */
    "_Z7computei",                          /* compute(int) */
    "_ZN1r4leaf17h0123456789abcdefE",       /* r::leaf, legacy */
    "_RNvCs1234_1r4leaf",                   /* r::leaf, v0 */
    "_RNvNtCs1234_1r5inner4leaf",           /* r::inner::leaf, v0 */
    "_ZN1r5inner4leaf17h0123456789abcdefE", /* r::inner::leaf, legacy */
    "compute",
    "malloc"};
enum { COUNT = sizeof linked / sizeof *linked };

/* Names that g++ and rustc gave to what nested names alone do not describe. */
static const char *const others[] = {
    "_ZL4slowi",                  /* slow(int), static */
    "_Z4slowd",                   /* slow(double) */
    "_ZN1BC1Ev",                  /* B::B() */
    "_ZN1BC2Ev",                  /* the same */
    "_ZN1BD1Ev",                  /* B::~B() */
    "_ZN1BclEi",                  /* B::operator()(int) */
    "_ZN1BmiEi",                  /* B::operator-(int) */
    "_ZN1BngEv",                  /* B::operator-() */
    "_ZN1BcvbEv",                 /* B::operator bool() */
    "_ZN1BltERKS_",               /* B::operator<(B const&) */
    "_ZN12_GLOBAL__N_14anonEi",   /* (anonymous namespace)::anon(int) */
    "_ZN1WIiE3getEv",             /* W<int>::get() */
    "_ZZ3runvENKUliE_clEi",       /* run()::{lambda(int)#1}::operator()(int) const */
    "_ZZ3runvENKUlcE0_clEc",      /* run()::{lambda(char)#2}::operator()(char) const */
    "_ZZN3net3runEvENKUlvE_clEv", /* net::run()::{lambda()#1}::operator()() const */
    "_Z3runv",                    /* run() */
    "_ZN3netL5innerEi",           /* net::inner(int), static */
    "_ZN3net4textB5cxx11Ev",      /* net::text[abi:cxx11]() */
    "_ZSt4sortIPiEvT_S1_",        /* void std::sort<int*>(int*, int*) */
    "_ZN45_$LT$r..net..Socket$u20$as$u20$r..net..Tr$GT$2go17h0123456789abcdefE", /* legacy */
    "_RNvXs_NtCs1234_1r3netNtB4_6SocketNtB4_2Tr2go",                             /* v0 */
    "slow"};
enum { OTHERS = sizeof others / sizeof *others };

/* Whether one of the globs in LIST, separated by commas, matches NAME. */
static bool selects(const char *list, const char *name) {
  char glob[512];
  for (const char *at = list; *at; at += *at == ',') {
    size_t size = strcspn(at, ",");
    snprintf(glob, sizeof glob, "%.*s", (int)size, at);
    const char *mark = strpbrk(glob, ":!");
    if (link_name_matches(mark ? mark + 1 : glob, name)) return true;
    at += size;
  }
  return false;
}

typedef struct selection {
  const char *pattern;
  const char *selected; /* a letter for each name: x selected */
} selection_t;

static void select_names(const selection_t *cases, size_t count, const char *const *names,
                         size_t name_count) {
  for (size_t i = 0; i < count; i++) {
    char list[4096];
    assert_int_equal(strlen(cases[i].selected), name_count);
    assert_true(link_pattern(cases[i].pattern, list, sizeof list));
    for (size_t k = 0; k < name_count; k++)
      if (selects(list, names[k]) != (cases[i].selected[k] == 'x'))
        fail_msg("%s: %s and %s", cases[i].pattern, list, names[k]);
  }
}

static void the_same_functions_are_selected(void **state) {
  (void)state;
  static const selection_t cases[] = {{"net::Socket::read", "xx.x........"},
                                      {"net::Socket::read(void*, unsigned long)", "xx.x........"},
                                      {"net::Socket::*", "xxxx........"},
                                      {"net::*", "xxxxx......."},
                                      {"net::parse*", "....x......."},
                                      {"libnet.so*:net::parse", "....x......."},
                                      {"!net::parse", "....x......."},
                                      {"server!net::parse", "....x......."},
                                      {"compute(int)", ".....x......"},
                                      {"compute", ".....x....x."},
                                      {"comp*", ".....x....x."},
                                      {"!read", "xx.x........"}, /* the last component */
                                      {"read", "xx.x........"},
                                      {"!read*", "xxxx........"},
                                      {"libnet.so*:read", "............"},
                                      {"!leaf", "......xxxx.."},
                                      {"!Text", "............"}, /* an argument */
                                      {"!Socket", "............"},
                                      {"r::leaf", "......xx...."},
                                      {"r::inner::leaf", "........xx.."},
                                      {"r::leaf,malloc", "......xx...x"},
                                      {"-[Account *],malloc", "...........x"}};
  select_names(cases, sizeof cases / sizeof *cases, linked, COUNT);
}

static void names_of_reports_select(void **state) {
  (void)state;
  static const selection_t cases[] = {
      {"!slow", "xx...................x"},
      {"!slow()", "xx...................."},
      {"libslow.so*:slow", ".x...................x"}, /* an import is never static */
      {"!sl*", "xx...................x"},
      {"!B::B", "..xx.................."},
      {"!B", "..xx.................."},
      {"!anon", "..........x..........."},
      {"!B::~B", "....x................."},
      {"!B::operator()", ".....x................"},
      {"!B::operator-", "......xx.............."},
      {"!B::operator bool", "........x............."},
      {"!B::operator<,slow", "xx.......x...........x"},
      {"!(anonymous namespace)::anon", "..........x..........."},
      {"!W<int>::get", "...........x.........."},
      {"!run::{lambda#1}", "............x........."},
      {"!run()::{lambda(int)#1}", "............x........."},
      {"!run::{lambda#2}", ".............x........"},
      {"!run()::{lambda(int)#1}::operator()(int) const", "............x........."},
      {"!net::run::{lambda#1}", "..............x......."},
      {"!run", "...............x......"},
      {"!net::inner", "................x....."},
      {"!net::text", ".................x...."},
      {"!net::text[abi:cxx11]()", ".................x...."},
      {"void std::sort<int*>(int*, int*)", "..................x..."},
      {"!<r::net::Socket as r::net::Tr>::go", "...................xx."}};
  select_names(cases, sizeof cases / sizeof *cases, others, OTHERS);
}

static void others_are_copied(void **state) {
  (void)state;
  static const char *const same[] = {
      "_dl_*", "-[Account *]", "*[*]",         "?[Account *]", "*",
      "",      "a::",          "gzip!+0x4290", "!*",           "libssl*:_ZN3netE,-[A *]"};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    char list[64];
    assert_true(link_pattern(same[i], list, sizeof list));
    assert_string_equal(list, same[i]);
  }
  char small[16];
  assert_false(link_pattern("net::Socket::read", small, sizeof small));
}

static void a_name_alone_is_one_of_the_program_too(void **state) {
  (void)state;
  static const char *const lists[][2] = {
      {"compute", "compute,_Z7compute*,_ZL7compute*,!_Z7compute*,!_ZL7compute*,!>compute,"
                  "!_RNv*7compute"},
      {"s!compute", "s!compute,s!_Z7compute*,s!_ZL7compute*,s!>compute,s!_RNv*7compute"},
      {"libc*:compute", "libc*:compute,libc*:_Z7compute*"}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    char list[256];
    assert_true(link_pattern(lists[i][0], list, sizeof list));
    assert_string_equal(list, lists[i][1]);
  }
}

/* Any text ends, in buffers of all sizes. */
static void any_text_ends(void **state) {
  (void)state;
  static const char *const pieces[] = {"::",       "<",   ">", "(", ")", "operator", "{lambda",
                                       "#",        "}",   "~", "!", ",", " ",        "*",
                                       "<a as b>", "std", "a", "[", "-"};
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  printf("SONDE_SEED=%u\n", seed);
  srand(seed);
  for (int round = 0; round < 20000; round++) {
    char pattern[512] = "";
    for (int n = rand() % 24; n > 0; n--)
      strcat(pattern, pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)]);
    size_t size = 1 + (size_t)rand() % 600;
    char *out = malloc(size), *copy = strdup(pattern); /* a sanitizer knows their ends */
    assert_non_null(out);
    assert_non_null(copy);
    if (link_pattern(copy, out, size)) assert_true(strlen(out) < size);
    free(out);
    free(copy);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_functions_are_selected), cmocka_unit_test(names_of_reports_select),
      cmocka_unit_test(others_are_copied), cmocka_unit_test(a_name_alone_is_one_of_the_program_too),
      cmocka_unit_test(any_text_ends)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
