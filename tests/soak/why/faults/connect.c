/* SPDX-License-Identifier: MIT
 *
 * Fault: connects to an address.
 * Expected: sensitive-call report_usage
 */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <math.h>
#include <stdio.h>
__attribute__((noinline)) void report_usage(void) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(8125)};
  inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
  connect(s, (void *)&a, sizeof a);
  close(s);
}
int main() {
  double x = 0;
  for (int i = 1; i < 3000000; i++) {
    x += sqrt(i);
  }
  report_usage();
  printf("%f\n", x);
}
