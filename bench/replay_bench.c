/* SPDX-License-Identifier: MIT
 *
 * The speed of the replay of `sonde report`, from a file in the page cache: events a second on two
 * processors, and CPU time an event. The real writer makes the recordings from random calls.
 *
 * The simulated program keeps LIVE blocks and frees and allocates among them at random, the worst
 * case for a table of live blocks. Every third allocation is freed at once, as in most programs.
 * There are 8192 stacks of 24 frames, used unevenly.
 *
 * usage: replay_bench                    makes and measures four recordings
 *        replay_bench FILE…              measures these recordings
 *        replay_bench make FILE MB LIVE  only makes a recording of MB megabytes
 *        replay_bench page FILE COUNT    only makes one of COUNT samples and COUNT live blocks, for
 *                                        bench/view.py
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/malloc/replay.h"
#include "recorder/recording_file.h"
#include "record/writer.h"
#include "record/event.h"

enum { STACKS = 8192, DEPTH = 24, FANOUT = 64, PAGE_STACKS = 100000 };
#define BASE UINT64_C(0x7f1200000000)

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}

/* ---- making a recording ------------------------------------------------------------------- */

/* Nodes from 1 on: a path of DEPTH - 2 nodes, FANOUT children of its end, and their children, which
 * are the stacks. Returns the first stack. */
static uint32_t define_stacks(uint32_t count) {
  uint32_t id = 0, parent = 0;
  for (uint32_t f = 1; f <= count; f++)
    writer_frame(f, 0x400000 + 16 * (uint64_t)f, 0, 0);
  for (uint32_t i = 0; i < DEPTH - 2; i++, parent = id)
    writer_node(++id, parent, i + 1);
  uint32_t path_end = id;
  for (uint32_t i = 0; i < FANOUT; i++)
    writer_node(++id, path_end, 100 + i);
  uint32_t first = id + 1;
  for (uint32_t i = 0; i < count; i++)
    writer_node(++id, path_end + 1 + i % FANOUT, i + 1);
  return first;
}

/* A few stacks are used most of the time. */
static uint32_t pick_stack(uint32_t first) {
  uint64_t x = next_random();
  return first + (uint32_t)((x >> 40) & (x >> 20) & (STACKS - 1));
}

static _Noreturn void write_events(const char *settings, const char *path, uint64_t bytes,
                                   uint32_t live) {
  if (writer_start(settings) != 0) _exit(9);
  uint32_t first = define_stacks(STACKS);
  uint8_t *is_live = calloc(live, 1);
  uint64_t time = 0;
  struct stat file = {0};
  for (uint64_t n = 0; is_live; n++) {
    if (!(n & 0xffff) && stat(path, &file) == 0 && (uint64_t)file.st_size >= bytes) break;
    stream_t *s = writer_enter(RECORD_BLOCKS);
    if (!s) _exit(8);
    if (!time) time = writer_now(s->writer);
    uint32_t slot = n < live ? (uint32_t)n : (uint32_t)(next_random() % live);
    uint64_t address = BASE + 16 * (4 * (uint64_t)slot + (slot * 2654435761u >> 30));
    time += next_random() % 12;
    if (is_live[slot])
      event_put_free(s, time, address, pick_stack(first));
    else
      event_put_new(s, EVENT_MALLOC, time, address, 16 + next_random() % 48, pick_stack(first));
    is_live[slot] ^= 1;
    if (is_live[slot] && n % 3 == 0) {
      event_put_free(s, time, address, pick_stack(first));
      is_live[slot] = 0;
      if (n < live) {
        event_put_new(s, EVENT_MALLOC, time, address, 40, pick_stack(first));
        is_live[slot] = 1;
      }
    }
    writer_leave(s);
  }
  _exit(is_live ? 0 : 7);
}

/* COUNT samples and COUNT blocks that are not freed, of PAGE_STACKS stacks, used evenly. */
static _Noreturn void write_samples(const char *settings, uint64_t count) {
  if (writer_start(settings) != 0) _exit(9);
  uint32_t first = define_stacks(PAGE_STACKS);
  uint64_t time = 0;
  for (uint64_t n = 0; n < count; n++) {
    uint32_t stack = first + (uint32_t)(next_random() % PAGE_STACKS);
    stream_t *s = writer_enter(RECORD_BLOCKS);
    if (!s) _exit(8);
    if (!time) time = writer_now(s->writer);
    time += 10000 + next_random() % 10000;
    event_put_new(s, EVENT_MALLOC, time, BASE + 64 * n, 16 + next_random() % 48, stack);
    event_put_sample(s, time, 0, stack);
    writer_leave(s);
  }
  _exit(0);
}

/* BYTES 0: samples, and as many blocks that stay LIVE. */
static void make(const char *path, uint64_t bytes, uint32_t live) {
  char error[256], settings[64];
  recording_t recording;
  unlink(path);
  if (recording_create(&recording, path, 1, RECORD_BLOCKS, 0, 0, error, sizeof error) < 0) {
    fprintf(stderr, "replay_bench: %s\n", error);
    exit(2);
  }
  recording_settings(&recording, settings, sizeof settings);
  int status;
  pid_t pid = fork();
  if (pid == 0 && !bytes) write_samples(settings, live);
  if (pid == 0) write_events(settings, path, bytes, live);
  waitpid(pid, &status, 0);
  if (status || recording_finish(&recording, status) < 0) {
    fprintf(stderr, "replay_bench: cannot write '%s'\n", path);
    exit(2);
  }
  recording_release(&recording);
}

/* ---- replay ------------------------------------------------------------------------------- */

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void measure(const char *path) {
  char error[256];
  reader_t *reader;
  replay_t replay;
  double best = 1e9, cpu = 1e9;
  uint64_t events = 0, live = 0, size = 0;
  for (int round = 0; round < 3; round++) {
    double began = now(CLOCK_MONOTONIC), cpu_began = now(CLOCK_PROCESS_CPUTIME_ID);
    if (reader_open(&reader, path, error, sizeof error) < 0) {
      fprintf(stderr, "replay_bench: '%s': %s\n", path, error);
      exit(2);
    }
    if (replay_run(&replay, reader, NULL) < 0) exit(2);
    double took = now(CLOCK_MONOTONIC) - began;
    double cpu_took = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_began;
    if (took < best) best = took;
    if (cpu_took < cpu) cpu = cpu_took;
    events = replay.events;
    live = replay.at_peak.count;
    replay_free(&replay);
    reader_close(reader);
  }
  struct stat file;
  if (stat(path, &file) == 0) size = (uint64_t)file.st_size;
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("  %6.1f M events, %5.2f bytes each, at most %8llu live: %5.1f M events/s, "
         "CPU %4.1f ns each, peak RSS so far %ld MB\n",
         (double)events / 1e6, (double)size / (double)events, (unsigned long long)live,
         (double)events / best / 1e6, cpu * 1e9 / (double)events, used.ru_maxrss / 1024);
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "make")) {
    make(argv[2], strtoull(argv[3], NULL, 10) << 20, (uint32_t)strtoul(argv[4], NULL, 10));
    return 0;
  }
  if (argc == 4 && !strcmp(argv[1], "page")) {
    make(argv[2], 0, (uint32_t)strtoul(argv[3], NULL, 10));
    return 0;
  }
  if (argc > 1) {
    for (int i = 1; i < argc; i++)
      measure(argv[i]);
    return 0;
  }
  static const uint32_t live[] = {10000, 200000, 1600000, 5000000};
  printf("replay of a malloc log (live, peak, leaks, by stack), two processors, best of 3\n");
  for (size_t i = 0; i < sizeof live / sizeof *live; i++) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/sonde-replay-bench.%d.sonde", (int)getpid());
    make(path, UINT64_C(200) << 20, live[i]);
    measure(path);
    unlink(path);
  }
  return 0;
}
