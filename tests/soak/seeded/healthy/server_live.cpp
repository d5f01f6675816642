// SPDX-License-Identifier: MIT
// does: an idle server with a pool of four workers, looked at while it runs
// why: 1.0
// build: g++ -O1 -g -pthread
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <netinet/in.h>
#include <queue>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

static std::mutex lock;
static std::condition_variable ready;
static std::queue<int> accepted;

static void worker() {
  for (;;) {
    std::unique_lock<std::mutex> hold(lock);
    ready.wait(hold, [] { return !accepted.empty(); });
    int fd = accepted.front();
    accepted.pop();
    hold.unlock();
    if (write(fd, "hello\n", 6) != 6) std::perror("write");
    close(fd);
  }
}

int main() {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, reinterpret_cast<sockaddr *>(&any), sizeof any) || listen(fd, 10)) return 1;
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; i++)
    workers.emplace_back(worker);
  for (;;) {
    int client = accept(fd, nullptr, nullptr);
    std::lock_guard<std::mutex> hold(lock);
    accepted.push(client);
    ready.notify_one();
  }
}
