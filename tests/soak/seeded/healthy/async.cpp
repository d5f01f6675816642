// SPDX-License-Identifier: MIT
// does: futures of short tasks, eight at a time
// record: --malloc=all
// build: g++ -O1 -g -pthread
#include <chrono>
#include <cstdio>
#include <future>
#include <thread>
#include <vector>

static long part(long from, long to) {
  long sum = 0;
  for (long i = from; i < to; i++)
    sum += i % 7 * (i % 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return sum;
}

int main() {
  long sum = 0;
  for (int round = 0; round < 80; round++) {
    std::vector<std::future<long>> parts;
    for (long i = 0; i < 8; i++)
      parts.push_back(std::async(std::launch::async, part, i * 10000, (i + 1) * 10000));
    for (auto &p : parts)
      sum += p.get();
  }
  std::printf("%ld\n", sum);
}
