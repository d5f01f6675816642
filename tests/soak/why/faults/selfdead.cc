/* SPDX-License-Identifier: MIT
 *
 * Fault: takes its own lock again.
 * Expected: deadlock Registry::get
 */
#include <mutex>
#include <map>
#include <string>
#include <unistd.h>
class Registry {
  std::mutex m;
  std::map<std::string, int> v;

public:
  __attribute__((noinline)) int get(const std::string &k) {
    std::lock_guard<std::mutex> l(m);
    return v[k];
  }
  __attribute__((noinline)) void bump(const std::string &k) {
    std::lock_guard<std::mutex> l(m);
    v[k] = get(k) + 1;
  }
};
int main() {
  Registry r;
  usleep(50000);
  r.bump("x");
}
