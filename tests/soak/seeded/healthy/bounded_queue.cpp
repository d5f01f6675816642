// SPDX-License-Identifier: MIT
// does: a fast producer and a slow consumer with a queue of at most 100 items
// record: --malloc=all --sample --wall
// build: g++ -O1 -g -pthread
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <queue>
#include <string>
#include <thread>

class bounded {
public:
  void push(std::string s) {
    std::unique_lock<std::mutex> hold(lock_);
    room_.wait(hold, [this] { return items_.size() < 100; });
    items_.push(std::move(s));
    filled_.notify_one();
  }
  std::string pop() {
    std::unique_lock<std::mutex> hold(lock_);
    filled_.wait(hold, [this] { return !items_.empty(); });
    std::string s = std::move(items_.front());
    items_.pop();
    room_.notify_one();
    return s;
  }

private:
  std::mutex lock_;
  std::condition_variable room_, filled_;
  std::queue<std::string> items_;
};

int main() {
  bounded queue;
  size_t bytes = 0;
  std::thread consumer([&] {
    for (std::string s = queue.pop(); !s.empty(); s = queue.pop()) {
      bytes += s.size();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int i = 0; i < 2000; i++)
    queue.push(std::string(1000, 'x'));
  queue.push("");
  consumer.join();
  std::printf("%zu\n", bytes);
}
