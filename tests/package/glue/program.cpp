// SPDX-License-Identifier: MIT
// usage: program [leak|budget|stall|call]
#include <cstdio>
#include <sonde/stall.h>

#include "faults.hpp"

int main(int argc, char **argv) {
  std::puts("a line"); // whose buffer is never freed
  std::string fault = argc > 1 ? argv[1] : "";
  if (fault == "leak") lose_block();
  if (fault == "budget") make_words(200);
  if (fault == "call") dial();
  if (fault == "stall") {
    sonde::stall_scope scope;
    be_late();
  }
  return fault == "fail" ? 7 : 0;
}
