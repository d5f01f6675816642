// SPDX-License-Identifier: MIT
// fault: small long-lived results between big short-lived buffers keep the heap from shrinking
// culprit: keep_summary, load_batch, load_document
// kind: fragment
// record: --malloc=all
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

struct document {
  char *text;
  size_t length;
};

static std::vector<char *> summaries;

static __attribute__((noinline)) document load_document(int number) {
  document d;
  d.length = 20000 + static_cast<size_t>(number) * 137 % 40000;
  d.text = static_cast<char *>(std::malloc(d.length));
  std::memset(d.text, 'a' + number % 26, d.length);
  return d;
}

static __attribute__((noinline)) void keep_summary(const document &d) {
  char *summary = static_cast<char *>(std::malloc(1100));
  std::memcpy(summary, d.text, 1100);
  summaries.push_back(summary);
}

static __attribute__((noinline)) size_t load_batch(int first, int count) {
  std::vector<document> batch;
  size_t total = 0;
  for (int i = 0; i < count; i++) {
    batch.push_back(load_document(first + i));
    keep_summary(batch.back());
    total += batch.back().length;
  }
  for (document &d : batch)
    std::free(d.text);
  return total;
}

static __attribute__((noinline)) void wait_for_requests() {
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
}

int main() {
  summaries.reserve(10000);
  size_t total = load_batch(0, 3000); // 120 MB, then 3 MB of summaries that hold them
  for (int i = 0; i < 100; i++)
    wait_for_requests();
  std::printf("%zu %zu\n", total, summaries.size());
}
