/* SPDX-License-Identifier: MIT
 *
 * Reads recordings: the .sonde format (docs/format.md).
 *
 * A file is untrusted. The reader checks every offset, size and count; the file's size bounds its
 * memory. It counts and skips damaged data, so that the rest can be reported. Chunks are read when
 * they are needed and then discarded: beyond 32 bytes a chunk, the memory of a replay does not
 * depend on the length of the recording.
 *
 * A recording can be read while it is written. If the recorder still runs and belongs to the same
 * user, the reader reads the open chunks in the shared buffers too; otherwise only the chunks in
 * the file.
 *
 * One thread at a time calls these functions. Decoders of events (reader/decode.h) read beside it.
 */
#ifndef SONDE_READER_READER_H
#define SONDE_READER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "record/format.h"

typedef struct reader reader_t;

/* Counts of damaged and missing data. */
typedef struct reader_damage {
  /* wrong checksum or impossible header: skipped, or read in part */
  uint64_t damaged_chunks;
  /* gaps in a stream's sequence */
  uint64_t missing_chunks;
  /* overwritten by newer ones: a limited recording keeps the newest */
  uint64_t dropped_chunks;
  /* ticks: with dropped chunks, events before this time may be missing */
  uint64_t complete_from;
  /* bytes that the truncated file lacks; RECORD_INCOMPLETE: it is not known how many */
  uint64_t truncated_bytes;
  /* bytes where no chunk begins, and the offset of the first of them */
  uint64_t skipped_bytes, first_skipped_at;
  /* malformed records: the rest of the chunk is skipped */
  uint64_t bad_records;
  /* ids that events or nodes use and no table defines */
  uint64_t missing_definitions;
} reader_damage_t;

/* A loaded binary. */
typedef struct record_image {
  uint32_t id;
  /* ticks; unloaded_time 0: still loaded */
  uint64_t time, unloaded_time;
  uint64_t start, end, slide;
  const uint8_t *build_id;
  uint32_t build_id_size;
  const char *path;
  /* it contains the interpreter that runs frames of reader_is_interpreted */
  bool is_interpreter;
} record_image_t;

typedef struct record_thread {
  uint32_t stream, level;
  uint32_t tid;
  uint64_t time;
  const char *name;
} record_thread_t;

/* A function that the recording names itself (TABLE_FUNCTIONS). */
typedef struct record_function {
  const char *name;
  const char *file; /* "": unknown */
  uint32_t line;    /* 0: unknown */
  bool inlined;     /* into the next one */
} record_function_t;

/* Generated code, of TABLE_CODE: it was put there between the times EARLIEST and LATEST, in ticks.
 */
typedef struct record_code {
  uint64_t address, size, earliest, latest;
  /* in the order of the file that named it */
  uint64_t number;
  record_function_t function;
  bool has_exact_time;
} record_code_t;

typedef struct record_frame {
  uint32_t id, image, flags;
  uint64_t pc;
  /* its name, if the recording contains one (TABLE_FRAME_NAME); else NULL */
  const char *text;
  /* innermost first; the count is 0 if the recording does not have them */
  const record_function_t *functions;
  uint32_t function_count;
} record_frame_t;

/* A node of the stack table. The ids are those of the recording. */
typedef struct record_node {
  uint32_t id, parent, frame;
} record_node_t;

/* Python frames alone: the frame, 0: none, inside of PARENT, with CHAIN_… flags. The stacks that
 * need them are nodes, too. */
typedef struct record_chain {
  uint32_t id, parent, frame, flags;
} record_chain_t;

/* What is missing because the recorder was killed: nothing; all that the recorder itself would have
 * written since; also the newest events of each thread, in chunks that nobody collected. */
typedef enum reader_loss {
  READER_LOST_NOTHING,
  READER_LOST_RECORDER,
  READER_LOST_NEWEST,
} reader_loss_t;
reader_loss_t reader_recorder_loss(const reader_t *reader);

/* Opens the recording PATH. On failure returns a negative SONDE_E… and writes one line to ERROR. */
int reader_open(reader_t **out, const char *path, char *error, size_t error_size);

/* Opens a recording in memory. DATA must stay valid until reader_close. */
int reader_open_bytes(reader_t **out, const void *data, uint64_t size, char *error,
                      size_t error_size);

/* As reader_open, for program number PROGRAM of the process: execve replaces program 1 by program
 * 2, and so on. Each program has its own tables and events. PROGRAM 0 is the last one. */
int reader_open_program(reader_t **out, const char *path, uint32_t program, char *error,
                        size_t error_size);
void reader_close(reader_t *reader);

/* The number of the program that is read, and the count of programs that the process executed. The
 * last program may have no data yet. */
uint32_t reader_program(const reader_t *reader);
uint32_t reader_programs(const reader_t *reader);

/* Whether that program has no agent, unlike others of the process: its mode is not the file's. */
bool reader_is_agentless(const reader_t *reader);

const record_header_t *reader_header(const reader_t *reader);
const reader_damage_t *reader_damage(const reader_t *reader);

/* The executable and arguments of the recorded program; argument 0 is the executable's path. NULL
 * beyond the last. */
const char *reader_argument(const reader_t *reader, uint32_t index);

/* The tables. Pointers stay valid until reader_close. */
const record_image_t *reader_images(const reader_t *reader, size_t *count);
const record_thread_t *reader_threads(const reader_t *reader, size_t *count);
const record_node_t *reader_nodes(const reader_t *reader, size_t *count);
const record_chain_t *reader_chains(const reader_t *reader, size_t *count);
const uint32_t *reader_python_calls(const reader_t *reader, size_t *count);
const record_frame_t *reader_frames(const reader_t *reader, size_t *count);
const record_code_t *reader_codes(const reader_t *reader, size_t *count);

/* A definition by a sensor (table types that the reader does not interpret), in file order. */
typedef struct sensor_record {
  /* table_type_t */
  uint8_t type;
  const uint8_t *body;
  uint32_t size;
} sensor_record_t;
const sensor_record_t *reader_sensor_records(const reader_t *reader, size_t *count);

/* The item with this id; NULL if there is none. If an id is defined twice, the last definition. */
const record_thread_t *reader_thread(const reader_t *reader, uint32_t stream);
const record_image_t *reader_image(const reader_t *reader, uint32_t id);
const record_frame_t *reader_frame(const reader_t *reader, uint32_t id);

/* Whether F is a function of an interpreted language; its name is in `functions`. */
bool reader_is_interpreted(const record_frame_t *f);

/* True if FRAME is code of sonde's agent. */
bool reader_is_agent(const reader_t *reader, const record_frame_t *frame);
const record_node_t *reader_node(const reader_t *reader, uint32_t id);

/* Writes at most MAX frames of stack ID to FRAMES, innermost first. Returns the depth of the stack,
 * which may exceed MAX; READER_DEPTH_MAX + 1 for a deeper stack, which is truncated; -1 if a part
 * of the stack is not defined or, in a hostile file, its nodes form a cycle. */
#define READER_DEPTH_MAX 65536
int reader_stack(const reader_t *reader, uint32_t id, const record_frame_t **frames, int max);

/* The same without the frames of sonde's agent. If the innermost frames are the agent's, which was
 * then at work, one of them stands for all. */
int reader_program_stack(const reader_t *reader, uint32_t id, const record_frame_t **frames,
                         int max);

/* Converts TICKS, the shifted ticks of events, to nanoseconds since the start of the recording. */
uint64_t reader_ns(const reader_t *reader, uint64_t ticks);

/* ---- events ------------------------------------------------------------------------------- */

typedef struct record_event {
  /* shifted ticks */
  uint64_t time;
  /* of the block; 0 in the first event of a realloc */
  uint64_t address;
  /* of both events of a realloc: the old block; of a sample in a summary: the count of further
   * equal samples; else 0 */
  uint64_t old;
  /* 0 for a free; of a sample: the ticks merged into it */
  uint64_t size;
  /* mean bytes between two sampled blocks; 0: every block is recorded */
  uint64_t sample_bytes;
  /* of EVENT_EXTENDED */
  const uint8_t *body;
  uint32_t body_size;
  uint32_t stack;
  uint32_t stream;
  /* event_kind_t, never EVENT_NONE */
  uint8_t kind;
  /* a realloc is two events: 0 frees the old block, 1 allocates the new one */
  uint8_t moment;
  /* of EVENT_EXTENDED */
  uint8_t subtype;
} record_event_t;

#endif
