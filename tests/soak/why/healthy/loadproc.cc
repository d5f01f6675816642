/* SPDX-License-Identifier: MIT
 *
 * Healthy: loads data, then works with it.
 */
#include <map>
#include <string>
#include <vector>
#include <algorithm>
#include <cstdio>
int main() {
  std::map<std::string, std::vector<int>> m;
  for (int i = 0; i < 300000; i++)
    m["k" + std::to_string(i % 50000)].push_back(i);
  long s = 0;
  for (int r = 0; r < 40; r++)
    for (auto &e : m) {
      std::sort(e.second.rbegin(), e.second.rend());
      s += e.second[0];
    }
  printf("%ld\n", s);
}
