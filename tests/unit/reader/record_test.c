/* SPDX-License-Identifier: MIT
 *
 * The writer against the reader: what a child process recorded before it ended or was killed, on
 * any number of threads, is what the reader gives, event for event.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "reader/merge.h"
#include "reader/reader.h"
#include "recorder/recording_file.h"
#include "record/writer.h"
#include "record/event.h"
#include "skip.h"

#define THREADS    3
#define EVENTS_MAX 200000

/* What a thread did, written to memory that outlives it. */
typedef struct fact {
  uint64_t address, old, size;
  uint32_t stack;
  uint8_t kind;
} fact_t;

typedef struct truth {
  uint64_t seed;
  uint32_t events; /* wanted of each thread */
  bool unaligned;
  struct {
    uint32_t tid;
    uint32_t committed; /* events whose call has returned */
    fact_t facts[EVENTS_MAX];
  } threads[THREADS];
} truth_t;

static truth_t *truth;

static uint64_t seed_of_run(void) {
  const char *given = getenv("SONDE_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)getpid() * 2654435761u;
  print_message("SONDE_SEED=%llu\n", (unsigned long long)seed);
  return seed;
}

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *state >> 18 ^ *state;
  return x ^ x >> 31;
}

/* Values of every magnitude, small ones often. */
static uint64_t any_magnitude(uint64_t *state, unsigned bits) {
  uint64_t shift = next_random(state) % bits;
  return next_random(state) >> (64 - bits + shift % bits) >> 0;
}

static fact_t invent(uint64_t *state, bool unaligned) {
  fact_t f = {0};
  f.kind = (uint8_t)(EVENT_MALLOC + next_random(state) % 5);
  f.address = 0x7f0000000000 + any_magnitude(state, 40);
  f.old = f.kind == EVENT_REALLOC ? 0x550000000000 + any_magnitude(state, 44) : 0;
  if (!unaligned || next_random(state) % 1000) {
    f.address &= ~(uint64_t)15;
    f.old &= ~(uint64_t)15;
  }
  f.size = f.kind == EVENT_FREE ? 0 : any_magnitude(state, 50);
  f.stack = next_random(state) % 3 ? (uint32_t)(f.kind * 1000) : (uint32_t)any_magnitude(state, 32);
  return f;
}

static void record_fact(const fact_t *f) {
  stream_t *s = writer_enter(RECORD_BLOCKS);
  if (!s) return;
  uint64_t time = writer_now(s->writer);
  bool put =
      f->kind == EVENT_FREE ? event_put_free(s, time, f->address, f->stack)
      : f->kind == EVENT_REALLOC
          ? event_put_realloc(s, time, writer_now(s->writer), f->old, f->address, f->size, f->stack)
          : event_put_new(s, f->kind, time, f->address, f->size, f->stack);
  if (!put) writer_lost_event(s->writer->control);
  writer_leave(s);
}

static void *work(void *argument) {
  size_t n = (size_t)argument;
  uint64_t state = truth->seed + n;
  truth->threads[n].tid = (uint32_t)os_tid();
  for (uint32_t i = 0; i < truth->events; i++) {
    fact_t *f = &truth->threads[n].facts[i];
    *f = invent(&state, truth->unaligned);
    record_fact(f);
    __atomic_store_n(&truth->threads[n].committed, i + 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void child(const char *settings) {
  pthread_t threads[THREADS];
  if (writer_start(settings) != 0) _exit(9);
  writer_frame(7, 0x401234, 0, 0);
  writer_node(3, 0, 7);
  for (size_t n = 0; n < THREADS; n++)
    pthread_create(&threads[n], NULL, work, (void *)n);
  for (size_t n = 0; n < THREADS; n++)
    pthread_join(threads[n], NULL);
  _exit(0);
}

typedef struct run {
  char path[64];
  recording_t recording;
  pid_t pid;
} run_t;

static void start(run_t *r, uint64_t limit, void (*body)(const char *)) {
  static int number;
  char error[256] = "", settings[64];
  snprintf(r->path, sizeof r->path, "/tmp/sonde-record-test.%d.%d", (int)getpid(), number++);
  assert_int_equal(
      recording_create(&r->recording, r->path, 1, RECORD_BLOCKS, 0, limit, error, sizeof error), 0);
  recording_settings(&r->recording, settings, sizeof settings);
  r->pid = fork();
  assert_true(r->pid >= 0);
  if (r->pid == 0) body(settings);
}

static int finish(run_t *r) {
  int status;
  assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
  recording_finish(&r->recording, status);
  recording_release(&r->recording);
  return status;
}

static reader_t *open_recording(const char *path) {
  reader_t *reader = NULL;
  char error[256] = "";
  int status = reader_open(&reader, path, error, sizeof error);
  if (status) print_message("%s\n", error);
  assert_int_equal(status, 0);
  return reader;
}

static size_t thread_of(const reader_t *reader, uint32_t stream) {
  const record_thread_t *t = reader_thread(reader, stream);
  assert_non_null(t);
  for (size_t n = 0; n < THREADS; n++)
    if (truth->threads[n].tid == t->tid) return n;
  fail_msg("an event of an unknown thread");
  return 0;
}

/* Every event of the recording is the next of its thread, from SEEN on; returns where it ends. */
static void compare_from(reader_t *reader, uint32_t *seen) {
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  uint64_t last = 0;
  while ((e = merge_next(merge))) {
    assert_true(e->time >= last);
    last = e->time;
    size_t n = thread_of(reader, e->stream);
    const fact_t *f = &truth->threads[n].facts[seen[n]];
    assert_int_equal(e->kind, f->kind);
    assert_int_equal(e->stack, f->stack);
    assert_int_equal(e->old, f->old);
    if (e->kind == EVENT_REALLOC && e->moment == 0) continue;
    assert_int_equal(e->address, f->address);
    assert_int_equal(e->size, f->size);
    seen[n]++;
  }
  merge_close(merge);
}

/* As compare_from, but events may be missing in between: returns how many there are. */
static uint32_t compare_with_gaps(reader_t *reader) {
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  uint32_t seen[THREADS] = {0}, count = 0;
  for (; (e = merge_next(merge)); count++) {
    size_t n = thread_of(reader, e->stream);
    const fact_t *facts = truth->threads[n].facts;
    if (e->kind == EVENT_REALLOC && e->moment == 0) continue;
    while (seen[n] < truth->events &&
           (facts[seen[n]].kind != e->kind || facts[seen[n]].address != e->address ||
            facts[seen[n]].size != e->size || facts[seen[n]].stack != e->stack))
      seen[n]++;
    assert_true(seen[n]++ < truth->events);
  }
  merge_close(merge);
  return count;
}

/* From the first event on; returns how many there are of each thread. */
static void compare(reader_t *reader, uint32_t *seen) {
  memset(seen, 0, THREADS * sizeof *seen);
  compare_from(reader, seen);
}

static void check_run(const run_t *r, bool all) {
  reader_t *reader = open_recording(r->path);
  uint32_t seen[THREADS];
  compare(reader, seen);
  for (size_t n = 0; n < THREADS; n++) {
    uint32_t committed = truth->threads[n].committed;
    assert_true(seen[n] >= committed && seen[n] <= committed + 1);
    if (all) assert_int_equal(seen[n], truth->events);
  }
  const reader_damage_t *d = reader_damage(reader);
  assert_int_equal(d->missing_chunks, 0);
  assert_int_equal(d->bad_records, 0);
  assert_int_equal(reader_header(reader)->lost_events, 0);
  reader_close(reader);
}

static void everything_comes_back(void **unused) {
  (void)unused;
  run_t r;
  memset(truth, 0, sizeof *truth);
  truth->seed = seed_of_run();
  truth->events = (uint32_t)repeats(EVENTS_MAX);
  truth->unaligned = true;
  start(&r, 0, child);
  assert_int_equal(finish(&r), 0);
  check_run(&r, true);
  reader_t *reader = open_recording(r.path);
  const record_frame_t *frame;
  assert_int_equal(reader_stack(reader, 3, &frame, 1), 1);
  assert_int_equal(frame->pc, 0x401234);
  assert_int_equal(reader_stack(reader, 4, &frame, 1), -1);
  reader_close(reader);
  unlink(r.path);
}

static void a_kill_loses_nothing(void **unused) {
  (void)unused;
  uint64_t state = seed_of_run();
  int in_flight = 0, rounds = is_sanitized() ? 10 : 60;
  for (int round = 0; round < rounds; round++) {
    run_t r;
    truth->seed = next_random(&state);
    truth->events = EVENTS_MAX;
    for (size_t n = 0; n < THREADS; n++)
      truth->threads[n].committed = truth->threads[n].tid = 0;
    start(&r, 0, child);
    usleep((useconds_t)(next_random(&state) % 25000));
    kill(r.pid, SIGKILL);
    finish(&r);
    for (size_t n = 0; n < THREADS; n++)
      in_flight += truth->threads[n].committed < truth->events;
    check_run(&r, false);
    unlink(r.path);
  }
  print_message("threads killed in the middle: %d of %d\n", in_flight, rounds * THREADS);
  assert_true(in_flight > 0);
}

/* ---- stacks without an end ------------------------------------------------------------------- */

enum { DEEP = READER_DEPTH_MAX + 1000, ROUND = 20000 };

/* A chain of DEEP nodes, of which node 1 stands outermost; behind it a circle of ROUND, and one
 * node that leads into it. */
static void deep_child(const char *settings) {
  if (writer_start(settings) != 0) _exit(9);
  writer_frame(7, 0x401234, 0, 0);
  writer_frame(8, 0x405678, 0, 0);
  for (uint32_t i = 1; i <= DEEP; i++)
    writer_node(i, i - 1, i == DEEP ? 8 : 7);
  for (uint32_t i = DEEP + 1; i <= DEEP + ROUND; i++)
    writer_node(i, i == DEEP + 1 ? DEEP + ROUND : i - 1, 7);
  writer_node(DEEP + ROUND + 1, DEEP + ROUND / 2, 7);
  _exit(0);
}

static void a_deep_stack_is_cut_and_a_circle_is_none(void **unused) {
  (void)unused;
  run_t r;
  start(&r, 0, deep_child);
  assert_int_equal(finish(&r), 0);
  reader_t *reader = open_recording(r.path);
  static const record_frame_t *frames[DEEP];
  assert_int_equal(reader_stack(reader, DEEP, frames, DEEP), READER_DEPTH_MAX + 1);
  assert_int_equal(frames[0]->pc, 0x405678);
  assert_int_equal(frames[READER_DEPTH_MAX - 1]->pc, 0x401234);
  assert_null(frames[READER_DEPTH_MAX]);
  assert_int_equal(reader_stack(reader, READER_DEPTH_MAX + 1, frames, 1), READER_DEPTH_MAX + 1);
  assert_int_equal(reader_stack(reader, READER_DEPTH_MAX, frames, 1), READER_DEPTH_MAX);
  assert_int_equal(reader_stack(reader, 1, frames, 1), 1);
  assert_int_equal(reader_stack(reader, DEEP + 1, frames, 1), -1);
  assert_int_equal(reader_stack(reader, DEEP + ROUND + 1, frames, DEEP), -1);
  reader_close(reader);
  unlink(r.path);
}

/* ---- a file that may not grow ---------------------------------------------------------------- */

static void limited_child(const char *settings) {
  struct rlimit limit = {50000, 50000};
  setrlimit(RLIMIT_FSIZE, &limit);
  child(settings); /* a SIGXFSZ would kill it */
}

static uint64_t size_of(const run_t *r) {
  struct stat s;
  assert_int_equal(stat(r->path, &s), 0);
  return (uint64_t)s.st_size;
}

/* The recorder, which has no limit, writes the last chunks. A refused chunk may leave a hole. */
static void a_file_limit_stops_the_recording_not_the_program(void **unused) {
  run_t r;
  (void)unused;
  truth->events = 130000;
  start(&r, 0, limited_child);
  assert_int_equal(waitid(P_PID, (id_t)r.pid, NULL, WEXITED | WNOWAIT), 0);
  assert_true(size_of(&r) <= 50000);
  assert_int_equal(finish(&r), 0);
  assert_true(size_of(&r) < 50000 + 2 * THREADS * shm_class_pages(SHM_CLASSES - 1) * SHM_PAGE);
  reader_t *reader = open_recording(r.path);
  assert_int_equal(reader_header(reader)->stop_reason, RECORD_STOP_FILE_LIMIT);
  assert_true(reader_header(reader)->lost_events > 0);
  assert_in_range(compare_with_gaps(reader), 1, THREADS * truth->events - 1);
  reader_close(reader);
  unlink(r.path);
}

/* Lifts its limit when one thread has ended; then another thread records. */
static void unlimited_child(const char *settings) {
  pthread_t thread;
  struct rlimit limit = {50000, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &limit);
  if (writer_start(settings) != 0) _exit(9);
  pthread_create(&thread, NULL, work, (void *)0);
  pthread_join(thread, NULL);
  limit.rlim_cur = RLIM_INFINITY;
  setrlimit(RLIMIT_FSIZE, &limit);
  usleep(300000);
  pthread_create(&thread, NULL, work, (void *)1);
  pthread_join(thread, NULL);
  _exit(0);
}

static void recording_continues_when_the_limit_is_lifted(void **unused) {
  (void)unused;
  run_t r;
  start(&r, 0, unlimited_child);
  assert_int_equal(finish(&r), 0);
  reader_t *reader = open_recording(r.path);
  const record_header_t *h = reader_header(reader);
  const reader_damage_t *d = reader_damage(reader);
  uint64_t total = compare_with_gaps(reader);
  assert_int_equal(h->stop_reason, RECORD_STOP_NONE);
  assert_int_equal(h->gap_reason, RECORD_STOP_FILE_LIMIT);
  assert_int_equal(h->gaps, 1);
  assert_true(h->gaps_ns > 300000000);
  assert_true(h->lost_events > 0 && total >= truth->events);
  assert_true(!d->bad_records && !d->missing_chunks && !d->skipped_bytes);
  reader_close(reader);
  unlink(r.path);
}

/* What a reader says was skipped in the file at PATH, stopped for REASON. */
static uint64_t skipped_when(const char *path, uint32_t reason) {
  int fd = open(path, O_RDWR | O_CLOEXEC);
  assert_int_equal(pwrite(fd, &reason, sizeof reason, offsetof(record_header_t, stop_reason)), 4);
  close(fd);
  reader_t *reader = open_recording(path);
  uint64_t skipped = reader_damage(reader)->skipped_bytes;
  reader_close(reader);
  return skipped;
}

/* Zeros are where a chunk was refused for want of room. A recording that was asked to stop had
 * room, so there they are damage. */
static void zeros_are_damage_unless_room_was_wanted(void **unused) {
  (void)unused;
  run_t r;
  chunk_header_t h;
  truth->events = (uint32_t)repeats(EVENTS_MAX);
  start(&r, 0, child);
  assert_int_equal(finish(&r), 0);
  assert_int_equal(skipped_when(r.path, RECORD_STOP_REQUESTED), 0);
  int fd = open(r.path, O_RDWR | O_CLOEXEC);
  const off_t at = 4096; /* of the first chunk */
  assert_int_equal(pread(fd, &h, sizeof h, at), sizeof h);
  void *zeros = calloc(1, h.size);
  assert_int_equal(pwrite(fd, zeros, h.size, at), h.size);
  free(zeros);
  close(fd);
  assert_int_equal(skipped_when(r.path, RECORD_STOP_REQUESTED), h.size);
  assert_int_equal(skipped_when(r.path, RECORD_STOP_NONE), h.size);
  assert_int_equal(skipped_when(r.path, RECORD_STOP_DISK_FULL), 0);
  unlink(r.path);
}

static void a_limit_keeps_the_newest(void **unused) {
  enum { LIMIT = 500000 };
  run_t r;
  uint32_t seen[THREADS] = {0}, counts[THREADS];
  (void)unused;
  truth->events = EVENTS_MAX;
  start(&r, LIMIT, child);
  assert_int_equal(finish(&r), 0);
  reader_t *reader = open_recording(r.path);
  const reader_damage_t *damage = reader_damage(reader);
  assert_int_equal(reader_header(reader)->stop_reason, 0);
  assert_int_equal(damage->missing_chunks + damage->damaged_chunks + damage->bad_records, 0);
  assert_true(damage->dropped_chunks > 0);
  merge_t *merge = merge_open(reader);
  for (const record_event_t *e; (e = merge_next(merge));)
    seen[thread_of(reader, e->stream)] += !(e->kind == EVENT_REALLOC && e->moment == 0);
  merge_close(merge);
  for (int n = 0; n < THREADS; n++) {
    assert_true(seen[n] < truth->events);
    counts[n] = (uint32_t)truth->events - seen[n];
  }
  compare_from(reader, counts);
  for (int n = 0; n < THREADS; n++)
    assert_int_equal(counts[n], truth->events);
  reader_close(reader);
  assert_true(size_of(&r) <= LIMIT);
  unlink(r.path);
}

/* ---- descriptors and fork -------------------------------------------------------------------- */

static void closing_child(const char *settings) {
  if (writer_start(settings) != 0) _exit(9);
  close_range(3, ~0u, 0);
  work((void *)0);
  _exit(0);
}

static void closed_descriptors_are_opened_again(void **unused) {
  (void)unused;
  run_t r;
  memset(truth, 0, sizeof *truth);
  truth->events = 50000;
  start(&r, 0, closing_child);
  assert_int_equal(finish(&r), 0);
  reader_t *reader = open_recording(r.path);
  uint32_t seen[THREADS];
  compare(reader, seen);
  assert_int_equal(seen[0], 50000);
  reader_close(reader);
  unlink(r.path);
}

static void forking_child(const char *settings) {
  if (writer_start(settings) != 0) _exit(9);
  work((void *)0);
  pid_t pid = fork();
  if (pid == 0)
    _exit(writer_enter(RECORD_BLOCKS) || writer_control() || writer_node(9, 0, 7) ? 1 : 0);
  int status = -1;
  waitpid(pid, &status, 0);
  _exit(status != 0);
}

static void a_forked_child_does_not_record(void **unused) {
  (void)unused;
  run_t r;
  memset(truth, 0, sizeof *truth);
  truth->events = 1000;
  start(&r, 0, forking_child);
  assert_int_equal(finish(&r), 0);
  reader_t *reader = open_recording(r.path);
  uint32_t seen[THREADS];
  compare(reader, seen);
  assert_int_equal(seen[0], 1000);
  reader_close(reader);
  unlink(r.path);
}

/* ---- many threads, one after the other ------------------------------------------------------- */

static void *one_event(void *unused) {
  (void)unused;
  fact_t f = {.kind = EVENT_MALLOC, .address = 0x1000, .size = 1, .stack = 1};
  record_fact(&f);
  return NULL;
}

static void churning_child(const char *settings) {
  if (writer_start(settings) != 0) _exit(9);
  for (int i = 0; i < 2000; i++) {
    pthread_t t;
    pthread_create(&t, NULL, one_event, NULL);
    pthread_join(t, NULL);
  }
  _exit(writer_control()->pages_used > SHM_CONTROL_PAGES + 64);
}

static void ended_threads_are_reclaimed(void **unused) {
  (void)unused;
  run_t r;
  start(&r, 0, churning_child);
  assert_int_equal(finish(&r), 0);
  reader_t *reader = open_recording(r.path);
  merge_t *merge = merge_open(reader);
  int count = 0;
  while (merge_next(merge))
    count++;
  merge_close(merge);
  assert_int_equal(count, 2000);
  size_t threads;
  reader_threads(reader, &threads);
  assert_int_equal(threads, 2000);
  reader_close(reader);
  unlink(r.path);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void read_anyway(const uint8_t *data, uint64_t size) {
  reader_t *reader = NULL;
  char error[256] = "";
  if (reader_open_bytes(&reader, data, size, error, sizeof error) < 0) {
    assert_true(error[0] != 0);
    return;
  }
  merge_t *merge = merge_open(reader);
  while (merge_next(merge)) {
  }
  merge_close(merge);
  reader_close(reader);
}

static void damaged_files_are_read_as_far_as_they_go(void **unused) {
  (void)unused;
  run_t r;
  uint64_t state = seed_of_run();
  memset(truth, 0, sizeof *truth);
  truth->events = 3000;
  start(&r, 0, child);
  finish(&r);
  const uint64_t size = size_of(&r);
  FILE *f = fopen(r.path, "r");
  uint8_t *data = malloc(size), *copy = malloc(size);
  assert_int_equal(fread(data, 1, size, f), size);
  fclose(f);
  unlink(r.path);
  for (int i = 0; i < repeats(300); i++)
    read_anyway(data, next_random(&state) % (size + 1));
  for (int i = 0; i < repeats(1000); i++) {
    memcpy(copy, data, size);
    for (uint64_t n = next_random(&state) % 20; n-- > 0;)
      copy[next_random(&state) % size] ^= (uint8_t)(1u << next_random(&state) % 8);
    read_anyway(copy, size);
  }
  /* One bit in a chunk of events: that chunk is passed over and said to be. */
  memcpy(copy, data, size);
  copy[size - 40] ^= 1;
  reader_t *reader = NULL;
  char error[256];
  assert_int_equal(reader_open_bytes(&reader, copy, size, error, sizeof error), 0);
  merge_t *merge = merge_open(reader);
  uint32_t count = 0;
  while (merge_next(merge))
    count++;
  merge_close(merge);
  assert_int_equal(reader_damage(reader)->damaged_chunks, 1);
  assert_true(count > 0 && count < 3 * truth->events * 2);
  reader_close(reader);
  free(data);
  free(copy);
}

int main(void) {
  truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(everything_comes_back),
      cmocka_unit_test(a_kill_loses_nothing),
      cmocka_unit_test(a_deep_stack_is_cut_and_a_circle_is_none),
      cmocka_unit_test(a_file_limit_stops_the_recording_not_the_program),
      cmocka_unit_test(recording_continues_when_the_limit_is_lifted),
      cmocka_unit_test(zeros_are_damage_unless_room_was_wanted),
      cmocka_unit_test(a_limit_keeps_the_newest),
      cmocka_unit_test(closed_descriptors_are_opened_again),
      cmocka_unit_test(a_forked_child_does_not_record),
      cmocka_unit_test(ended_threads_are_reclaimed),
      cmocka_unit_test(damaged_files_are_read_as_far_as_they_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
