// SPDX-License-Identifier: MIT
// fault: a method that holds the lock calls another that takes the same lock
// culprit: erase_oldest, insert, size
// kind: deadlock, itself, own lock, already holds
// why: 1.5
// build: g++ -O1 -g -pthread
#include <chrono>
#include <cstdio>
#include <list>
#include <mutex>
#include <string>
#include <thread>

class history {
public:
  __attribute__((noinline)) size_t size() {
    std::lock_guard<std::mutex> hold(lock_);
    return lines_.size();
  }
  __attribute__((noinline)) void insert(std::string line) {
    std::lock_guard<std::mutex> hold(lock_);
    lines_.push_back(std::move(line));
    if (lines_.size() > 100) erase_oldest();
  }
  __attribute__((noinline)) std::string last() {
    std::lock_guard<std::mutex> hold(lock_);
    return lines_.empty() ? "" : lines_.back();
  }

private:
  __attribute__((noinline)) void erase_oldest() {
    while (size() > 90) // locks again
      lines_.pop_front();
  }
  std::mutex lock_;
  std::list<std::string> lines_;
};

static history h;

static void writer() {
  for (int i = 0; i < 1000; i++) {
    h.insert("line " + std::to_string(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

static void status() {
  for (int i = 0; i < 100; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::fprintf(stderr, "%s\n", h.last().c_str());
  }
}

int main() {
  std::thread a(writer), b(status);
  a.join();
  b.join();
  std::puts("done");
}
