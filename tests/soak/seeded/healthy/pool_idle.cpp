// SPDX-License-Identifier: MIT
// does: a pool of eight workers that wait most of the time
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class pool {
public:
  explicit pool(int size) {
    for (int i = 0; i < size; i++)
      threads_.emplace_back([this] { run(); });
  }
  ~pool() {
    {
      std::lock_guard<std::mutex> hold(lock_);
      closed_ = true;
    }
    changed_.notify_all();
    for (auto &t : threads_)
      t.join();
  }
  void submit(std::function<void()> job) {
    std::lock_guard<std::mutex> hold(lock_);
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }

private:
  void run() {
    std::unique_lock<std::mutex> hold(lock_);
    for (;;) {
      changed_.wait(hold, [this] { return closed_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      hold.unlock();
      job();
      hold.lock();
    }
  }
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool closed_ = false;
  std::vector<std::thread> threads_;
};

int main() {
  std::vector<double> results(40);
  {
    pool p(8);
    for (size_t i = 0; i < results.size(); i++) {
      p.submit([&results, i] {
        for (int k = 1; k < 100000; k++)
          results[i] += 1.0 / k;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  std::printf("%f\n", results[7]);
}
