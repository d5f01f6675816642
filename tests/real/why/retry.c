/* SPDX-License-Identifier: MIT */
/* It waits for an answer that nobody sends, pauses, and tries again: no wait lasts long. */
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

static int wait_for_answer(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, 90);
}

__attribute__((noinline)) static void reach_server(void) {
  const struct timespec pause = {0, 70000000};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  while (wait_for_answer(fd) <= 0)
    nanosleep(&pause, 0);
}

int main(void) { reach_server(); }
