// SPDX-License-Identifier: MIT
// does: a cache that fills to its limit in the first tenth of the run and stays there
// record: --malloc=all
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <list>
#include <string>
#include <thread>
#include <unordered_map>

class lru {
public:
  const std::string &get(int key) {
    auto it = index_.find(key);
    if (it != index_.end()) {
      order_.splice(order_.begin(), order_, it->second);
      return it->second->second;
    }
    if (order_.size() >= 500) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, std::string(2000, static_cast<char>('a' + key % 26)));
    index_[key] = order_.begin();
    return order_.front().second;
  }

private:
  std::list<std::pair<int, std::string>> order_;
  std::unordered_map<int, std::list<std::pair<int, std::string>>::iterator> index_;
};

int main() {
  lru cache;
  size_t sum = 0;
  for (int i = 0; i < 8000; i++) {
    sum += cache.get(static_cast<int>(i * 2654435761u % 3000u)).size();
    if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("%zu\n", sum);
}
