/* SPDX-License-Identifier: MIT
 * docs/calls.md: a program that resizes pictures, and tells somebody about it. With -DFIXED: it does not. */
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>

static void report_usage() {
  const char *user = std::getenv("USER");
  sockaddr_in collector = {};
  collector.sin_family = AF_INET;
  collector.sin_port = htons(9);
  collector.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int line = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(line, reinterpret_cast<sockaddr *>(&collector), sizeof collector) == 0)
    dprintf(line, "%s resized a picture\n", user ? user : "somebody");
  close(line);
}

static void resize(const char *name) {
  if (std::FILE *file = std::fopen(name, "w")) {
    std::fputs("a small picture\n", file);
    std::fclose(file);
  }
#ifndef FIXED
  report_usage();
#endif
}

int main() {
  resize("small.png");
  std::puts("resized");
}
