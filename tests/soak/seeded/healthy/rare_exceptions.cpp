// SPDX-License-Identifier: MIT
// does: throws and catches a few exceptions for bad input
// record:
// build: g++ -O1 -g
#include <cstdio>
#include <stdexcept>
#include <string>
#include <unistd.h>

static int parse(const std::string &text) {
  if (text.empty() || text[0] == 'x') throw std::invalid_argument("not a number: " + text);
  return std::stoi(text);
}

int main() {
  long sum = 0;
  int bad = 0;
  for (int i = 0; i < 2000; i++) {
    try {
      sum += parse(i % 100 == 99 ? "x" : std::to_string(i));
    } catch (const std::exception &) {
      bad++;
    }
    usleep(500);
  }
  std::printf("%ld, %d bad\n", sum, bad);
}
