/* SPDX-License-Identifier: MIT
 *
 * A merge that decodes ahead against one that does not: the same events in the same order, also if
 * the file is damaged, and if the merge is closed early.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "reader/internal.h"
#include "reader/merge.h"
#include "reader/reader.h"
#include "recorder/recording_file.h"
#include "record/writer.h"
#include "record/event.h"
#include "skip.h"

/* More streams than are decoded ahead at a time, each with more chunks than such a stream needs. */
#define THREADS         24
#define EVENTS          14000
#define AHEAD_AT_A_TIME 16
#define AHEAD_PLACES    4

static uint64_t seed;

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *state >> 18 ^ *state;
  return x ^ x >> 31;
}

/* ---- the recording ------------------------------------------------------------------------ */

static void put_any(uint64_t *state) {
  stream_t *s = writer_enter(RECORD_BLOCKS);
  if (!s) _exit(8);
  uint64_t r = next_random(state), time = writer_now(s->writer);
  uint64_t address = 0x7f0000000000 + (r >> 20 & 0xffffff0);
  uint32_t stack = (uint32_t)(r & 0xff);
  switch (r >> 60) {
  case 0: event_put_extended(s, EXTENDED_SAMPLING, r >> 50); break;
  case 1: event_put_sample(s, time, r >> 58, stack); break;
  case 2: event_put_realloc(s, time, writer_now(s->writer), address, address + 64, 9, stack); break;
  case 3:
  case 4:
  case 5: event_put_free(s, time, address, stack); break;
  default: event_put_new(s, EVENT_MALLOC, time, address, r >> 48, stack); break;
  }
  writer_leave(s);
}

static pthread_barrier_t end;

/* Some threads begin later. All end together: the writer takes over what an ended thread leaves by
 * asking the kernel, which ThreadSanitizer cannot see. */
static void *work(void *argument) {
  size_t n = (size_t)argument;
  uint64_t state = seed + n;
  usleep((useconds_t)(n % 4 * 2000));
  for (size_t i = 0; i < EVENTS; i++)
    put_any(&state);
  pthread_barrier_wait(&end);
  return NULL;
}

static _Noreturn void record(const char *settings) {
  pthread_t threads[THREADS];
  if (writer_start(settings) != 0) _exit(9);
  pthread_barrier_init(&end, NULL, THREADS);
  for (size_t n = 0; n < THREADS; n++)
    pthread_create(&threads[n], NULL, work, (void *)n);
  for (size_t n = 0; n < THREADS; n++)
    pthread_join(threads[n], NULL);
  _exit(0);
}

/* The bytes of a recording; the caller frees them. */
static uint8_t *make(uint64_t *size) {
  char path[64], error[256] = "", settings[64];
  recording_t recording;
  int status;
  snprintf(path, sizeof path, "/tmp/sonde-read-ahead-test.%d", (int)getpid());
  assert_int_equal(recording_create(&recording, path, 1, RECORD_BLOCKS, 0, 0, error, sizeof error),
                   0);
  recording_settings(&recording, settings, sizeof settings);
  pid_t pid = fork();
  if (pid == 0) record(settings);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  assert_int_equal(recording_finish(&recording, status), 0);
  recording_release(&recording);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  *size = (uint64_t)ftell(f);
  rewind(f);
  uint8_t *data = malloc(*size);
  assert_int_equal(fread(data, 1, *size, f), *size);
  fclose(f);
  unlink(path);
  return data;
}

/* ---- the comparison ----------------------------------------------------------------------- */

/* Two merges of the same bytes. */
typedef struct pair {
  reader_t *readers[2];
  merge_t *merges[2];
} pair_t;

static bool open_pair(pair_t *p, const uint8_t *data, uint64_t size) {
  char error[256];
  memset(p, 0, sizeof *p);
  for (int i = 0; i < 2; i++) {
    if (reader_open_bytes(&p->readers[i], data, size, error, sizeof error) < 0) return false;
    p->merges[i] = merge_open(p->readers[i]);
    assert_non_null(p->merges[i]);
  }
  merge_read_ahead(p->merges[1]);
  return true;
}

static void close_pair(const pair_t *p) {
  for (int i = 0; i < 2; i++) {
    merge_close(p->merges[i]);
    if (p->readers[i]) reader_close(p->readers[i]);
  }
}

static void compare_event(record_event_t a, record_event_t b) {
  assert_int_equal(a.time, b.time);
  assert_int_equal(a.address, b.address);
  assert_int_equal(a.old, b.old);
  assert_int_equal(a.size, b.size);
  assert_int_equal(a.sample_bytes, b.sample_bytes);
  assert_int_equal(a.stack, b.stack);
  assert_int_equal(a.stream, b.stream);
  assert_int_equal(a.kind, b.kind);
  assert_int_equal(a.moment, b.moment);
  assert_int_equal(a.subtype, b.subtype);
  assert_int_equal(a.body_size, b.body_size);
  if (a.body_size) assert_memory_equal(a.body, b.body, a.body_size);
}

/* Consumes at random, as a replay that holds events back. Returns the count of events, at most
 * MOST. */
static uint64_t compare(const pair_t *p, uint64_t *state, uint64_t most) {
  merge_run_t runs[2];
  uint64_t count = 0;
  while (count < most) {
    bool more = merge_run(p->merges[0], &runs[0]);
    assert_int_equal(more, merge_run(p->merges[1], &runs[1]));
    if (!more) break;
    uint32_t n = runs[0].count < runs[1].count ? runs[0].count : runs[1].count;
    if (next_random(state) % 8 == 0) n = 1 + (uint32_t)(next_random(state) % n);
    for (uint32_t i = 0; i < n; i++)
      compare_event(merge_event(&runs[0], i), merge_event(&runs[1], i));
    count += n;
    bool defer = next_random(state) % 4 == 0;
    bool deferred = defer && merge_defer(p->merges[0], n - 1);
    assert_int_equal(defer && merge_defer(p->merges[1], n - 1), deferred);
    if (deferred) continue;
    for (int i = 0; i < 2; i++)
      merge_consume(p->merges[i], n);
  }
  return count;
}

static void check_streams(const reader_t *r) {
  size_t ahead = 0, places = 0;
  for (size_t i = 0; i < r->chunks.count; i++) {
    const chunk_place_t *c = &r->chunks.items[i];
    places = i && c[-1].type == c->type && c[-1].stream == c->stream ? places + 1 : 1;
    ahead += c->type == CHUNK_EVENTS && places == AHEAD_PLACES;
  }
  assert_true(ahead > AHEAD_AT_A_TIME);
}

static void the_events_are_the_same(void **unused) {
  (void)unused;
  uint64_t size, state = seed;
  uint8_t *data = make(&size);
  for (int round = 0; round < 4; round++) {
    pair_t p;
    assert_true(open_pair(&p, data, size));
    check_streams(p.readers[0]);
    assert_true(compare(&p, &state, UINT64_MAX) > (uint64_t)THREADS * EVENTS);
    uint64_t done[2], total[2];
    for (int i = 0; i < 2; i++)
      merge_progress(p.merges[i], &done[i], &total[i]);
    assert_int_equal(done[0], total[0]);
    assert_int_equal(done[1], total[1]);
    close_pair(&p);
  }
  free(data);
}

/* merge_next, one event after the other. */
static void single_events_are_those_of_runs(void **unused) {
  (void)unused;
  uint64_t size, count = 0;
  uint8_t *data = make(&size);
  pair_t p;
  merge_run_t run;
  assert_true(open_pair(&p, data, size));
  for (; merge_run(p.merges[1], &run); merge_consume(p.merges[1], run.count))
    for (uint32_t i = 0; i < run.count; i++, count++) {
      const record_event_t *e = merge_next(p.merges[0]);
      assert_non_null(e);
      compare_event(*e, merge_event(&run, i));
    }
  assert_null(merge_next(p.merges[0]));
  assert_null(merge_next(p.merges[0]));
  assert_true(count > (uint64_t)THREADS * EVENTS);
  close_pair(&p);
  free(data);
}

static void a_merge_can_be_closed_at_any_time(void **unused) {
  (void)unused;
  uint64_t size, state = seed;
  uint8_t *data = make(&size);
  for (int round = 0; round < repeats(200); round++) {
    pair_t p;
    assert_true(open_pair(&p, data, size));
    (void)compare(&p, &state, next_random(&state) % 20000);
    close_pair(&p);
  }
  free(data);
}

/* Also when the merge is closed early. */
static void damage_is_counted_when_it_is_reached(void **unused) {
  (void)unused;
  uint64_t size, state = seed;
  uint8_t *data = make(&size), *copy = malloc(size);
  for (int round = 0; round < repeats(40); round++) {
    pair_t p;
    memcpy(copy, data, size);
    for (uint64_t n = next_random(&state) % 20; n-- > 0;)
      copy[next_random(&state) % size] ^= (uint8_t)(1u << next_random(&state) % 8);
    if (open_pair(&p, copy, size)) {
      bool all = round % 2;
      (void)compare(&p, &state, all ? UINT64_MAX : next_random(&state) % 200000);
      for (int i = 0; i < 2; i++) {
        merge_close(p.merges[i]);
        p.merges[i] = NULL;
      }
      const reader_damage_t *a = reader_damage(p.readers[0]), *b = reader_damage(p.readers[1]);
      assert_int_equal(a->damaged_chunks, b->damaged_chunks);
      if (all) assert_memory_equal(a, b, sizeof *a);
    }
    close_pair(&p);
  }
  free(copy);
  free(data);
}

int main(void) {
  const char *given = getenv("SONDE_SEED");
  seed = given ? strtoull(given, NULL, 0) : (uint64_t)getpid() * 2654435761u;
  print_message("SONDE_SEED=%llu\n", (unsigned long long)seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_events_are_the_same),
      cmocka_unit_test(single_events_are_those_of_runs),
      cmocka_unit_test(a_merge_can_be_closed_at_any_time),
      cmocka_unit_test(damage_is_counted_when_it_is_reached),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
