/* SPDX-License-Identifier: MIT
 *
 * Fault: four threads that need one lock all the time.
 * Expected: lock-convoy count_event
 */
#include <thread>
#include <vector>
#include <mutex>
#include <map>
std::mutex m;
std::map<int, long> counts;
__attribute__((noinline)) void count_event(int k) {
  std::lock_guard<std::mutex> l(m);
  for (int i = 0; i < 20; i++)
    counts[(k + i) % 50]++;
}
void worker() {
  for (int i = 0; i < 1500000; i++)
    count_event(i);
}
int main() {
  std::vector<std::thread> t;
  for (int i = 0; i < 4; i++)
    t.emplace_back(worker);
  for (auto &x : t)
    x.join();
}
