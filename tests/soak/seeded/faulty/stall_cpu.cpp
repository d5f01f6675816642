// SPDX-License-Identifier: MIT
// fault: the event loop sorts and searches a big table itself for one kind of message
// culprit: rebuild_index
// site: score_of
// kind: stall, CPU
// record: --sample --wall --stall
// build: g++ -O1 -g
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vector>

struct item {
  uint32_t key;
  double score;
};

static std::vector<item> table(20000);

static double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

static __attribute__((noinline)) double score_of(const item &i) {
  double score = i.key;
  for (int k = 0; k < 200; k++)
    score = score * 0.999 + static_cast<double>(i.key % (k + 3u));
  return score;
}

static __attribute__((noinline)) void rebuild_index() {
  double end = cpu_seconds() + 0.4; // as long on any machine
  do {
    for (item &i : table)
      i.score = score_of(i);
    std::sort(table.begin(), table.end(),
              [](const item &a, const item &b) { return a.score < b.score; });
  } while (cpu_seconds() < end);
}

static __attribute__((noinline)) uint32_t answer(int number) {
  return table[static_cast<size_t>(number) % table.size()].key;
}

static __attribute__((noinline)) uint32_t on_timer(int number) {
  if (number % 40 == 20) rebuild_index();
  return answer(number);
}

int main() {
  for (size_t i = 0; i < table.size(); i++)
    table[i].key = static_cast<uint32_t>(i * 2654435761u);
  int loop = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
  itimerspec every{};
  every.it_interval.tv_nsec = every.it_value.tv_nsec = 15000000;
  timerfd_settime(timer, 0, &every, nullptr);
  epoll_event e{};
  e.events = EPOLLIN;
  epoll_ctl(loop, EPOLL_CTL_ADD, timer, &e);
  uint32_t sum = 0;
  for (int i = 0; i < 80; i++) {
    uint64_t ticks;
    if (epoll_wait(loop, &e, 1, -1) != 1 || read(timer, &ticks, sizeof ticks) != sizeof ticks)
      break;
    sum += on_timer(i);
  }
  std::printf("%u\n", sum);
}
