// SPDX-License-Identifier: MIT
// fault: thirty idle plugins each ask every millisecond whether there is something to do
// culprit: poll_changes, plugin, sleep_until_next, run_plugin
// kind: wake, woke, timer, sleep, poll
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

struct plugin {
  std::string name;
  std::atomic<int> requests{0};
  long polls = 0;
};

static std::atomic<bool> stop;

static __attribute__((noinline)) bool has_work(plugin &p) { return p.requests.exchange(0) > 0; }

static __attribute__((noinline)) void sleep_until_next() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

static __attribute__((noinline)) int poll_changes(plugin &p) {
  int done = 0;
  while (!stop) {
    sleep_until_next();
    p.polls++;
    if (has_work(p)) done++;
  }
  return done;
}

static void run_plugin(plugin *p, int *done) { *done = poll_changes(*p); }

int main() {
  std::vector<plugin> plugins(30);
  std::vector<int> done(30);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < plugins.size(); i++) {
    plugins[i].name = "plugin" + std::to_string(i);
    threads.emplace_back(run_plugin, &plugins[i], &done[i]);
  }
  for (int i = 0; i < 5; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    plugins[static_cast<size_t>(i)].requests++;
  }
  stop = true;
  int sum = 0;
  for (size_t i = 0; i < threads.size(); i++) {
    threads[i].join();
    sum += done[i];
  }
  std::printf("%d\n", sum);
}
