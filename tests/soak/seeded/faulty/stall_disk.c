// SPDX-License-Identifier: MIT
// fault: the event loop writes a journal and calls fsync for many records of one request
// culprit: journal_commit, journal_append, handle_request
// kind: stall, fsync, disk, blocked
// record: --sample --wall --stall=100
// build: gcc -O1 -g -pthread
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int journal;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void open_journal(void) {
  char path[] = "journalXXXXXX";
  journal = mkstemp(path);
  unlink(path);
}

static __attribute__((noinline)) void journal_commit(void) {
  if (fsync(journal)) perror("fsync");
}

static __attribute__((noinline)) void journal_append(int number) {
  char record[65536];
  memset(record, number, sizeof record);
  if (pwrite(journal, record, sizeof record, (off_t)(number % 64) * (off_t)sizeof record) < 0)
    perror("pwrite");
  journal_commit();
}

/* A request of kind 7 has many records: 1.2 s of commits, on a fast disk too. */
static __attribute__((noinline)) int handle_request(int kind) {
  if (kind != 7) return 1;
  double end = now() + 1.2;
  int records = 0;
  while (now() < end)
    journal_append(records++);
  return records;
}

static void *client(void *argument) {
  int fd = *(int *)argument;
  for (int i = 0; i < 60; i++) {
    char kind = (char)(i % 30);
    if (write(fd, &kind, 1) != 1) break;
    usleep(10000);
  }
  close(fd);
  return NULL;
}

int main(void) {
  int ends[2], records = 0;
  if (pipe(ends)) return 1;
  open_journal();
  pthread_t thread;
  pthread_create(&thread, NULL, client, &ends[1]);
  for (;;) {
    struct pollfd p = {.fd = ends[0], .events = POLLIN};
    char kind;
    if (poll(&p, 1, -1) < 0 || read(ends[0], &kind, 1) != 1) break;
    records += handle_request(kind);
  }
  pthread_join(thread, NULL);
  printf("%d\n", records);
}
