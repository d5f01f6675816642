/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the reader.
 */
#ifndef SONDE_READER_INTERNAL_H
#define SONDE_READER_INTERNAL_H

#include "base/array.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/pool.h"
#include "hook/move.h"
#include "reader/reader.h"

/* Zero bytes behind a chunk in memory, because a varint may be read past the chunk's end. */
#define READ_PADDING 64

/* Where a chunk is. */
typedef struct chunk_place {
  uint64_t offset, base_time;
  uint32_t size, stream, sequence;
  /* how many chunks it replaces: packed chunks replace several */
  uint32_t span;
  uint16_t exec_index;
  uint8_t type;
  uint8_t from_shm;
} chunk_place_t;

/* How far a stream was read: EVENTS of its chunk SEQUENCE, and all chunks before. */
typedef struct stream_place {
  uint32_t stream, sequence;
  uint64_t events;
} stream_place_t;

/* The functions of a frame that were looked up. */
typedef struct named_frame {
  uint32_t frame, count;
  const record_function_t *functions;
} named_frame_t;

struct resume {
  /* 0: the last one, and none has been read */
  uint16_t program;
  /* a part was read, so the program exists */
  bool has_begun;
  /* by stream */
  ARRAY(stream_place_t) streams;
  /* Of a file without a ring: all its chunks before this offset are known; 0: none. Those that are
   * needed again are its tables, and the events that were not read. */
  uint64_t known_until;
  ARRAY(chunk_place_t) known;
  ARRAY(named_frame_t) named;
  hash_index_t named_ids;
  pool_t names;
};

/* Links of a node to other items, as their numbers + 1. */
typedef struct node_link {
  /* its parent; 0: it is the outermost node; LINK_MISSING: the parent is not defined */
  uint32_t outer;
  /* 0: the frame is not defined */
  uint32_t frame;
} node_link_t;

#define LINK_MISSING UINT32_MAX

typedef struct frame_text {
  uint32_t frame;
  const char *text;
} frame_text_t;

/* COUNT functions of a frame, from number FIRST. */
typedef struct frame_functions {
  uint32_t frame, count;
  size_t first;
} frame_functions_t;

/* The stack ID: that of the node NATIVE with the Python frames CHAIN. */
typedef struct merged_stack {
  uint32_t id, native, chain;
} merged_stack_t;

/* A copied string; the blocks form a list. */
typedef struct text_block {
  struct text_block *next;
  char text[];
} text_block_t;

struct reader {
  /* -1: none */
  int fd;
  /* A copy of the recorder's shared buffers; NULL: none. Records whose first byte is in `heads`,
   * which was copied before, are complete in it. */
  uint8_t *shm, *heads;
  uint64_t shm_size;
  /* of reader_open_bytes */
  const uint8_t *data;
  uint64_t size;
  record_header_t header;
  reader_damage_t damage;
  ARRAY(chunk_place_t) chunks;
  ARRAY(record_image_t) images;
  ARRAY(record_thread_t) threads;
  ARRAY(record_frame_t) frames;
  ARRAY(record_node_t) nodes;
  /* of all nodes, in the same order, if `is_linked` */
  ARRAY(node_link_t) links;
  bool is_linked;
  /* two nodes have one id, and another parent or frame */
  bool has_replaced_nodes;
  ARRAY(record_chain_t) chain_nodes;
  ARRAY(merged_stack_t) merged_stacks;
  /* frames that are calls of Python's evaluator */
  ARRAY(uint32_t) python_calls;
  ARRAY(sensor_record_t) sensor_records;
  ARRAY(const char *) arguments;
  ARRAY(frame_text_t) frame_texts;
  ARRAY(frame_functions_t) frame_functions;
  ARRAY(record_function_t) functions;
  ARRAY(record_code_t) codes;
  /* NULL: no address had two codes */
  struct code_times *code_times;
  /* of items that the reader adds; 0: none yet; above UINT32_MAX: no id is left */
  uint64_t next_frame, next_node;
  /* the id of sonde's agent among the images; 0: none */
  uint32_t agent;
  /* of TABLE_TRACER, in units of the clock */
  double cost_pair, cost_inside;
  /* TABLE_OUTSIDE has replaced the header's mode */
  bool is_agentless;
  /* of TABLE_CALL_LIMITS */
  uint64_t least_call_ns, call_depth;
  /* of TABLE_PATCHED */
  uint64_t patched[MOVE_FAULT_COUNT];
  /* of images, threads, frames, nodes and chain nodes */
  ids_t image_ids, thread_ids, frame_ids, node_ids, chain_ids;
  text_block_t *texts;
  /* the program that is read; before its chunks are selected: the requested one, or 0 */
  uint16_t exec_index;
  /* the last program that has chunks; the first one after the requested one */
  uint16_t programs, next_program;
  /* the latest time of a chunk, in ticks */
  uint64_t last_time;
  /* of an unfinished recording: its recorder has ended */
  bool abandoned;
  /* NULL: all events are read */
  const struct resume *resume;
  /* with `resume`: where a chunk is missing or incomplete first, and how far the last merge came */
  uint64_t solid_until;
  ARRAY(stream_place_t) reached;
};

/* Adds NODE, without links. It replaces a node with the same id. 0 or SONDE_ENOMEM. */
int reader_put_node(reader_t *reader, record_node_t node);

/* Makes the links of all nodes; reader_stack needs them. Nodes that reader_set_node adds later get
 * theirs at once. 0 or SONDE_ENOMEM. */
int reader_link_nodes(reader_t *reader);

/* An id above those of all nodes. */
uint64_t reader_next_node(const reader_t *reader);

/* The frame of the node number I, which has links; NULL: it is not defined. */
const record_frame_t *reader_frame_of_node(const reader_t *reader, size_t i);

/* How far STREAM was read before; NULL: not at all. */
const stream_place_t *reader_resumed(const reader_t *reader, uint32_t stream);

/* Notes how far a merge came. False: out of memory. */
bool reader_note_reached(reader_t *reader, const stream_place_t *place);

/* Opens the recording PATH in READER, from reader_new, which it closes on failure. */
int reader_open_path(reader_t **out, reader_t *reader, const char *path, char *error,
                     size_t error_size);
reader_t *reader_new(void);

/* Reads SIZE bytes at OFFSET of the file, or of its shared buffers. Returns the count, which is
 * smaller at the end. */
size_t reader_read(const reader_t *reader, bool shm, uint64_t offset, void *out, size_t size);

size_t reader_read_fd(int fd, uint64_t offset, void *out, size_t size);

/* Copies the slots in use of the buffers that FD refers to, if they are those of READER's file. A
 * chunk that is open now is in the copy, or was closed meanwhile and is in the file, whose size is
 * read later. A chunk in both is complete in the file. */
void reader_copy_shm(reader_t *reader, int fd);

/* One place of the file in memory: a chunk, or several that were packed together. */
typedef struct chunk_buffer {
  /* READ_PADDING zeros behind */
  uint8_t *bytes;
  size_t capacity, size, at;
  /* of a chunk that was being written: what it had before it was copied; NULL: another chunk */
  const uint8_t *heads;
} chunk_buffer_t;

/* True if a record begins at P of BUFFER, and is complete. */
static inline bool chunk_has_record(const chunk_buffer_t *buffer, const uint8_t *p) {
  return *p && (!buffer->heads || buffer->heads[p - buffer->bytes]);
}

/* Reads PLACE into BUFFER, which is zeros at first. False if the place is damaged: the caller skips
 * it, and it has been counted. */
bool reader_place(reader_t *reader, const chunk_place_t *place, chunk_buffer_t *buffer);

/* The same, for any thread: counts damage in *DAMAGED. Without memory, BUFFER->bytes is NULL. */
bool reader_read_place(const reader_t *reader, const chunk_place_t *place, chunk_buffer_t *buffer,
                       uint64_t *damaged);

/* The next chunk of BUFFER: its header and payload. False after the last. */
bool reader_chunk(chunk_buffer_t *buffer, chunk_header_t *header, const uint8_t **payload,
                  const uint8_t **end);

/* Reads all table chunks. 0 or SONDE_ENOMEM. */
int reader_tables(reader_t *reader);

/* Copies N bytes and adds a 0. The reader owns the copy, which is aligned. NULL: out of memory. */
void *reader_keep(reader_t *reader, const void *data, uint64_t n);

/* Adds an item to the tables, with an id that none has. 0: out of memory or ids. */
uint32_t reader_add_frame(reader_t *reader, const record_frame_t *frame);
uint32_t reader_add_node(reader_t *reader, uint32_t parent, uint32_t frame);
/* Adds or replaces the node ID. */
uint32_t reader_set_node(reader_t *reader, uint32_t id, uint32_t parent, uint32_t frame);

const record_chain_t *reader_chain_node(const reader_t *reader, uint32_t id);

/* Makes nodes of the stacks that are merged from native and Python frames. 0 or SONDE_ENOMEM. */
int reader_merge_python(reader_t *reader);

/* Names the frames in generated code, after reader_tables: 0 or SONDE_ENOMEM. If an address had
 * several codes, it adds a stack for each time that events need, so this reads all events. */
int reader_name_code(reader_t *reader);
void reader_free_code(reader_t *reader);

/* The stack that STACK was at TIME, with the names of that time. Only if `code_times` is set. */
uint32_t reader_stack_then(const reader_t *reader, uint32_t stack, uint64_t time);

/* The stack that has become STACK. Only if `code_times` is set. */
uint32_t reader_stack_before(const reader_t *reader, uint32_t stack);

#endif
