/* SPDX-License-Identifier: MIT
 *
 * The names of traced functions that differ from their symbols: see trace_name. If children are
 * recorded, the names are kept, and a forked child records them again in its own recording. A
 * program that records itself keeps them for sonde_trace_print.
 *
 * Threads: any. An entry is complete when its function is set. Names are never removed.
 */
#include "capture/frame_table.h"
#include "record/memory_recording.h"
#include "sensor/trace/trace.h"

#define BLOCK_BYTES 16384u

typedef struct name {
  uint64_t function; /* 0: being written */
  uint64_t bytes;    /* of this entry */
  char text[];
} name_t;

typedef struct block {
  struct block *next;
  uint64_t used; /* of `bytes`; may exceed it */
  uint8_t bytes[BLOCK_BYTES - 16];
} block_t;

static block_t *blocks;

/* Allocates SIZE bytes of a block; NULL if the name is too long or memory is out. */
static name_t *new_name(uint64_t size) {
  while (size <= sizeof blocks->bytes) {
    block_t *b = load_acquire(&blocks), *fresh;
    uint64_t at = b ? __atomic_fetch_add(&b->used, size, __ATOMIC_RELAXED) : UINT32_MAX;
    if (at + size <= sizeof blocks->bytes) return (name_t *)(void *)(b->bytes + at);
    if (!(fresh = os_map(sizeof *fresh))) break;
    fresh->next = b;
    if (!cas_acq_rel(&blocks, &b, fresh)) os_unmap(fresh, sizeof *fresh); /* another was first */
  }
  return NULL;
}

static void keep(uint64_t function, const char *text) {
  uint64_t length = 0;
  while (text[length])
    length++;
  uint64_t size = ALIGN_UP(sizeof(name_t) + length + 1, (uint64_t)8);
  name_t *name = new_name(size);
  if (!name) return;
  name->bytes = size;
  memcpy(name->text, text, length);
  store_release(&name->function, function);
}

static void record(uint64_t function, const char *name) {
  uint32_t id = frame_table_find(function, true, os_loader_epoch()).id;
  uint64_t value = id;
  if (id != FRAME_TABLE_FULL) writer_table(TABLE_FRAME_NAME, &value, 1, name);
}

void trace_name(uint64_t function, const char *name) {
  record(function, name);
  if (writer_on_fork || memory_recording_is_on()) keep(function, name);
}

const char *trace_kept_name(uint64_t function) {
  for (const block_t *b = load_acquire(&blocks); b; b = b->next)
    for (uint64_t at = 0; at + sizeof(name_t) <= sizeof b->bytes;) {
      const name_t *name = (const name_t *)(const void *)(b->bytes + at);
      uint64_t of = load_acquire(&name->function);
      if (!of || !name->bytes) break;
      if (of == function) return name->text;
      at += name->bytes;
    }
  return NULL;
}

/* An entry that was being written at the fork ends its block. */
void trace_names_again(void) {
  for (const block_t *b = blocks; b; b = b->next)
    for (uint64_t at = 0; at + sizeof(name_t) <= sizeof b->bytes;) {
      const name_t *name = (const name_t *)(const void *)(b->bytes + at);
      if (!name->function || !name->bytes) break;
      record(name->function, name->text);
      at += name->bytes;
    }
}
