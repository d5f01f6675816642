// SPDX-License-Identifier: MIT
// fault: threads that have ended are neither joined nor detached: their stacks stay mapped
// culprit: start_upload, upload_all
// kind: thread, join, grow, grew, mapp
// record: --malloc=all
// build: g++ -O1 -g -pthread
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <string>
#include <unistd.h>
#include <vector>

struct upload {
  int number;
  unsigned sum;
};

static __attribute__((noinline)) unsigned checksum(int number) {
  char buffer[65536];
  std::memset(buffer, number, sizeof buffer);
  unsigned sum = 0;
  for (char c : buffer)
    sum = sum * 31 + static_cast<unsigned char>(c);
  return sum;
}

static void *run_upload(void *argument) {
  auto *u = static_cast<upload *>(argument);
  u->sum = checksum(u->number);
  return nullptr;
}

static __attribute__((noinline)) void start_upload(upload &u) {
  pthread_t thread;
  pthread_create(&thread, nullptr, run_upload, &u); // nobody keeps the thread
}

static __attribute__((noinline)) void upload_all(std::vector<upload> &uploads) {
  for (upload &u : uploads) {
    start_upload(u);
    usleep(5000);
  }
}

int main() {
  std::vector<upload> uploads(500);
  for (size_t i = 0; i < uploads.size(); i++)
    uploads[i].number = static_cast<int>(i);
  upload_all(uploads);
  unsigned sum = 0;
  for (const upload &u : uploads)
    sum += u.sum;
  std::printf("%u\n", sum);
}
