// SPDX-License-Identifier: MIT
// What a test of someone may do wrong, once each; and a healthy part.
#pragma once
#include <arpa/inet.h>
#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

inline void *volatile lost;

[[gnu::noinline]] inline void lose_block() { lost = std::malloc(777); }

[[gnu::noinline]] inline std::size_t make_words(int count) {
  std::vector<std::string> words;
  for (int i = 0; i < count; i++)
    words.push_back(std::string(40, 'w'));
  return words.size();
}

[[gnu::noinline]] inline void be_late() {
  for (int i = 0; i < 12; i++)
    usleep(50000);
}

[[gnu::noinline]] inline void dial() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  (void)!connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address);
  close(fd);
}
