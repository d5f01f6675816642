/* SPDX-License-Identifier: MIT
 *
 * What the files of the reader share.
 */
#ifndef SONDE_READER_INTERNAL_H
#define SONDE_READER_INTERNAL_H

#include "reader/reader.h"

#define READ_PADDING                                                                               \
  64 /* zero bytes behind a chunk in memory: a varint may be read past its end                     \
      */

/* Where a chunk is. */
typedef struct chunk_place {
  uint64_t offset, base_time;
  uint32_t size, stream, sequence;
  uint32_t span; /* chunks it stands for */
  uint16_t exec_index;
  uint8_t type;
  uint8_t from_scratch;
} chunk_place_t;

/* Ids to places in an array; ids may be sparse, memory follows their count. */
typedef struct id_map {
  uint32_t *slots; /* index + 1 */
  size_t mask, count;
} id_map_t;

typedef struct record_text {
  uint32_t frame;
  const char *text;
} record_text_t;

typedef struct text_block {
  struct text_block *next;
  char text[];
} text_block_t;

#define DECLARE_TABLE(type, name)                                                                  \
  struct {                                                                                         \
    type *items;                                                                                   \
    size_t count, room;                                                                            \
  } name

struct reader {
  int fd;           /* -1: none */
  uint8_t *scratch; /* our own copy of it; NULL: there is none */
  uint64_t scratch_size;
  const uint8_t *data; /* of reader_open_bytes */
  uint64_t size;
  record_header_t header;
  reader_damage_t damage;
  DECLARE_TABLE(chunk_place_t, chunks);
  DECLARE_TABLE(record_image_t, images);
  DECLARE_TABLE(record_thread_t, threads);
  DECLARE_TABLE(record_frame_t, frames);
  DECLARE_TABLE(record_node_t, nodes);
  DECLARE_TABLE(sensor_record_t, others);
  DECLARE_TABLE(const char *, arguments);
  DECLARE_TABLE(record_text_t, texts_of_frames);
  double cost_pair, cost_inside; /* of TABLE_TRACER, in units of the clock */
  id_map_t image_ids, thread_ids, frame_ids, node_ids;
  text_block_t *texts;
  uint16_t exec_index; /* the one that is told of; until the chunks are settled: asked for, or 0 */
  uint16_t programs;   /* the last one that there are chunks of */
};

/* Makes room for one more item; false without memory. */
bool table_grow(void **items, size_t item_size, size_t count, size_t *room);
#define TABLE_ADD(t)                                                                               \
  (table_grow((void **)&(t).items, sizeof *(t).items, (t).count, &(t).room)                        \
       ? &(t).items[(t).count++]                                                                   \
       : NULL)

/* Reads SIZE bytes at OFFSET of the file (or its scratch). Returns the count, short at the end. */
size_t reader_read(const reader_t *reader, bool scratch, uint64_t offset, void *out, size_t size);

/* A place of the file in memory: one chunk, or several where they were packed together. */
typedef struct chunk_buffer {
  uint8_t *bytes; /* READ_PADDING zeros behind */
  size_t room, size, at;
} chunk_buffer_t;

/* Reads what is at PLACE into BUFFER, which begins as zeros. False when it is to be passed over,
 * which has been counted. */
bool reader_place(reader_t *reader, const chunk_place_t *place, chunk_buffer_t *buffer);

/* The next chunk of BUFFER: its header, and where its payload is. False when there is none left. */
bool reader_chunk(chunk_buffer_t *buffer, chunk_header_t *header, const uint8_t **payload,
                  const uint8_t **end);

/* Fills the tables from all chunks of tables. 0 or SONDE_ENOMEM. */
int reader_tables(reader_t *reader);

#endif
