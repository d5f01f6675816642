// SPDX-License-Identifier: MIT
// does: an epoll server with 20 clients that come, talk and go
// record: --sample --wall --stall
// build: g++ -O1 -g -pthread
#include <chrono>
#include <cstdio>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

static void client(int fd, int messages) {
  char answer[32];
  for (int i = 0; i < messages; i++) {
    if (write(fd, "question", 8) != 8 || read(fd, answer, sizeof answer) <= 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  close(fd);
}

static bool serve(int fd) {
  char text[64];
  ssize_t n = read(fd, text, sizeof text);
  return n > 0 && write(fd, text, static_cast<size_t>(n)) == n;
}

int main() {
  int loop = epoll_create1(0), open = 20, served = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 20; i++) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.fd = pair[0];
    epoll_ctl(loop, EPOLL_CTL_ADD, pair[0], &e);
    clients.emplace_back(client, pair[1], 40 + i * 2);
  }
  epoll_event events[8];
  while (open > 0) {
    int n = epoll_wait(loop, events, 8, -1);
    for (int i = 0; i < n; i++) {
      if (serve(events[i].data.fd)) {
        served++;
      } else {
        close(events[i].data.fd);
        open--;
      }
    }
  }
  for (auto &t : clients)
    t.join();
  close(loop);
  std::printf("%d\n", served);
}
