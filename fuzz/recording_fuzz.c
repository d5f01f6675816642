/* SPDX-License-Identifier: MIT
 *
 * Arbitrary recordings: their tables and events, a replay, stalls, waits, resources, a crash,
 * leaks found at exit and the coverage of the audit. The target corrects the checksums of chunks
 * first, so that the code after the checksum test is reached.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/audit/coverage.h"
#include "analysis/cpu.h"
#include "analysis/crash_blocks.h"
#include "analysis/malloc/leaks.h"
#include "analysis/malloc/replay.h"
#include "analysis/trace.h"
#include "analysis/stalls.h"
#include "analysis/usage.h"
#include "analysis/waits.h"
#include "reader/reader.h"

static void mend_checksums(uint8_t *data, size_t size) {
  for (size_t at = 0; at + sizeof(chunk_header_t) <= size; at += 8) {
    chunk_header_t h;
    memcpy(&h, data + at, sizeof h);
    if (h.magic != CHUNK_MAGIC || h.size > size - at || h.size < sizeof h || h.size % 8) continue;
    h.checksum = 0;
    memcpy(data + at, &h, sizeof h);
    h.checksum = chunk_checksum(data + at, h.size);
    memcpy(data + at, &h, sizeof h);
    at += h.size - 8;
  }
}

static void ask(const reader_t *reader) {
  const record_frame_t *frames[64];
  size_t count;
  const record_node_t *nodes = reader_nodes(reader, &count);
  for (size_t i = 0; i < count && i < 64; i++)
    (void)reader_stack(reader, nodes[i].id, frames, 64);
}

typedef struct watched {
  stalls_t stalls;
  cpu_use_t cpu;
  waits_t waits; /* and the wall-clock sampler's */
  coverage_t coverage;
  crash_t crash;
  usage_t usage;
  leaks_at_end_t leaks;
  const reader_t *reader;
  stack_dedup_t *same;
} watched_t;

static bool add_event(void *context, const record_event_t *event) {
  watched_t *w = context;
  return stalls_add(&w->stalls, event) && cpu_use_add(&w->cpu, event) &&
         waits_add(&w->waits, event) && coverage_add(&w->coverage, event, w->same) &&
         crash_add(&w->crash, event) && usage_add(&w->usage, w->reader, event) &&
         leaks_read(&w->leaks, event);
}

static void say(coverage_t *coverage) {
  char words[256];
  for (size_t i = 0; i < coverage->count; i++)
    (void)coverage_words(&coverage->calls[i], 62, words, sizeof words);
  coverage_free(coverage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char error[256];
  reader_t *reader;
  uint8_t *copy = malloc(size + 1);
  if (!copy) return 0;
  memcpy(copy, data, size);
  mend_checksums(copy, size);
  if (reader_open_bytes(&reader, copy, size, error, sizeof error) == 0) {
    replay_t replay;
    watched_t watched = {
        .waits.wall.reader = reader, .reader = reader, .same = stack_dedup_new(reader)};
    const replay_options_t options = {.other = add_event, .other_context = &watched};
    ask(reader);
    if (watched.same && replay_run(&replay, reader, &options) == 0) replay_free(&replay);
    trace_t trace;
    const trace_filter_t filter = {.slowest = 10};
    if (trace_run(&trace, reader, &filter) == 0) trace_free(&trace);
    stalls_finish(&watched.stalls, reader);
    stalls_free(&watched.stalls);
    cpu_use_free(&watched.cpu);
    crash_pointers_t pointers;
    (void)crash_pointers_find(reader, &watched.crash, &pointers);
    crash_free(&watched.crash);
    (void)usage_growth(&watched.usage, USAGE_RSS, watched.usage.from_ns, watched.usage.to_ns);
    usage_free(&watched.usage);
    leaks_at_end_free(&watched.leaks);
    (void)waits_rank(&watched.waits);
    waits_free(&watched.waits);
    say(&watched.coverage);
    stack_dedup_free(watched.same);
    reader_close(reader);
  }
  free(copy);
  return 0;
}
