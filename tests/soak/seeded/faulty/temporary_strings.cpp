// SPDX-License-Identifier: MIT
// fault: the inner loop of a filter makes a lower-case copy of both strings for each comparison
// culprit: matches, lower_copy, count_matches
// kind: temporary, short-lived, allocations, CPU
// record: --malloc=all --sample
// build: g++ -O2 -g
#include <cctype>
#include <cstdio>
#include <string>
#include <vector>

static __attribute__((noinline)) std::string lower_copy(const std::string &text) {
  std::string copy;
  for (char c : text)
    copy += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return copy;
}

static __attribute__((noinline)) bool matches(const std::string &line, const std::string &word) {
  return lower_copy(line).find(lower_copy(word)) != std::string::npos;
}

static std::vector<std::string> make_lines(int count) {
  std::vector<std::string> lines;
  for (int i = 0; i < count; i++)
    lines.push_back("Line number " + std::to_string(i) +
                    " of the Log says that everything is Fine");
  return lines;
}

static __attribute__((noinline)) size_t count_matches(const std::vector<std::string> &lines,
                                                      const std::vector<std::string> &words) {
  size_t count = 0;
  for (const std::string &line : lines)
    for (const std::string &word : words)
      count += matches(line, word);
  return count;
}

static __attribute__((noinline)) size_t total_length(const std::vector<std::string> &lines) {
  size_t length = 0;
  for (const std::string &line : lines)
    length += line.size();
  return length;
}

int main() {
  std::vector<std::string> lines = make_lines(6000);
  std::vector<std::string> words = {"Everything that a user might ask",    "FINE",
                                    "a Failure of the network connection", "NUMBER 77",
                                    "An Unexpected end of the whole file", "log"};
  size_t count = 0;
  for (int round = 0; round < 60; round++)
    count += count_matches(lines, words);
  std::printf("%zu %zu\n", count, total_length(lines));
}
