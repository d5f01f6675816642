// SPDX-License-Identifier: MIT
// does: sorts eight million numbers with one core
// record:
// build: g++ -O2 -g
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

static std::vector<uint32_t> random_numbers(size_t count) {
  std::vector<uint32_t> numbers(count);
  uint32_t seed = 1;
  for (uint32_t &n : numbers)
    n = seed = seed * 1664525u + 1013904223u;
  return numbers;
}

int main() {
  std::vector<uint32_t> numbers = random_numbers(8000000);
  std::sort(numbers.begin(), numbers.end());
  std::vector<uint32_t> other = random_numbers(2000000);
  std::stable_sort(other.begin(), other.end(),
                   [](uint32_t a, uint32_t b) { return (a >> 16) < (b >> 16); });
  std::printf("%u %u\n", numbers[numbers.size() / 2], other[1000]);
}
