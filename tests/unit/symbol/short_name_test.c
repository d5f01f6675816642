/* SPDX-License-Identifier: MIT
 *
 * Tests the short forms of names: by example, and on damaged names by their width and their end.
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

#include "symbol/short_name.h"

static const struct {
  const char *full;
  unsigned width;
  const char *expected;
} cases[] = {
    {"main", 0, "main"},
    {"crunch(int)", 0, "crunch"},
    {"void fill<int>(std::vector<int, std::allocator<int> > const&)", 0, "fill<int>"},
    {"app::Parser::parse(std::__cxx11::basic_string<char, std::char_traits<char>, "
     "std::allocator<char> > const&) const",
     0, "app::Parser::parse"},
    {"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
     ">::append(char const*)",
     0, "std::string::append"},
    {"std::less<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > "
     ">::operator()(int) const",
     0, "std::less<std::string>::operator()"},
    {"std::__1::basic_ostream<char, std::__1::char_traits<char> >::flush()", 0,
     "std::ostream::flush"},
    {"std::basic_string<wchar_t, std::char_traits<wchar_t>, std::allocator<wchar_t> >::size() "
     "const",
     0, "std::wstring::size"},
    {"std::map<int, std::basic_string<char, std::char_traits<char>, std::allocator<char> >, "
     "std::less<int> >::at(int const&)",
     0, "std::map<int, std::string, std::less<int>>::at"},
    {"std::map<int, std::basic_string<char, std::char_traits<char>, std::allocator<char> >, "
     "std::less<int> >::at(int const&)",
     20, "std::map<\u2026>::at"},
    {"std::unordered_map<std::string, std::vector<int> >::operator[](std::string const&)", 40,
     "std::unordered_map<\u2026>::operator[]"},
    {"std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)", 20,
     "std::operator<<<\u2026>"},
    {"bool std::operator< <int>(std::vector<int> const&, std::vector<int> const&)", 0,
     "std::operator<<int>"},
    {"decltype (((forward<A>)({parm#1}))()) call<int, A>(A&&)", 20, "call<int, A>"},
    {"decltype(f({parm#1})) ns::call<int>(int)", 0, "ns::call<int>"},
    {"a::B::operator bool() const", 0, "a::B::operator bool"},
    {"operator new(unsigned long)", 0, "operator new"},
    {"A::operator->() const", 0, "A::operator->"},
    {"crunch(int)::{lambda(double, double)#2}::operator()(double, double) const", 0,
     "crunch::{lambda#2}"},
    {"crunch(int)::<lambda(double, double)>::operator()(double, double) const", 0,
     "crunch::<lambda>"},
    {"(anonymous namespace)::work(void*)", 0, "(anonymous namespace)::work"},
    {"lib::f[abi:cxx11](int)", 0, "lib::f"},
    {"work(int) [clone .constprop.0]", 0, "work"},
    {"<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop", 0,
     "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop"},
    {"<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop", 52,
     "<alloc::vec::Vec<\u2026> as core::ops::drop::Drop>::drop"},
    {"core::iter::traits::iterator::Iterator::for_each::{{closure}}", 40,
     "\u2026::Iterator::for_each::{{closure}}"},
    {"std::thread::Builder::spawn_unchecked_::{{closure}}::{{closure}}", 48,
     "\u2026::spawn_unchecked_::{{closure}}::{{closure}}"},
    {"std::thread::Builder::spawn_unchecked_::{{closure}}", 20, "\u2026::spawn_unchecked_\u2026"},
    {"<alloc::vec::Vec<T,A> as alloc::vec::spec_extend::SpecExtend<T,I>>::spec_extend", 40,
     "<Vec<\u2026>>::spec_extend"},
    {"<&mut F as core::ops::function::FnMut<A>>::call_mut", 30, "<&mut F>::call_mut"},
    {"<alloc::alloc::Global as core::alloc::Allocator>::grow", 12, "\u2026::grow"},
    {"main.(*Server).handle", 0, "main.(*Server).handle"},
    {"-[Account setName:of type:]", 0, "-[Account setName:of type:]"},
    {"a_very_long_function_of_c", 10, "a_very_lo\u2026"},
    {"outer::inner::deepest::function", 20, "\u2026::deepest::function"},
    {"<module>", 0, "<module>"},
    {"", 0, ""},
};

static void examples(void **state) {
  (void)state;
  char out[512];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_string_equal(short_name(cases[i].full, cases[i].width, out, sizeof out),
                        cases[i].expected);
}

static unsigned columns(const char *text) {
  unsigned n = 0;
  for (; *text; text++)
    n += ((unsigned char)*text & 0xc0) != 0x80;
  return n;
}

/* Names put together from the pieces that matter, whole or cut off, in buffers of all sizes. */
static void any_text_fits(void **state) {
  (void)state;
  static const char *const pieces[] = {"::",
                                       "<",
                                       ">",
                                       "(",
                                       ")",
                                       "operator",
                                       "<<",
                                       "->",
                                       " ",
                                       "{lambda(",
                                       "#1}",
                                       "[abi:x]",
                                       "std::",
                                       "basic_",
                                       "char",
                                       ", ",
                                       "a",
                                       "\u00e9",
                                       "(anonymous namespace)",
                                       " const"};
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
  printf("SONDE_SEED=%u\n", seed);
  srand(seed);
  for (int round = 0; round < 20000; round++) {
    char full[512] = "";
    for (int n = rand() % 24; n > 0; n--)
      strcat(full, pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)]);
    unsigned width = 1 + (unsigned)rand() % 40;
    size_t size = 1 + (size_t)rand() % 300;
    char *out = malloc(size);
    assert_non_null(out);
    short_name(full, width, out, size);
    assert_true(strlen(out) < size);
    if (columns(out) > width) fail_msg("'%s' has more than %u columns: '%s'", full, width, out);
    free(out);
  }
}

static void control_characters_are_escaped(void **state) {
  (void)state;
  static const char *const pairs[][2] = {{"a\x1b[7mb()", "a\\x1b[7mb"},
                                         {"a\ab\x7f", "a\\ab\\x7f"},
                                         {"a\xc2\x9b"
                                          "b",
                                          "a\\u009bb"},
                                         {"caf\u00e9", "caf\u00e9"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    char out[64];
    assert_string_equal(short_name(pairs[i][0], 0, out, sizeof out), pairs[i][1]);
  }
  char out[64];
  assert_string_equal(short_text("\xc2\x80\n()", 0, out, sizeof out), "\\u0080\\n()");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(examples),
                                     cmocka_unit_test(control_characters_are_escaped),
                                     cmocka_unit_test(any_text_fits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
