#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde stacks names the descriptors that threads wait for in poll, ppoll, select, pselect and epoll_wait: those that
the program put there."""
import json
import os
import re

from helpers import compile_c, kill, run_cases, sonde, start_ready, states_of, until

SOURCE = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>
static int a[2], b[2];
#define POLLED struct pollfd p[] = {{a[0], POLLIN, 0}, {-1, 0, 0}, {b[0], POLLIN, 0}}
#define SELECTED fd_set r, e; FD_ZERO(&r); FD_ZERO(&e); FD_SET(a[0], &r); FD_SET(b[0], &e); FD_SET(a[0], &e)
static void *in_poll(void *x) { POLLED; poll(p, 3, -1); return x; }
static void *in_ppoll(void *x) { POLLED; ppoll(p, 3, 0, 0); return x; }
static void *in_select(void *x) { SELECTED; select(b[0] + 1, &r, 0, &e, 0); return x; }
static void *in_pselect(void *x) { SELECTED; pselect(b[0] + 1, &r, 0, &e, 0, 0); return x; }
static void *in_epoll(void *x) {
  struct epoll_event event = {.events = EPOLLIN};
  int e = epoll_create1(0);
  epoll_ctl(e, EPOLL_CTL_ADD, a[0], &event);
  epoll_ctl(e, EPOLL_CTL_ADD, b[0], &event);
  epoll_wait(e, &event, 1, -1);
  return x;
}
int main(void) {
  void *(*const calls[])(void *) = {in_poll, in_ppoll, in_select, in_pselect, in_epoll};
  pthread_t thread;
  if (pipe(a) || pipe(b)) return 1;
  for (int i = 0; i < 5; i++) pthread_create(&thread, 0, calls[i], 0);
  puts("ready");
  fflush(stdout);
  pthread_join(thread, 0);
}
"""


def descriptors_of_each_call():
    process = start_ready([compile_c(SOURCE, "-g", "-O1", "-pthread")])
    try:
        until(lambda: list(states_of(process.pid).values()).count("S") == 6, "all threads wait")
        read_ends = sorted(int(fd) for fd in os.listdir(f"/proc/{process.pid}/fd")
                           if os.readlink(f"/proc/{process.pid}/fd/{fd}").startswith("pipe:"))
        threads = json.loads(sonde("stacks", "--json", process.pid))["threads"]
        waiting = {frame["function"]: thread for thread in threads for frame in thread["frames"]
                   if frame.get("function", "").startswith("in_")}
        assert len(waiting) == 5, threads
        for name, thread in waiting.items():
            assert len(thread["fds"]) == 2 and set(thread["fds"]) < set(read_ends), (name, thread["fds"])
        assert len({frozenset(thread["fds"]) for thread in waiting.values()}) == 1, waiting  # epoll has no order
        text = sonde("stacks", process.pid)
        assert len(re.findall(r" in (?:p?poll|p?select|epoll_wait)\((?:fd \d+: )?fd \d+ pipe:\[\d+\], fd \d+ pipe:\[\d+\]\)\n",
                              text)) == 5, text
    finally:
        kill(process)


run_cases(globals())
