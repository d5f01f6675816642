// SPDX-License-Identifier: MIT
// fault: the waiter does not look at the flag first: the notification came before its wait
// culprit: wait_ready, connect_all
// kind: wait, blocked, condition, notif, hang
// why: 1.5
// build: g++ -O1 -g -pthread
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

class service {
public:
  explicit service(std::string name) : name_(std::move(name)) {}
  void start() { thread_ = std::thread(&service::run, this); }
  __attribute__((noinline)) void wait_ready() {
    std::unique_lock<std::mutex> hold(lock_);
    ready_.wait(hold); // without the flag
  }
  void join() { thread_.join(); }

private:
  void run() {
    std::lock_guard<std::mutex> hold(lock_);
    is_ready_ = true;
    ready_.notify_all();
  }
  std::string name_;
  std::thread thread_;
  std::mutex lock_;
  std::condition_variable ready_;
  bool is_ready_ = false;
};

static __attribute__((noinline)) void load_settings() {
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100)); // longer than the service needs to start
}

static __attribute__((noinline)) int connect_all(service &s) {
  s.start();
  load_settings();
  s.wait_ready();
  return 1;
}

int main() {
  service s("storage");
  int connected = connect_all(s);
  s.join();
  std::printf("%d\n", connected);
}
