/* SPDX-License-Identifier: MIT
 *
 * The outside end of the .sonde format.
 *
 * A file is untrusted: every offset, size and count is checked, memory is bounded by the file's
 * size, and what cannot be read is counted and passed over, so that the rest still answers. Chunks
 * are read when they are needed and dropped again: the memory of a replay does not depend on the
 * length of the recording, beyond 32 bytes a chunk.
 *
 * A recording that is still being written can be read as far as it is in the file, and where its
 * recorder lives and is ours, its open chunks as well.
 */
#ifndef SONDE_READER_READER_H
#define SONDE_READER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "record/format.h"

typedef struct reader reader_t;

/* What was found wrong, or missing. */
typedef struct read_damage {
  uint64_t damaged_chunks;   /* wrong checksum or impossible header: passed over, or read in part */
  uint64_t missing_chunks;   /* gaps in a stream's sequence */
  uint64_t dropped_chunks;   /* overwritten by newer ones: the recording keeps the newest */
  uint64_t skipped_bytes;    /* no chunk begins there */
  uint64_t first_skipped_at; /* offset of the first of these */
  uint64_t bad_records; /* a record that breaks the rules: the rest of its chunk is passed over */
  uint64_t missing_definitions; /* ids that events or nodes name and no table defines */
} reader_damage_t;

typedef struct record_image {
  uint32_t id;
  uint64_t time, unloaded_time; /* ticks; 0: not unloaded */
  uint64_t start, end, slide;
  const uint8_t *build_id;
  uint32_t build_id_size;
  const char *path;
} record_image_t;

typedef struct record_thread {
  uint32_t stream, level;
  uint32_t tid;
  uint64_t time;
  const char *name;
} record_thread_t;

typedef struct record_frame {
  uint32_t id, image, flags;
  uint64_t pc;
  const char *text; /* what it is to be called, where the recording says so; else NULL */
} record_frame_t;

typedef struct record_node {
  uint32_t id, parent, frame; /* ids as recorded */
} record_node_t;

/* Opens PATH. On failure returns a negative SONDE_E… and writes one line to ERROR. */
int reader_open(reader_t **out, const char *path, char *error, size_t error_size);
/* As above, of DATA, which is kept by the caller. */
int reader_open_bytes(reader_t **out, const void *data, uint64_t size, char *error,
                      size_t error_size);
/* As reader_open, of another program of the process than its last one: execve replaces one by the
 * next, 1, 2, … Each has tables and events of its own. PROGRAM 0: the last one. */
int reader_open_program(reader_t **out, const char *path, uint32_t program, char *error,
                        size_t error_size);
void reader_close(reader_t *reader);

/* Which program the reader tells of, and how many the process has run: those that came after it
 * may have left nothing in the recording yet. */
uint32_t reader_program(const reader_t *reader);
uint32_t reader_programs(const reader_t *reader);

const record_header_t *reader_header(const reader_t *reader);
const reader_damage_t *reader_damage(const reader_t *reader);

/* The executable and arguments of the recorded program; argument 0 is the executable's path. NULL
 * beyond the last. */
const char *reader_argument(const reader_t *reader, uint32_t index);

/* The tables. Pointers stay valid until reader_close. */
const record_image_t *reader_images(const reader_t *reader, size_t *count);
const record_thread_t *reader_threads(const reader_t *reader, size_t *count);
const record_node_t *reader_nodes(const reader_t *reader, size_t *count);
const record_frame_t *reader_frames(const reader_t *reader, size_t *count);

/* Records of tables that the sensors added, in the order in which they stand in the file. */
typedef struct record_other {
  uint8_t type; /* table_type_t */
  const uint8_t *body;
  uint32_t size;
} sensor_record_t;
const sensor_record_t *reader_sensor_records(const reader_t *reader, size_t *count);

const record_thread_t *reader_thread(const reader_t *reader, uint32_t stream);
const record_image_t *reader_image(const reader_t *reader, uint32_t id);
const record_frame_t *reader_frame(const reader_t *reader, uint32_t id);
const record_node_t *reader_node(const reader_t *reader, uint32_t id);

/* The frames of stack ID, innermost first. Returns how many there are (it may be more than MAX), or
 * -1 when the stack or a part of it is not defined, or goes round in a circle in a hostile file.
 * One that is deeper than READER_DEPTH_MAX is cut there; READER_DEPTH_MAX + 1 is returned for it.
 */
#define READER_DEPTH_MAX 65536
int reader_stack(const reader_t *reader, uint32_t id, const record_frame_t **frames, int max);

/* Nanoseconds since the start of the recording of TICKS, shifted ticks as events carry them. */
uint64_t reader_ns(const reader_t *reader, uint64_t ticks);

/* ---- events ------------------------------------------------------------------------------- */

typedef struct record_event {
  uint64_t time;         /* shifted ticks */
  uint64_t address;      /* of the block; 0 in the first moment of a realloc */
  uint64_t old;          /* of a realloc's both moments: the block given up; of a sample out of a
                            summary: how many more there are like it; else 0 */
  uint64_t size;         /* 0 for a free; of a sample: the ticks merged into it */
  uint64_t sample_bytes; /* it stands for others: one block in so many bytes is recorded; 0: each */
  const uint8_t *body;   /* of EVENT_EXTENDED */
  uint32_t body_size;
  uint32_t stack;
  uint32_t stream;
  uint8_t kind;    /* event_kind_t, never EVENT_NONE */
  uint8_t moment;  /* a realloc comes twice: 0 the old block is given up, 1 the new one is there */
  uint8_t subtype; /* of EVENT_EXTENDED */
} record_event_t;

/* ---- bodies of extended records ----------------------------------------------------------- */

/* The first COUNT varints of the body; false when there are not so many. */
bool body_numbers(const record_event_t *event, uint64_t *out, int count);

/* A block of EXTENDED_BLOCKS. */
typedef struct record_block {
  uint64_t address, size, time; /* ticks when it was given out */
  uint32_t stack, stream;
} record_block_t;

/* Calls VISIT for each block of the body, as far as it is whole, until it returns false; returns
 * what the last call did, or true. */
typedef bool body_block_visit_t(void *context, const record_block_t *block);
bool body_blocks(const record_event_t *event, body_block_visit_t *visit, void *context);

/* The string that the body begins with: its length, and where it is (not ended with a 0). */
size_t body_text(const record_event_t *event, const char **name);
/* The same of a string behind COUNT varints. */
size_t body_text_after(const record_event_t *event, int count, const char **name);

/* ---- in order ----------------------------------------------------------------------------- */

/* The events of all streams in the order in which they happened: by time, each stream's own order
 * kept. */
typedef struct merge merge_t;

merge_t *merge_open(reader_t *reader); /* NULL without memory */

/* The next event, or NULL at the end. Valid until the next call. */
const record_event_t *merge_next(merge_t *merge);

/* For those who read very many: the next events that come from one stream, COUNT of them, and
 * behind these as many as are known of what that stream will give later, KNOWN in all, so that what
 * they need can be fetched early. merge_consume consumes the first N of them; only then may the
 * next run be asked for. False at the end. Not to be mixed with merge_next. */
typedef struct merge_run {
  const record_event_t *events;
  uint32_t count, known;
} merge_run_t;

bool merge_run(merge_t *merge, merge_run_t *run);
void merge_consume(merge_t *merge, uint32_t n);

/* Not yet: event N of the run contradicts what is known (a block given out that is not free), so
 * another thread's event that is at hand must have come first; clocks of two processors and a
 * coarse tick allow that much. When true, those before it are consumed, the run is over, and the
 * event comes again after others of at most MERGE_DEFER_TICKS later. False when it has waited long
 * enough or nothing else is near: it must be taken as it is. */
#define MERGE_DEFER_TICKS 64
bool merge_defer(merge_t *merge, uint32_t n);

/* Bytes of events consumed so far, and all there are, for a progress bar. */
void merge_progress(const merge_t *merge, uint64_t *done, uint64_t *total);
void merge_close(merge_t *merge);

#endif
