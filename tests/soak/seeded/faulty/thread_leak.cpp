// SPDX-License-Identifier: MIT
// fault: each request starts a detached thread that waits for ever for an answer
// culprit: start_watchdog, watchdog, handle_request
// kind: threads
// untrue: ended
// record: --malloc=all
// build: g++ -O1 -g -pthread
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

struct pending {
  std::mutex lock;
  std::condition_variable answered;
  bool done = false;
  std::string text;
};

static void watchdog(std::shared_ptr<pending> p) {
  std::unique_lock<std::mutex> hold(p->lock);
  p->answered.wait(hold, [&] { return p->done; });
}

static __attribute__((noinline)) void start_watchdog(const std::shared_ptr<pending> &p) {
  std::thread(watchdog, p).detach();
}

static __attribute__((noinline)) std::string compute(int number) {
  std::string text;
  for (int i = 0; i < 50; i++)
    text += std::to_string(number * i);
  return text;
}

static __attribute__((noinline)) size_t handle_request(int number) {
  auto p = std::make_shared<pending>();
  start_watchdog(p);
  p->text = compute(number);
  if (number % 10 == 0) { // only some paths say that they are done
    std::lock_guard<std::mutex> hold(p->lock);
    p->done = true;
    p->answered.notify_one();
  }
  return p->text.size();
}

int main() {
  size_t sent = 0;
  for (int i = 0; i < 400; i++) {
    sent += handle_request(i);
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
  }
  std::printf("%zu\n", sent);
}
