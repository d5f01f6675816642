/* SPDX-License-Identifier: MIT
 *
 * Limits for a part of a test, without a framework (sonde/test.hpp). For GoogleTest and Catch2:
 * sonde/gtest.hpp and sonde/catch2.hpp, as docs/testing.md shows.
 *
 *   c++ -std=c++17 limits.cpp -lsonde && ./a.out
 */
#include <iostream>

#include <sonde/test.hpp>

static int *volatile forgotten;

[[gnu::noinline]] static void forget() { forgotten = new int[100]; }

int main() {
  sonde::test::watch watch(sonde::test::limits().leaked(0).budget(10));
  forget();
  std::string found = watch.finish();
  std::cout << (found.empty() ? "nothing found\n" : found + "\n");
  return found.empty();
}
