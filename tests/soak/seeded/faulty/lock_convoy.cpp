// SPDX-License-Identifier: MIT
// fault: every worker formats its line inside one lock of the log, so they run in turn
// culprit: log_line, format_line, log_lock
// kind: lock, wait, contention, contend
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex log_lock;
static std::string log_text;

static __attribute__((noinline)) std::string format_line(int worker, int job) {
  std::string line;
  for (int i = 0; i < 40; i++)
    line += "worker " + std::to_string(worker) + " job " + std::to_string(job + i) + ";";
  std::this_thread::sleep_for(std::chrono::milliseconds(2)); // asks for the name of the host
  return line;
}

static __attribute__((noinline)) void log_line(int worker, int job) {
  std::lock_guard<std::mutex> hold(log_lock);
  log_text = format_line(worker, job);
}

static __attribute__((noinline)) unsigned compute(int job) {
  unsigned sum = 1;
  for (int i = 0; i < 100000; i++)
    sum = sum * 1664525u + static_cast<unsigned>(job ^ i);
  return sum;
}

static void worker(int number, unsigned *result) {
  for (int job = 0; job < 120; job++) {
    *result += compute(job);
    log_line(number, job);
  }
}

int main() {
  std::vector<std::thread> threads;
  std::vector<unsigned> results(8);
  for (int i = 0; i < 8; i++)
    threads.emplace_back(worker, i, &results[static_cast<size_t>(i)]);
  unsigned sum = 0;
  for (size_t i = 0; i < threads.size(); i++) {
    threads[i].join();
    sum += results[i];
  }
  std::printf("%u\n", sum);
}
