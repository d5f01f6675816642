// SPDX-License-Identifier: MIT
// does: writes a buffered log of some megabytes
// record: --sample --wall
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

static std::string line_of(int i) {
  return "2024-01-01 12:00:00 request " + std::to_string(i) + " took " + std::to_string(i % 97) +
         " ms\n";
}

int main() {
  std::string path = "/tmp/log-writer." + std::to_string(getpid());
  {
    std::ofstream log(path);
    for (int i = 0; i < 60000; i++) {
      log << line_of(i);
      if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::remove(path.c_str());
  std::puts("done");
}
