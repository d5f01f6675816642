/* SPDX-License-Identifier: MIT
 *
 * The events of all streams of a recording, merged by time. Each stream keeps its own order.
 *
 * One thread uses a merge, and merge_read_ahead adds one. It must be closed before its reader.
 * Memory use is proportional to the number of threads that were alive at the same time.
 */
#ifndef SONDE_READER_MERGE_H
#define SONDE_READER_MERGE_H

#include "reader/reader.h"

typedef struct merge merge_t;

/* NULL: out of memory. */
merge_t *merge_open(reader_t *reader);
void merge_close(merge_t *merge);

/* Decodes events in a thread of its own, before they are requested; without effect if none can be
 * started. Call it before the first event. */
void merge_read_ahead(merge_t *merge);

/* The next event, valid until the next call; NULL at the end. */
const record_event_t *merge_next(merge_t *merge);

/* The short form of a record_event_t: two events fit in a cache line. */
typedef struct merge_event {
  uint64_t time;
  union {
    /* of the block that the event allocates or frees */
    uint64_t address;
    /* of EVENT_EXTENDED */
    const uint8_t *body;
  };
  /* of EVENT_EXTENDED: of the body; else as of record_event_t */
  uint64_t size;
  uint32_t stack;
  uint8_t kind, moment, subtype;
} merge_event_t;

/* The fast alternative to merge_next; do not mix the two. A run is the next COUNT events in order,
 * all of one stream. Events COUNT to KNOWN - 1 are later events of that stream; a caller can
 * prefetch the memory that it will need for them. */
typedef struct merge_run {
  const merge_event_t *events;
  uint32_t count, known;
  /* of all events */
  uint32_t stream;
  uint64_t sample_bytes;
} merge_run_t;

/* Gets the next run; false at the end. Call merge_consume or merge_defer before the next one. */
bool merge_run(merge_t *merge, merge_run_t *run);

/* Event N of the run. */
record_event_t merge_event(const merge_run_t *run, uint32_t n);

/* Consumes the first N events of the run. */
void merge_consume(merge_t *merge, uint32_t n);

/* Event N of the run contradicts the events so far, for example it allocates a block that is not
 * free. Clocks of two processors and coarse ticks differ a little, so another thread's event may
 * belong before it. If such an event is near, this function consumes the events before N, ends the
 * run, moves event N behind events at most MERGE_DEFER_TICKS later, and returns true. It returns
 * false if event N was already deferred that far, or if no other event is near. The caller then
 * uses event N as it is. */
#define MERGE_DEFER_TICKS 64
bool merge_defer(merge_t *merge, uint32_t n);

/* Bytes of events consumed so far, and the total, for a progress bar. */
void merge_progress(const merge_t *merge, uint64_t *done, uint64_t *total);

#endif
