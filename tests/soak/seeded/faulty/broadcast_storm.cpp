// SPDX-License-Identifier: MIT
// fault: each of many small jobs wakes all 64 workers, and 63 find nothing to do
// culprit: push_job, take_job, worker
// kind: wake, woke, condition, context switch
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

class job_queue {
public:
  __attribute__((noinline)) void push_job(int job) {
    std::lock_guard<std::mutex> hold(lock_);
    jobs_.push(job);
    changed_.notify_all(); // one would do
  }
  __attribute__((noinline)) bool take_job(int &job) {
    std::unique_lock<std::mutex> hold(lock_);
    changed_.wait(hold, [&] { return !jobs_.empty() || closed_; });
    if (jobs_.empty()) return false;
    job = jobs_.front();
    jobs_.pop();
    return true;
  }
  void close() {
    std::lock_guard<std::mutex> hold(lock_);
    closed_ = true;
    changed_.notify_all();
  }

private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::queue<int> jobs_;
  bool closed_ = false;
};

static job_queue queue;

static __attribute__((noinline)) unsigned run_job(int job) {
  unsigned sum = static_cast<unsigned>(job);
  for (int i = 0; i < 200; i++)
    sum = sum * 31 + 7;
  return sum;
}

static void worker(unsigned *result) {
  int job;
  while (queue.take_job(job))
    *result += run_job(job);
}

int main() {
  std::vector<std::thread> threads;
  std::vector<unsigned> results(64);
  for (unsigned &r : results)
    threads.emplace_back(worker, &r);
  for (int job = 0; job < 1500; job++) {
    queue.push_job(job);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  queue.close();
  unsigned sum = 0;
  for (size_t i = 0; i < threads.size(); i++) {
    threads[i].join();
    sum += results[i];
  }
  std::printf("%u\n", sum);
}
