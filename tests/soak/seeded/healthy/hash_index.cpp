// SPDX-License-Identifier: MIT
// does: builds an index of 150,000 words, and then searches it
// record: --malloc=all --sample
// build: g++ -O2 -g
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

static std::unordered_map<std::string, std::vector<int>> build_index(int count) {
  std::unordered_map<std::string, std::vector<int>> index;
  for (int i = 0; i < count; i++)
    index["word" + std::to_string(i * 7919 % 60000)].push_back(i);
  return index;
}

static size_t search(const std::unordered_map<std::string, std::vector<int>> &index, int count) {
  size_t found = 0;
  for (int i = 0; i < count; i++) {
    auto it = index.find("word" + std::to_string(i % 100000));
    if (it != index.end()) found += it->second.size();
  }
  return found;
}

int main() {
  auto index = build_index(150000);
  std::printf("%zu\n", search(index, 800000));
}
