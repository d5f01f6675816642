// SPDX-License-Identifier: MIT
// fault: a static map keyed by connection keeps the statistics of connections that are gone
// culprit: statistics_of, note_request
// kind: grow, grew, leak, never freed
// record: --malloc=all
// build: g++ -O2 -g
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct connection {
  int fd;
  std::string peer;
};

struct statistics {
  std::vector<double> latencies;
  std::string last_path;
};

static __attribute__((noinline)) statistics &statistics_of(const connection *c) {
  static std::map<std::pair<const connection *, int>, statistics> all; // nobody erases
  statistics &s = all[{c, c->fd}];
  if (s.latencies.empty()) s.latencies.reserve(256);
  return s;
}

static __attribute__((noinline)) void note_request(const connection *c, const std::string &path,
                                                   double ms) {
  statistics &s = statistics_of(c);
  s.latencies.push_back(ms);
  s.last_path = path;
}

static __attribute__((noinline)) std::unique_ptr<connection> accept_connection(int number) {
  return std::make_unique<connection>(connection{number, "10.0.0." + std::to_string(number % 250)});
}

static __attribute__((noinline)) int serve(const connection &c, int requests) {
  for (int i = 0; i < requests; i++)
    note_request(&c, "/static/images/logo" + std::to_string(i) + ".png", i * 0.1);
  return requests;
}

int main() {
  long served = 0;
  for (int i = 0; i < 8000; i++) {
    auto c = accept_connection(i);
    served += serve(*c, 3 + i % 4);
    if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("%ld\n", served);
}
