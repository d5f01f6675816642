// SPDX-License-Identifier: MIT
// fault: a handler of the event loop waits between its retries by sleeping
// culprit: resolve_with_retry, backoff
// kind: stall, sleep, blocked
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <chrono>
#include <cstdio>
#include <functional>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

static __attribute__((noinline)) bool try_resolve(const std::string &name, int attempt) {
  return name.size() % 3 != 0 || attempt >= 3;
}

static __attribute__((noinline)) void backoff(int attempt) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100 << attempt));
}

static __attribute__((noinline)) int resolve_with_retry(const std::string &name) {
  int attempt = 0;
  while (!try_resolve(name, attempt))
    backoff(attempt++);
  return attempt;
}

class loop {
public:
  explicit loop(int fd) : fd_(fd) {}
  void on_byte(std::function<void(char)> call) { calls_.push_back(std::move(call)); }
  void run() {
    char c;
    for (;;) {
      pollfd p{fd_, POLLIN, 0};
      if (poll(&p, 1, -1) < 0 || read(fd_, &c, 1) != 1) return;
      for (auto &call : calls_)
        call(c);
    }
  }

private:
  int fd_;
  std::vector<std::function<void(char)>> calls_;
};

static void client(int fd) {
  for (int i = 0; i < 60; i++) {
    char c = static_cast<char>(i % 20 == 10 ? 3 : i % 20 % 2 + 1);
    if (write(fd, &c, 1) != 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  close(fd);
}

int main() {
  int ends[2], attempts = 0, bytes = 0;
  if (pipe(ends)) return 1;
  std::thread t(client, ends[1]);
  loop l(ends[0]);
  l.on_byte([&](char) { bytes++; });
  l.on_byte(
      [&](char c) { attempts += resolve_with_retry(std::string(static_cast<size_t>(c), 'h')); });
  l.run();
  t.join();
  std::printf("%d bytes, %d attempts\n", bytes, attempts);
}
