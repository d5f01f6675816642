/* SPDX-License-Identifier: MIT
 *
 * The replay compared with a simple model. The writer records random allocations of one thread,
 * which are read and replayed. The model keeps everything in arrays and recomputes each result.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "analysis/malloc/replay.h"
#include "recorder/recording_file.h"
#include "record/writer.h"
#include "record/event.h"

/* A recording of MANY_STEPS is decoded by a second thread. */
enum { BLOCKS = 200, STACKS = 24, STEPS = 30000, MANY_STEPS = 250000 };

typedef struct model {
  uint64_t size[BLOCKS]; /* of the live block at ADDRESS(i); 0: none */
  uint32_t stack[BLOCKS];
  bool was_freed[BLOCKS];
  counts_t live[STACKS], allocated[STACKS], peak[STACKS];
  uint64_t temporary[STACKS];
  uint64_t live_bytes, peak_bytes, frees, reallocs, unknown, twice, address_reuses, events;
  int last_allocated; /* block of the last event if it was an allocation, else -1 */
} model_t;

static model_t *model;

#define ADDRESS(i) (UINT64_C(0x7f0000000000) + 8 * (uint64_t)(i) * (uint64_t)(i))

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = *state >> 18 ^ *state;
  return x ^ x >> 31;
}

static void model_take(int i) {
  model->live[model->stack[i]].count--;
  model->live[model->stack[i]].bytes -= model->size[i];
  model->live_bytes -= model->size[i];
  model->size[i] = 0;
  model->was_freed[i] = true;
}

static void model_give(int i, uint64_t size, uint32_t stack) {
  if (model->size[i]) {
    model->address_reuses++;
    model_take(i);
  }
  model->size[i] = size;
  model->stack[i] = stack;
  model->live[stack].count++;
  model->live[stack].bytes += size;
  model->allocated[stack].count++;
  model->allocated[stack].bytes += size;
  model->live_bytes += size;
  model->last_allocated = i;
  if (model->live_bytes > model->peak_bytes) {
    model->peak_bytes = model->live_bytes;
    memcpy(model->peak, model->live, sizeof model->peak);
  }
}

static void one_event(stream_t *s, uint64_t *state) {
  int i = (int)(next_random(state) % BLOCKS), j = (int)(next_random(state) % BLOCKS);
  uint64_t size = 1 + next_random(state) % 5000, time = writer_now(s->writer);
  uint32_t stack = (uint32_t)(next_random(state) % STACKS);
  model->events++;
  if (model->size[i] && next_random(state) % 4 == 0) {
    assert_true(
        event_put_realloc(s, time, writer_now(s->writer), ADDRESS(i), ADDRESS(j), size, stack));
    model->reallocs++;
    model_take(i);
    model_give(j, size, stack);
  } else if (model->size[i] || next_random(state) % 500 == 0) {
    assert_true(event_put_free(s, time, ADDRESS(i), stack));
    model->frees++;
    if (!model->size[i]) {
      *(model->was_freed[i] ? &model->twice : &model->unknown) += 1;
    } else {
      if (model->last_allocated == i) model->temporary[model->stack[i]]++;
      model_take(i);
    }
    model->last_allocated = -1;
  } else {
    assert_true(event_put_new(s, EVENT_MALLOC, time, ADDRESS(i), size, stack));
    model_give(i, size, stack);
    if (next_random(state) % 3 == 0) {
      model->events++;
      assert_true(event_put_free(s, writer_now(s->writer), ADDRESS(i), stack));
      model->frees++;
      model->temporary[stack]++;
      model_take(i);
      model->last_allocated = -1;
    }
  }
}

static void record_in_child(const char *settings, uint64_t seed, int steps) {
  if (writer_start(settings) != 0) _exit(9);
  model->last_allocated = -1;
  for (int i = 0; i < steps; i++) {
    stream_t *s = writer_enter(RECORD_BLOCKS);
    if (!s) _exit(8);
    one_event(s, &seed);
    writer_leave(s);
  }
  _exit(0);
}

static void compare(const replay_t *r) {
  assert_int_equal(r->events, model->events);
  assert_int_equal(r->frees, model->frees);
  assert_int_equal(r->reallocs, model->reallocs);
  assert_int_equal(r->live.bytes, model->live_bytes);
  assert_int_equal(r->at_peak.bytes, model->peak_bytes);
  assert_int_equal(r->unknown_frees, model->unknown);
  assert_int_equal(r->double_frees, model->twice);
  assert_int_equal(r->address_reuses, model->address_reuses);
  for (size_t i = 0; i < r->stack_count; i++) {
    const stack_totals_t *s = &r->stacks[i];
    assert_int_equal(s->allocated.count, model->allocated[s->stack].count);
    assert_int_equal(s->allocated.bytes, model->allocated[s->stack].bytes);
    assert_int_equal(s->live.count, model->live[s->stack].count);
    assert_int_equal(s->live.bytes, model->live[s->stack].bytes);
    assert_int_equal(s->at_peak.count, model->peak[s->stack].count);
    assert_int_equal(s->at_peak.bytes, model->peak[s->stack].bytes);
    assert_int_equal(s->temporary, model->temporary[s->stack]);
  }
  for (size_t i = 0; i < r->thread_count; i++)
    assert_int_equal(r->threads[i].live.count, r->threads[i].allocated.count ? r->live.count : 0);
  for (size_t i = 0; i < BLOCKS; i++) {
    const live_block_t *b = live_set_find(&r->blocks, ADDRESS(i));
    assert_int_equal(b ? b->size : 0, model->size[i]);
  }
}

static void replay_equals_the_model(void **unused) {
  (void)unused;
  const char *given = getenv("SONDE_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)getpid() * 2654435761u;
  print_message("SONDE_SEED=%llu\n", (unsigned long long)seed);
  for (int round = 0; round < 20; round++) {
    char path[64], error[256], settings[64];
    recording_t recording;
    memset(model, 0, sizeof *model);
    snprintf(path, sizeof path, "/tmp/sonde-replay-test.%d", (int)getpid());
    assert_int_equal(
        recording_create(&recording, path, 1, RECORD_BLOCKS, 0, 0, error, sizeof error), 0);
    recording_settings(&recording, settings, sizeof settings);
    pid_t pid = fork();
    if (pid == 0) record_in_child(settings, seed + (uint64_t)round, round ? STEPS : MANY_STEPS);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(recording_finish(&recording, status), 0);
    recording_release(&recording);
    reader_t *reader;
    replay_t replay;
    assert_int_equal(reader_open(&reader, path, error, sizeof error), 0);
    assert_int_equal(replay_run(&replay, reader, NULL), 0);
    compare(&replay);
    replay_free(&replay);
    reader_close(reader);
    unlink(path);
  }
}

int main(void) {
  model = mmap(NULL, sizeof *model, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const struct CMUnitTest tests[] = {cmocka_unit_test(replay_equals_the_model)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
