// SPDX-License-Identifier: MIT
// does: searches lines with a regular expression, which allocates much
// record: --malloc=all --sample
// build: g++ -O2 -g
#include <cstdio>
#include <regex>
#include <string>
#include <vector>

static std::vector<std::string> make_lines(int count) {
  std::vector<std::string> lines;
  for (int i = 0; i < count; i++)
    lines.push_back("10.0.0." + std::to_string(i % 250) + " GET /page/" + std::to_string(i) +
                    " 200");
  return lines;
}

int main() {
  std::regex pattern(R"((\d+\.\d+\.\d+\.\d+) (GET|POST) (/\S*) (\d+))");
  long sum = 0;
  for (const std::string &line : make_lines(200000)) {
    std::smatch found;
    if (std::regex_match(line, found, pattern))
      sum += std::stol(found[4]) + static_cast<long>(found[3].length());
  }
  std::printf("%ld\n", sum);
}
