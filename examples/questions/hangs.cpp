/* SPDX-License-Identifier: MIT
 * docs/hangs.md: two threads take two locks, each in its own order. With -DFIXED: both at once. */
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

struct account {
  std::mutex lock;
  long cents = 100000;
};

static account savings, salary;
static std::atomic<int> asked;

static void transfer(account &from, account &to) {
#ifdef FIXED
  std::scoped_lock both(from.lock, to.lock);
#else
  std::lock_guard<std::mutex> one(from.lock);
  for (asked++; asked < 2;) // asks the bank, which answers both at once
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::lock_guard<std::mutex> other(to.lock);
#endif
  from.cents -= 100;
  to.cents += 100;
}

int main() {
  std::thread saves([] { transfer(salary, savings); });
  std::thread spends([] { transfer(savings, salary); });
  saves.join();
  spends.join();
  std::printf("%ld and %ld cents\n", savings.cents, salary.cents);
}
