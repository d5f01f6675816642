// SPDX-License-Identifier: MIT
// fault: a client tries again at once, for ever, to connect to a socket that does not exist
// culprit: connect_backend, try_connect
// kind: busy, spin, CPU, retr, fail
// why: 1.0
// build: gcc -O1 -g
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct backend {
  const char *path;
  long attempts;
};

static __attribute__((noinline)) int try_connect(struct backend *b) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  strncpy(to.sun_path, b->path, sizeof to.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  b->attempts++;
  if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
  close(fd);
  return -1;
}

static __attribute__((noinline)) int connect_backend(struct backend *b) {
  int fd;
  while ((fd = try_connect(b)) < 0 && (errno == ENOENT || errno == ECONNREFUSED))
    continue; /* without a pause */
  return fd;
}

static __attribute__((noinline)) int ask(int fd, const char *question) {
  return (int)write(fd, question, strlen(question));
}

int main(void) {
  struct backend b = {"/tmp/no-such-backend.socket", 0};
  int fd = connect_backend(&b);
  printf("%d %ld\n", ask(fd, "status\n"), b.attempts);
}
