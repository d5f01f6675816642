/* SPDX-License-Identifier: MIT
 *
 * C++: scopes that end by themselves, and stacks that algorithms accept (sonde/sonde.hpp).
 *
 *   c++ -std=c++17 scopes.cpp -lsonde && ./a.out
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <sonde/sonde.hpp>

namespace {

sonde::hook<void(int)> *hooked;

void my_srand(unsigned seed) {
  std::printf("srand(%u) is called\n", seed);
  hooked->original(static_cast<int>(seed));
}

[[gnu::noinline]] void find_main() {
  auto stack = sonde::stack<64>::here();
  auto pcs = stack.pcs();
  bool found = std::any_of(pcs.begin(), pcs.end(),
                           [](std::uintptr_t pc) { return sonde::function_at(pc) == "main"; });
  std::printf("main is %son the stack\n", found ? "" : "not ");
}

} // namespace

int main() {
  find_main();
  {
    sonde::hook<void(int)> hook("srand", reinterpret_cast<void (*)(int)>(my_srand));
    hooked = &hook;
    std::srand(7);
  } // removed here
  std::srand(8);
  return 0;
}
