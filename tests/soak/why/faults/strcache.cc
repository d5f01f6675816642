/* SPDX-License-Identifier: MIT
 *
 * Fault: a cache without a bound.
 * Expected: growth Resolver::resolve
 */
#include <map>
#include <string>
#include <unistd.h>
#include <thread>
#include <chrono>
class Resolver {
  std::map<std::string, std::string> cache_;

public:
  const std::string &resolve(const std::string &h) {
    auto it = cache_.find(h);
    if (it == cache_.end()) it = cache_.emplace(h, std::string(800, 'a' + h.size() % 20)).first;
    return it->second;
  }
};
int main() {
  Resolver r;
  for (int i = 0; i < 3000; i++) {
    r.resolve("host" + std::to_string(i) + ".example.org/with/a/long/path");
    std::this_thread::sleep_for(std::chrono::microseconds(400));
  }
}
