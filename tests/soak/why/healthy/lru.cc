/* SPDX-License-Identifier: MIT
 *
 * Healthy: a cache with a bound.
 */
#include <list>
#include <string>
#include <unordered_map>
#include <unistd.h>
struct Cache {
  std::list<std::pair<int, std::string>> l;
  std::unordered_map<int, decltype(l)::iterator> m;
  void put(int k) {
    auto i = m.find(k);
    if (i != m.end()) {
      l.erase(i->second);
    }
    l.emplace_front(k, std::string(2000, 'x'));
    m[k] = l.begin();
    if (l.size() > 3000) {
      m.erase(l.back().first);
      l.pop_back();
    }
  }
};
int main() {
  Cache c;
  for (int i = 0; i < 60000; i++) {
    c.put((i * 7919) % 20000);
    if (i % 100 == 0) usleep(1000);
  }
}
