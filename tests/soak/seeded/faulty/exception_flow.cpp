// SPDX-License-Identifier: MIT
// fault: a cache reports each miss with an exception, and nearly every lookup is a miss
// culprit: get, lookup_or_compute
// kind: exception, CPU
// record:
// build: g++ -O1 -g
#include <cstdio>
#include <stdexcept>
#include <string>
#include <unordered_map>

class cache {
public:
  __attribute__((noinline)) int get(int key) const {
    auto it = values_.find(key);
    if (it == values_.end()) throw std::out_of_range("no value for key " + std::to_string(key));
    return it->second;
  }
  void put(int key, int value) {
    if (values_.size() > 1000) values_.clear();
    values_[key] = value;
  }

private:
  std::unordered_map<int, int> values_;
};

static __attribute__((noinline)) int compute(int key) {
  int sum = 0;
  for (int i = 1; i < 50; i++)
    sum += key % i;
  return sum;
}

static __attribute__((noinline)) int lookup_or_compute(cache &c, int key) {
  try {
    return c.get(key);
  } catch (const std::out_of_range &) {
    int value = compute(key);
    c.put(key, value);
    return value;
  }
}

int main() {
  cache c;
  long sum = 0;
  for (int i = 0; i < 500000; i++)
    sum += lookup_or_compute(c, static_cast<int>(i * 2654435761u % 1000003u));
  std::printf("%ld\n", sum);
}
