// SPDX-License-Identifier: MIT
// fault: a converter flushes its log to the disk after each line
// culprit: log_line, flush_log, convert_record
// kind: fsync, fdatasync, flush, disk, blocked, write
// record: --sample --wall
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

class log_file {
public:
  log_file() {
    char path[] = "logXXXXXX";
    file_ = fdopen(mkstemp(path), "w");
    unlink(path);
  }
  ~log_file() { std::fclose(file_); }
  __attribute__((noinline)) void log_line(const std::string &line) {
    std::fprintf(file_, "%s\n", line.c_str());
    flush_log();
    lines_++;
  }
  int lines() const { return lines_; }

private:
  __attribute__((noinline)) void flush_log() {
    std::fflush(file_);
    fdatasync(fileno(file_));
  }
  FILE *file_;
  int lines_ = 0;
};

static __attribute__((noinline)) unsigned convert_record(log_file &log, int number) {
  unsigned sum = static_cast<unsigned>(number);
  for (int i = 0; i < 2000; i++)
    sum = sum * 31 + static_cast<unsigned>(i);
  log.log_line("converted record " + std::to_string(number) + " to " + std::to_string(sum));
  return sum;
}

int main() {
  log_file log;
  unsigned sum = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  for (int i = 0; i < 100000 && std::chrono::steady_clock::now() < end; i++)
    sum += convert_record(log, i);
  std::printf("%u %d\n", sum, log.lines());
}
