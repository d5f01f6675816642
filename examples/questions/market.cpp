/* SPDX-License-Identifier: MIT
 * docs/view.md: a server with an event loop and three workers, who share a lock. The loop stalls when it saves. */
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;

static std::mutex book_lock, queue_lock;
static std::condition_variable work_ready;
static std::deque<int> queue;
static std::vector<std::string> book; // grows; nothing is ever removed
static bool closing;

static unsigned long price(int order) {
  unsigned long sum = 17;
  for (int i = 0; i < 2000000; i++) sum = sum * 31 + static_cast<unsigned long>(order ^ i);
  return sum;
}

static void enter_in_book(int order, unsigned long sum) {
  std::lock_guard<std::mutex> one(book_lock);
  for (int i = 0; i < 40; i++) book.push_back(std::to_string(sum) + std::string(400, 'x') + std::to_string(order));
  std::this_thread::sleep_for(4ms); // writes to the disk
}

static void worker(const char *name) {
  pthread_setname_np(pthread_self(), name);
  for (;;) {
    std::unique_lock<std::mutex> one(queue_lock);
    work_ready.wait(one, [] { return closing || !queue.empty(); });
    if (queue.empty()) return;
    int order = queue.front();
    queue.pop_front();
    one.unlock();
    enter_in_book(order, price(order));
  }
}

static void save_book() {
  std::string whole;
  std::lock_guard<std::mutex> one(book_lock);
  for (int round = 0; round < 25; round++) {
    whole.clear();
    for (const std::string &line : book) whole += line;
  }
  std::printf("saved %zu bytes\n", whole.size());
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  const char *names[] = {"worker-1", "worker-2", "worker-3"};
  std::vector<std::thread> workers;
  int ends[2];
  if (pipe(ends)) return 1;
  for (const char *name : names) workers.emplace_back(worker, name);
  for (int i = 0; i < rounds; i++) {
    struct pollfd wait = {ends[0], POLLIN, 0};
    poll(&wait, 1, 5);
    {
      std::lock_guard<std::mutex> one(queue_lock);
      if (queue.size() < 6) queue.push_back(i);
    }
    work_ready.notify_one();
    if (i % 100 == 99) save_book();
  }
  {
    std::lock_guard<std::mutex> one(queue_lock);
    closing = true;
  }
  work_ready.notify_all();
  for (std::thread &one : workers) one.join();
}
