// SPDX-License-Identifier: MIT
// does: loads 40 MB in the first half second and then only reads them
// record:
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

static std::vector<std::string> load() {
  std::vector<std::string> rows;
  for (int i = 0; i < 40000; i++) {
    rows.push_back(std::string(1000, static_cast<char>('a' + i % 26)));
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return rows;
}

int main() {
  std::vector<std::string> rows = load();
  size_t sum = 0;
  for (int i = 0; i < 2000; i++) {
    sum += rows[static_cast<size_t>(i) * 17 % rows.size()].size();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("%zu\n", sum);
}
