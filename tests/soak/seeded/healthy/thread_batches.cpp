// SPDX-License-Identifier: MIT
// does: starts and joins four threads for each of 100 batches
// record: --malloc=all
// build: g++ -O1 -g -pthread
#include <cstdio>
#include <thread>
#include <unistd.h>
#include <vector>

static void fill(std::vector<int> &part, int number) {
  for (int i = 0; i < 10000; i++)
    part.push_back(number ^ i);
}

static long run_batch(int number) {
  std::vector<std::vector<int>> parts(4);
  std::vector<std::thread> threads;
  for (auto &part : parts)
    threads.emplace_back(fill, std::ref(part), number);
  long sum = 0;
  for (size_t i = 0; i < 4; i++) {
    threads[i].join();
    sum += parts[i][77];
  }
  return sum;
}

int main() {
  long sum = 0;
  for (int i = 0; i < 100; i++) {
    sum += run_batch(i);
    usleep(15000);
  }
  std::printf("%ld\n", sum);
}
