// SPDX-License-Identifier: MIT
// fault: duplicates are found by comparing each address with all earlier ones
// culprit: contains, collect_unique
// kind: CPU
// record:
// build: g++ -O2 -g
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

struct message {
  std::string sender;
  int size;
};

static std::vector<message> make_messages(int count) {
  std::vector<message> messages;
  for (int i = 0; i < count; i++)
    messages.push_back({"user" + std::to_string(i * 7919 % 18000) + "@example.org", i % 1000});
  return messages;
}

static __attribute__((noinline)) bool contains(const std::vector<std::string> &all,
                                               const std::string &name) {
  for (const std::string &one : all)
    if (one == name) return true;
  return false;
}

static __attribute__((noinline)) std::vector<std::string>
collect_unique(const std::vector<message> &messages) {
  std::vector<std::string> senders;
  for (const message &m : messages)
    if (!contains(senders, m.sender)) senders.push_back(m.sender);
  return senders;
}

static __attribute__((noinline)) long total_size(const std::vector<message> &messages) {
  long sum = 0;
  for (const message &m : messages)
    sum += m.size;
  return sum;
}

static __attribute__((noinline)) void sort_by_size(std::vector<message> &messages) {
  std::sort(messages.begin(), messages.end(),
            [](const message &a, const message &b) { return a.size < b.size; });
}

int main() {
  std::vector<message> messages = make_messages(30000);
  sort_by_size(messages);
  std::vector<std::string> senders = collect_unique(messages);
  std::printf("%zu senders, %ld bytes\n", senders.size(), total_size(messages));
}
