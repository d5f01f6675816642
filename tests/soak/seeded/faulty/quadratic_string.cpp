// SPDX-License-Identifier: MIT
// fault: a report is built with `text = text + line`, which copies all of it each time
// culprit: append_row, build_report
// kind: CPU, allocations, temporary, copy, copies
// untrue: grows
// record:
// build: g++ -O1 -g
#include <cstdio>
#include <string>
#include <vector>

struct measurement {
  int device;
  double value;
};

static std::vector<measurement> measure(int count) {
  std::vector<measurement> all;
  for (int i = 0; i < count; i++)
    all.push_back({i % 17, i * 0.37});
  return all;
}

static __attribute__((noinline)) std::string format_row(const measurement &m) {
  char line[80];
  std::snprintf(line, sizeof line, "device %d measured %.3f\n", m.device, m.value);
  return line;
}

static __attribute__((noinline)) void append_row(std::string &text, const measurement &m) {
  text = text + format_row(m);
}

static __attribute__((noinline)) std::string build_report(const std::vector<measurement> &all) {
  std::string text;
  for (const measurement &m : all)
    append_row(text, m);
  return text;
}

static __attribute__((noinline)) double mean_of(const std::vector<measurement> &all) {
  double sum = 0;
  for (const measurement &m : all)
    sum += m.value;
  return sum / static_cast<double>(all.size());
}

int main() {
  std::vector<measurement> all = measure(14000);
  std::string text = build_report(all);
  std::printf("%zu bytes, mean %f\n", text.size(), mean_of(all));
}
