/* SPDX-License-Identifier: MIT
 *
 * Fault: sleeps while it holds the lock of eight threads.
 * Expected: lock-convoy Store::flush
 */
#include <mutex>
#include <thread>
#include <vector>
#include <chrono>
std::mutex big;
int shared_;
struct Store {
  __attribute__((noinline)) void flush() {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  __attribute__((noinline)) void save(int v) {
    std::lock_guard<std::mutex> l(big);
    shared_ += v;
    flush();
  }
};
int main() {
  Store s;
  std::vector<std::thread> t;
  for (int i = 0; i < 8; i++)
    t.emplace_back([&] {
      for (int k = 0; k < 25; k++)
        s.save(k);
    });
  for (auto &x : t)
    x.join();
}
