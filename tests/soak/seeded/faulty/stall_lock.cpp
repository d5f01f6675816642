// SPDX-License-Identifier: MIT
// fault: the event loop waits for a lock that the saving thread holds while it sleeps
// culprit: save_snapshot, apply_update, background
// kind: stall, blocked, wait, lock
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>

static std::mutex state_lock;
static std::map<int, std::string> state;
static std::atomic<bool> stop;

static __attribute__((noinline)) void write_out(const std::map<int, std::string> &s) {
  std::this_thread::sleep_for(std::chrono::milliseconds(500 + s.size() % 2)); // a slow disk
}

static __attribute__((noinline)) void save_snapshot() {
  std::lock_guard<std::mutex> hold(state_lock);
  write_out(state);
}

static void background() {
  while (!stop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    save_snapshot();
  }
}

static __attribute__((noinline)) void apply_update(int key) {
  std::lock_guard<std::mutex> hold(state_lock);
  state[key % 100] = std::to_string(key);
}

static void feed(int fd) {
  char c = 'x';
  while (!stop && write(fd, &c, 1) == 1)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  close(fd);
}

static __attribute__((noinline)) bool turn(int fd, int &updates) {
  pollfd p{fd, POLLIN, 0};
  if (poll(&p, 1, 1000) <= 0) return false;
  char c;
  if (read(fd, &c, 1) != 1) return false;
  apply_update(updates++);
  return true;
}

int main() {
  int ends[2];
  if (pipe(ends)) return 1;
  std::thread saver(background), feeder(feed, ends[1]);
  int updates = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2800);
  while (std::chrono::steady_clock::now() < end && turn(ends[0], updates)) {
  }
  stop = true;
  saver.join();
  feeder.join();
  std::printf("%d\n", updates);
}
