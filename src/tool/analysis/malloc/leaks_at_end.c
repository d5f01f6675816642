/* SPDX-License-Identifier: MIT
 *
 * The records of a search for leaks when the program exited: docs/format.md, subtypes 11 and 12.
 */
#include <stdlib.h>

#include "analysis/malloc/leaks.h"
#include "base/array.h"
#include "base/varint.h"
#include "reader/body.h"

/* Stacks in one record. */
#define STACKS 100

enum { HEAD_NUMBERS = 18, STACK_NUMBERS = 9 };

int leaks_write(const leaks_at_end_t *end,
                int (*write)(void *context, extended_subtype_t subtype, const uint64_t *numbers,
                             size_t count),
                void *context) {
  static const leaks_exchange_t none;
  const leaks_t *l = &end->leaks;
  const leaks_exchange_t *x = l->exchange ? l->exchange : &none;
  const uint64_t head[HEAD_NUMBERS] = {(uint64_t)end->result,
                                       zigzag(end->error),
                                       end->time_ns,
                                       x->pause_ns,
                                       x->copying_ns,
                                       x->scan_ns,
                                       x->root_bytes,
                                       x->block_bytes,
                                       x->tries,
                                       x->reallocating,
                                       x->late,
                                       x->roots_skipped,
                                       x->thread_count,
                                       l->unknown_threads,
                                       l->running_threads,
                                       l->live.count,
                                       l->live.bytes,
                                       l->unmapped};
  int status = write(context, EXTENDED_SEARCHED, head, HEAD_NUMBERS);
  for (size_t i = 0; i < l->by_stack_count && status >= 0;) {
    uint64_t numbers[STACKS * STACK_NUMBERS], *n = numbers;
    for (; i < l->by_stack_count && n < numbers + STACKS * STACK_NUMBERS; i++) {
      const leaks_stack_t *s = &l->by_stack[i];
      *n++ = s->stack;
      *n++ = s->lost.count;
      *n++ = s->lost.bytes;
      *n++ = s->indirect.count;
      *n++ = s->indirect.bytes;
      *n++ = s->in_cycles;
      *n++ = s->uncertain;
      *n++ = s->example;
      *n++ = s->example_size;
    }
    status = write(context, EXTENDED_LEAKED, numbers, (size_t)(n - numbers));
  }
  return status;
}

static bool read_head(leaks_at_end_t *end, const record_event_t *e) {
  leaks_t *l = &end->leaks;
  uint64_t n[HEAD_NUMBERS];
  if (l->exchange || !body_numbers(e, n, HEAD_NUMBERS) || n[0] > LEAKS_NO_BLOCKS) return true;
  leaks_exchange_t *x = calloc(1, sizeof *x);
  if (!x) return false;
  end->result = (leaks_result_t)n[0];
  end->error = (int32_t)unzigzag(n[1]);
  end->time_ns = n[2];
  x->pause_ns = n[3];
  x->copying_ns = n[4];
  x->scan_ns = n[5];
  x->root_bytes = n[6];
  x->block_bytes = n[7];
  x->tries = (uint32_t)n[8];
  x->reallocating = (uint32_t)n[9];
  x->late = (uint32_t)n[10];
  x->roots_skipped = (uint32_t)n[11];
  x->thread_count = n[12] < LEAKS_THREADS ? (uint32_t)n[12] : LEAKS_THREADS;
  l->unknown_threads = (uint32_t)n[13];
  l->running_threads = (uint32_t)n[14];
  l->unknown_registers = leaks_unknown_registers(l->unknown_threads);
  l->live = (counts_t){n[15], n[16]};
  l->unmapped = n[17];
  l->exchange = x;
  return true;
}

static bool read_stacks(leaks_at_end_t *end, const record_event_t *e) {
  leaks_t *l = &end->leaks;
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  size_t capacity = l->by_stack_count; /* grown for each record */
  while (b.p < b.end && !b.truncated) {
    if (!ARRAY_GROW(l->by_stack, l->by_stack_count, capacity)) return false;
    leaks_stack_t *s = &l->by_stack[l->by_stack_count];
    *s = (leaks_stack_t){.stack = (uint32_t)body_number(&b)};
    uint64_t *const fields[] = {&s->lost.count,     &s->lost.bytes,  &s->indirect.count,
                                &s->indirect.bytes, &s->in_cycles,   &s->uncertain,
                                &s->example,        &s->example_size};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
      *fields[i] = body_number(&b);
    if (b.truncated) break;
    counts_add(&s->total, s->lost);
    counts_add(&s->total, s->indirect);
    counts_add(&l->lost, s->lost);
    counts_add(&l->indirect, s->indirect);
    counts_add(&l->total, s->total);
    l->in_cycles += s->in_cycles;
    l->by_stack_count++;
  }
  return true;
}

bool leaks_read(leaks_at_end_t *end, const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_SEARCHED) return read_head(end, e);
  return e->subtype != EXTENDED_LEAKED || read_stacks(end, e);
}

void leaks_at_end_free(leaks_at_end_t *end) {
  free(end->leaks.exchange);
  leaks_free(&end->leaks);
}

const char *leaks_time_of_search(const reader_t *reader) {
  return reader_header(reader)->exit_status == RECORD_STATUS_RUNNING ? "at the end of the recording"
                                                                     : "when the program exited";
}
