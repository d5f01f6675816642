// SPDX-License-Identifier: MIT
// does: an event loop with two pipes that answers 100 messages a second
// record: --sample --wall --stall
// build: gcc -O1 -g -pthread
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *sender(void *argument) {
  int fd = *(int *)argument;
  for (int i = 0; i < 100; i++) {
    if (write(fd, "message", 7) != 7) break;
    usleep(20000);
  }
  close(fd);
  return NULL;
}

static int handle(const char *text, ssize_t length) {
  unsigned sum = 0;
  for (int i = 0; i < 20000; i++)
    sum = sum * 31 + (unsigned char)text[i % length];
  return (int)(sum & 255);
}

int main(void) {
  int ends[2][2], open = 2, sum = 0;
  pthread_t threads[2];
  struct pollfd fds[2];
  for (int i = 0; i < 2; i++) {
    if (pipe(ends[i])) return 1;
    fds[i] = (struct pollfd){.fd = ends[i][0], .events = POLLIN};
    pthread_create(&threads[i], NULL, sender, &ends[i][1]);
  }
  while (open > 0 && poll(fds, 2, -1) > 0) {
    for (int i = 0; i < 2; i++) {
      if (!fds[i].revents) continue;
      char text[64];
      ssize_t n = read(fds[i].fd, text, sizeof text);
      if (n <= 0) {
        fds[i].fd = -1;
        open--;
      } else {
        sum += handle(text, n);
      }
    }
  }
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  printf("%d\n", sum);
}
