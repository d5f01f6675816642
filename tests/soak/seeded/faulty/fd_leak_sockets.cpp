// SPDX-License-Identifier: MIT
// fault: a health check opens a connection each time, and closes it only if the answer is bad
// culprit: check_health, open_connection, probe
// kind: descriptor, socket
// record:
// build: g++ -O1 -g
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

struct backend {
  std::string name;
  int far_end = -1;
};

static __attribute__((noinline)) int open_connection(backend &b) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return -1;
  if (b.far_end >= 0) close(b.far_end);
  b.far_end = pair[1];
  return pair[0];
}

static __attribute__((noinline)) bool probe(int fd, backend &b) {
  char answer[16] = "";
  if (write(fd, "ping\n", 5) != 5 || read(b.far_end, answer, sizeof answer) != 5) return false;
  return std::strncmp(answer, "ping", 4) == 0;
}

static __attribute__((noinline)) bool check_health(backend &b) {
  int fd = open_connection(b);
  if (fd < 0) return false;
  if (!probe(fd, b)) {
    close(fd);
    return false;
  }
  return true; // fd stays open
}

static __attribute__((noinline)) int check_all(std::vector<backend> &backends) {
  int healthy = 0;
  for (backend &b : backends)
    healthy += check_health(b);
  return healthy;
}

int main() {
  std::vector<backend> backends;
  for (int i = 0; i < 3; i++)
    backends.push_back({"backend" + std::to_string(i)});
  int healthy = 0;
  for (int i = 0; i < 300; i++) {
    healthy += check_all(backends);
    usleep(8000);
  }
  std::printf("%d\n", healthy);
}
