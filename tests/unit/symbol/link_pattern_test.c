/* SPDX-License-Identifier: MIT
 *
 * Patterns of names as reports print them select the linker names of the same functions, which
 * g++ and rustc wrote, and no others.
 */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

/* Whether one of the globs in LIST, separated by commas, matches NAME. */
static bool selects(const char *list, const char *name) {
  char glob[512];
  for (const char *at = list; *at; at += *at == ',') {
    size_t size = strcspn(at, ",");
    snprintf(glob, sizeof glob, "%.*s", (int)size, at);
    const char *colon = strpbrk(glob, ":!");
    if (fnmatch(colon ? colon + 1 : glob, name, 0) == 0) return true;
    at += size;
  }
  return false;
}

static void the_same_functions_are_selected(void **state) {
  (void)state;
  static const struct {
    const char *pattern;
    const char *selected; /* a letter for each of LINKED: x selected */
  } cases[] = {{"net::Socket::read", "xx.x........"},
               {"net::Socket::read(void*, unsigned long)", "xx.x........"},
               {"net::Socket::*", "xxxx........"},
               {"net::*", "xxxxx......."},
               {"net::parse*", "....x......."},
               {"libnet.so*:net::parse", "....x......."},
               {"!net::parse", "....x......."},
               {"server!net::parse", "....x......."},
               {"compute(int)", ".....x......"},
               {"compute", "..........x."},
               {"r::leaf", "......xx...."},
               {"r::inner::leaf", "........xx.."},
               {"r::leaf,malloc", "......xx...x"},
               {"-[Account *],malloc", "...........x"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char list[512];
    assert_true(link_pattern(cases[i].pattern, list, sizeof list));
    for (size_t k = 0; k < COUNT; k++)
      if (selects(list, linked[k]) != (cases[i].selected[k] == 'x'))
        fail_msg("%s: %s and %s", cases[i].pattern, list, linked[k]);
  }
}

static void others_are_copied(void **state) {
  (void)state;
  static const char *const same[] = {"malloc",
                                     "libssl*:SSL_*,malloc",
                                     "-[Account *]",
                                     "*",
                                     "",
                                     "a,,b",
                                     "::",
                                     "a::",
                                     "x:y",
                                     "gzip!+0x4290",
                                     "!*"};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    char list[64];
    assert_true(link_pattern(same[i], list, sizeof list));
    assert_string_equal(list, same[i]);
  }
  char small[16];
  assert_false(link_pattern("net::Socket::read", small, sizeof small));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_functions_are_selected),
                                     cmocka_unit_test(others_are_copied)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
