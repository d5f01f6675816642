// SPDX-License-Identifier: MIT
// does: a table that lives until the end is never freed, and the program ends quickly
// record: --malloc=all
// build: g++ -O1 -g
#include <cstdio>
#include <map>
#include <string>

static std::map<std::string, int> &names() {
  static auto *all = new std::map<std::string, int>; // on purpose: no destructor at the end
  return *all;
}

static void load(int count) {
  for (int i = 0; i < count; i++)
    names()["a name that does not fit into the object " + std::to_string(i)] = i;
}

int main() {
  load(20000);
  long sum = 0;
  for (int i = 0; i < 20000; i += 3)
    sum += names().at("a name that does not fit into the object " + std::to_string(i));
  std::printf("%ld\n", sum);
}
