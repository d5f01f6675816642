// SPDX-License-Identifier: MIT
// fault: an exception of a worker thread is caught by nobody
// culprit: read_column, convert_row
// kind: exception, out_of_range, abort, terminate
// symptom: crash, abort
// record:
// build: g++ -O1 -g -pthread
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using row = std::vector<std::string>;

static __attribute__((noinline)) row split(const std::string &line) {
  row r;
  size_t from = 0;
  while (from <= line.size()) {
    size_t comma = line.find(',', from);
    if (comma == std::string::npos) comma = line.size();
    r.push_back(line.substr(from, comma - from));
    from = comma + 1;
  }
  return r;
}

static __attribute__((noinline)) long read_column(const row &r, size_t i) {
  return std::stol(r.at(i));
}

static __attribute__((noinline)) long convert_row(const std::string &line) {
  row r = split(line);
  return read_column(r, 0) + read_column(r, 2) * 100;
}

static std::atomic<long> total;

static void worker(const std::vector<std::string> &lines, size_t from, size_t step) {
  for (size_t i = from; i < lines.size(); i += step)
    total += convert_row(lines[i]);
}

static std::vector<std::string> make_lines() {
  std::vector<std::string> lines;
  for (int i = 0; i < 30000; i++)
    lines.push_back(std::to_string(i) + ",name" + std::to_string(i) + "," + std::to_string(i * 2));
  lines[29001] = "29001,truncated";
  return lines;
}

int main() {
  std::vector<std::string> lines = make_lines();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; i++)
    threads.emplace_back(worker, std::cref(lines), i, 3);
  for (std::thread &t : threads)
    t.join();
  std::printf("%ld\n", total.load());
}
