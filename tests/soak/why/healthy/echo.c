/* SPDX-License-Identifier: MIT
 *
 * Healthy: a server with three clients.
 */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <unistd.h>
static int port;
static void *client(void *u) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = port};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(s, (void *)&a, sizeof a);
  char b[64] = "hi";
  for (int i = 0; i < 20000; i++) {
    write(s, b, 64);
    read(s, b, 64);
  }
  close(s);
  return u;
}
int main() {
  int l = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bind(l, (void *)&a, sizeof a);
  listen(l, 10);
  socklen_t n = sizeof a;
  getsockname(l, (void *)&a, &n);
  port = a.sin_port;
  pthread_t t[3];
  for (int i = 0; i < 3; i++)
    pthread_create(&t[i], 0, client, 0);
  int e = epoll_create1(0);
  struct epoll_event ev = {EPOLLIN, {.fd = l}};
  epoll_ctl(e, EPOLL_CTL_ADD, l, &ev);
  int open = 0, seen = 0;
  while (seen < 3 || open) {
    struct epoll_event r[8];
    int k = epoll_wait(e, r, 8, -1);
    for (int i = 0; i < k; i++) {
      if (r[i].data.fd == l) {
        int c = accept(l, 0, 0);
        ev.data.fd = c;
        epoll_ctl(e, EPOLL_CTL_ADD, c, &ev);
        open++;
        seen++;
      } else {
        char b[64];
        ssize_t g = read(r[i].data.fd, b, 64);
        if (g <= 0) {
          close(r[i].data.fd);
          open--;
        } else
          write(r[i].data.fd, b, g);
      }
    }
  }
  for (int i = 0; i < 3; i++)
    pthread_join(t[i], 0);
}
