// SPDX-License-Identifier: MIT
// fault: the producer is faster than the consumer, and the queue has no limit
// culprit: produce, make_event, push
// kind: grow, grew
// record: --malloc=all
// build: g++ -O1 -g -pthread
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

struct event {
  std::string source, text;
  long number;
};

class event_queue {
public:
  __attribute__((noinline)) void push(event e) {
    std::lock_guard<std::mutex> hold(lock_);
    events_.push_back(std::move(e));
    ready_.notify_one();
  }
  bool pop(event &e) {
    std::unique_lock<std::mutex> hold(lock_);
    if (!ready_.wait_for(hold, std::chrono::milliseconds(100), [&] { return !events_.empty(); }))
      return false;
    e = std::move(events_.front());
    events_.pop_front();
    return true;
  }

private:
  std::mutex lock_;
  std::condition_variable ready_;
  std::deque<event> events_;
};

static event_queue queue;
static std::atomic<bool> stop;

static __attribute__((noinline)) event make_event(long number) {
  return {"sensor number " + std::to_string(number % 10),
          std::string(800, static_cast<char>('a' + number % 26)), number};
}

static void produce() {
  for (long n = 0; !stop; n++) {
    queue.push(make_event(n));
    if (n % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

static __attribute__((noinline)) size_t store(const event &e) {
  std::this_thread::sleep_for(std::chrono::microseconds(900)); // the database
  return e.text.size() + e.source.size();
}

static void consume() {
  event e;
  size_t stored = 0;
  while (!stop)
    if (queue.pop(e)) stored += store(e);
  std::printf("%zu\n", stored);
}

int main() {
  std::thread producer(produce), consumer(consume);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  stop = true;
  producer.join();
  consumer.join();
  std::_Exit(0); // as services do
}
