// SPDX-License-Identifier: MIT
// fault: two threads lock two accounts in opposite order
// culprit: transfer
// kind: deadlock
// why: 1.5
// build: g++ -O1 -g -pthread
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

struct account {
  std::mutex lock;
  long cents = 10000;
};

static std::vector<account> accounts(4);

static __attribute__((noinline)) void pause_a_little(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

static __attribute__((noinline)) void transfer(account &from, account &to, long cents) {
  std::lock_guard<std::mutex> first(from.lock);
  pause_a_little(20);
  std::lock_guard<std::mutex> second(to.lock);
  from.cents -= cents;
  to.cents += cents;
}

static void teller(int from, int to) {
  for (int i = 0; i < 50; i++)
    transfer(accounts[static_cast<size_t>(from)], accounts[static_cast<size_t>(to)], i);
}

static void statistics() {
  for (;;)
    pause_a_little(100);
}

int main() {
  std::thread a(teller, 0, 1), b(teller, 1, 0), c(teller, 2, 3), d(statistics);
  a.join();
  b.join();
  c.join();
  std::printf("%ld\n", accounts[0].cents);
  d.join();
}
