// SPDX-License-Identifier: MIT
// fault: workers spin on an atomic flag while the leader waits for its input
// culprit: wait_for_round, worker
// kind: busy, spin, CPU
// record: --sample --wall --stall
// build: g++ -O2 -g -pthread
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

static std::atomic<int> round_number;
static std::atomic<int> finished;
static constexpr int ROUNDS = 20;

static __attribute__((noinline)) void wait_for_round(int wanted) {
  while (round_number.load(std::memory_order_acquire) < wanted) {
  }
}

static __attribute__((noinline)) double integrate(int from, int to) {
  double sum = 0;
  for (int i = from; i < to; i++)
    sum += 1.0 / (1.0 + i * 0.5);
  return sum;
}

static void worker(int number, double *result) {
  for (int r = 1; r <= ROUNDS; r++) {
    wait_for_round(r);
    *result += integrate(number * 1000, number * 1000 + 20000);
    finished.fetch_add(1);
  }
}

static __attribute__((noinline)) void read_input() {
  std::this_thread::sleep_for(std::chrono::milliseconds(90));
}

int main() {
  double results[2] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; i++)
    threads.emplace_back(worker, i, &results[i]);
  for (int r = 1; r <= ROUNDS; r++) {
    read_input();
    round_number.store(r, std::memory_order_release);
    while (finished.load() < 2 * r)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread &t : threads)
    t.join();
  std::printf("%f\n", results[0] + results[1]);
}
