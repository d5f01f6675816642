// SPDX-License-Identifier: MIT
// fault: the destructor of a document searches a list of all documents for each of its words
// culprit: ~document, forget
// kind: CPU
// record: --sample --wall --stall
// build: g++ -O1 -g
#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>
#include <string>
#include <vector>

class registry {
public:
  void add(int word) { words_.push_back(word); }
  __attribute__((noinline)) void forget(int word) {
    auto it = std::find(words_.begin(), words_.end(), word);
    if (it != words_.end()) words_.erase(it);
  }
  size_t size() const { return words_.size(); }

private:
  std::list<int> words_;
};

static registry all;

class document {
public:
  document(int first, int count) : first_(first), count_(count) {
    for (int i = 0; i < count; i++)
      all.add(first + i);
  }
  __attribute__((noinline)) ~document() {
    for (int i = count_; i-- > 0;)
      all.forget(first_ + i);
  }
  document(const document &) = delete;
  document &operator=(const document &) = delete;
  long weight() const { return first_ + count_ * 2L; }

private:
  int first_, count_;
};

static __attribute__((noinline)) long load(std::vector<std::unique_ptr<document>> &documents,
                                           int count) {
  long weight = 0;
  for (int i = 0; i < count; i++) {
    documents.push_back(std::make_unique<document>(i * 200, 200));
    weight += documents.back()->weight();
  }
  return weight;
}

static __attribute__((noinline)) long
sum_weights(const std::vector<std::unique_ptr<document>> &documents) {
  long sum = 0;
  for (int round = 0; round < 1000; round++)
    for (const auto &d : documents)
      sum += d->weight() ^ round;
  return sum;
}

int main() {
  std::vector<std::unique_ptr<document>> documents;
  long weight = load(documents, 130);
  weight += sum_weights(documents);
  while (!documents.empty())
    documents.pop_back();
  std::printf("%ld %zu\n", weight, all.size());
}
