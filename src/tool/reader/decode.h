/* SPDX-License-Identifier: MIT
 *
 * Decodes the events of one stream, in batches.
 *
 * The body of an extended event is in the memory of its chunk. A decoder has several buffers for
 * chunks, so that it can read the next chunk while the events of the one before are in use.
 *
 * One thread at a time uses a decoder. Several threads may use decoders of one reader.
 */
#ifndef SONDE_READER_DECODE_H
#define SONDE_READER_DECODE_H

#include "reader/internal.h"
#include "reader/merge.h"

/* Events of a batch. Before them is space for the events of the previous batch that are not
 * consumed, and for the event before these: the second event of a realloc refers to the first. */
#define BATCH_EVENTS    256
#define BATCH_LOOKAHEAD 32
#define BATCH_START     (BATCH_LOOKAHEAD + 1)
#define BATCH_END       (BATCH_START + BATCH_EVENTS)

/* What was read and found damaged. It counts only when the merge consumes the events, so a merge
 * that ends early counts no damage that it has not reached. */
typedef struct decode_counts {
  uint64_t place_bytes, damaged_chunks, missing_chunks, bad_records;
} decode_counts_t;

typedef struct event_batch {
  /* in a list of batches */
  struct event_batch *next;
  /* of events: the next one, and the end */
  uint32_t first, behind;
  uint32_t stream;
  /* the number of the decoder's buffer that has the bodies of the events */
  uint8_t buffer;
  /* as of record_event_t, of all events */
  uint64_t sample_bytes;
  decode_counts_t counts;
  merge_event_t events[BATCH_END];
} event_batch_t;

/* ---- decoder ------------------------------------------------------------------------------ */

#define DECODER_BUFFERS 3

typedef struct decoder decoder_t;

/* Of the stream whose chunks are PLACE to PLACE_END - 1 of READER's. NULL: out of memory. */
decoder_t *decoder_new(const reader_t *reader, size_t place, size_t place_end);
void decoder_free(decoder_t *decoder);

/* The counts since the last batch. */
decode_counts_t decoder_take_counts(decoder_t *decoder);

typedef enum decode_status {
  DECODE_EVENTS,    /* the batch has events */
  DECODE_NO_BUFFER, /* the next events need a buffer */
  DECODE_END,       /* of the stream */
} decode_status_t;

/* Decodes the next events into BATCH. BUFFER is the number of a buffer to which no batch in use
 * refers, for the next place; -1: there is none. */
decode_status_t decoder_fill(decoder_t *decoder, event_batch_t *batch, int buffer);

/* How far the stream was decoded; false: it has no chunk that can be read. */
bool decoder_reached(const decoder_t *decoder, stream_place_t *reached);

#endif
