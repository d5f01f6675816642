/* SPDX-License-Identifier: MIT
 *
 * Healthy: a server without clients.
 */
#include <unistd.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <poll.h>
int main() {
  int l = socket(AF_INET, SOCK_STREAM, 0);
  listen(l, 5);
  struct pollfd p = {l, POLLIN, 0};
  poll(&p, 1, 1500);
}
