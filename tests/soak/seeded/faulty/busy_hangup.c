// SPDX-License-Identifier: MIT
// fault: the loop ignores the end of a peer: poll returns at once for ever
// culprit: serve, main, read_client
// kind: busy, spin, CPU
// why: 1.2
// build: gcc -O1 -g -pthread
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
  int fd;
  long bytes, turns;
};

static __attribute__((noinline)) void read_client(struct client *c) {
  char buffer[256];
  ssize_t n = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n > 0) c->bytes += n; /* 0, the end, is not looked at */
  c->turns++;
}

static void *peer(void *argument) {
  int fd = *(int *)argument;
  for (int i = 0; i < 10; i++) {
    if (write(fd, "hello", 5) != 5) break;
    usleep(20000);
  }
  close(fd);
  return NULL;
}

static __attribute__((noinline)) void serve(struct client *clients, int n) {
  struct pollfd fds[2];
  for (;;) {
    for (int i = 0; i < n; i++)
      fds[i] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
    if (poll(fds, (nfds_t)n, 1000) < 0) return;
    for (int i = 0; i < n; i++)
      if (fds[i].revents) read_client(&clients[i]);
  }
}

int main(void) {
  struct client clients[2] = {{0}};
  int pairs[2][2];
  pthread_t thread;
  for (int i = 0; i < 2; i++) {
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i])) return 1;
    clients[i].fd = pairs[i][0];
  }
  pthread_create(&thread, NULL, peer, &pairs[1][1]);
  serve(clients, 2);
}
