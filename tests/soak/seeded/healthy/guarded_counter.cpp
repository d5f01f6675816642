// SPDX-License-Identifier: MIT
// does: four threads share a counter with short critical sections and long work outside
// record: --sample --wall --stall
// build: g++ -O2 -g -pthread
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex lock;
static std::map<unsigned, int> histogram;

static unsigned work(unsigned seed) {
  for (int i = 0; i < 300000; i++)
    seed = seed * 1664525u + 1013904223u;
  return seed >> 28;
}

static void run(unsigned seed) {
  for (unsigned i = 0; i < 1500; i++) {
    unsigned bucket = work(seed + i);
    std::lock_guard<std::mutex> hold(lock);
    histogram[bucket]++;
  }
}

int main() {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; i++)
    threads.emplace_back(run, i * 1000);
  for (auto &t : threads)
    t.join();
  std::printf("%zu\n", histogram.size());
}
