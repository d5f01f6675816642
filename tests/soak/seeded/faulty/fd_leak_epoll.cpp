// SPDX-License-Identifier: MIT
// fault: each wait makes an epoll descriptor and a timer of its own, and closes the timer only
// culprit: wait_readable
// kind: descriptor, epoll
// record:
// build: g++ -O1 -g
#include <cstdint>
#include <cstdio>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct channel {
  int in, out;
};

static channel make_link() {
  int ends[2];
  if (pipe(ends)) ends[0] = ends[1] = -1;
  return {ends[0], ends[1]};
}

static __attribute__((noinline)) int make_timer(int ms) {
  int fd = timerfd_create(CLOCK_MONOTONIC, 0);
  itimerspec when{};
  when.it_value.tv_nsec = ms * 1000000L;
  timerfd_settime(fd, 0, &when, nullptr);
  return fd;
}

static void watch(int loop, int fd) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.fd = fd;
  epoll_ctl(loop, EPOLL_CTL_ADD, fd, &e);
}

static __attribute__((noinline)) bool wait_readable(int fd, int ms) {
  int loop = epoll_create1(0);
  int timer = make_timer(ms);
  watch(loop, fd);
  watch(loop, timer);
  epoll_event e{};
  int n = epoll_wait(loop, &e, 1, -1);
  close(timer);
  return n == 1 && e.data.fd == fd; // loop stays open
}

static __attribute__((noinline)) int exchange(channel &l, int i) {
  if (i % 3 == 0 && write(l.out, &i, sizeof i) != sizeof i) return -1;
  int value = 0;
  if (!wait_readable(l.in, 4)) return 0;
  return read(l.in, &value, sizeof value) == sizeof value ? value : -1;
}

int main() {
  channel l = make_link();
  long sum = 0;
  for (int i = 0; i < 800; i++)
    sum += exchange(l, i);
  std::printf("%ld\n", sum);
}
