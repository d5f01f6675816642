/* SPDX-License-Identifier: MIT
 *
 * Adds the live blocks up by stack, then writes the stacks, the largest first, until the file is
 * full. A stack's nodes, frames and images are written with the first stack that has them, and
 * numbered anew, since small numbers take fewer bytes.
 */
#include "sensor/malloc/summary.h"

#include "capture/frame_table.h"
#include "capture/stack_table.h"
#include "image/list.h"
#include "record/definitions.h"
#include "record/header.h"
#include "record/live_table.h"
#include "record/standalone.h"
#include "record/tables.h"
#include "record/writer.h"
#include "sensor/malloc/id_map.h"
#include "sensor/malloc/live.h"
#include "sonde/status.h"

#define LIMIT_DEFAULT 100000u
#define LIMIT_MIN     (16u << 10)
#define LIMIT_MAX     (1u << 20)
#define CHAIN_MAX     4096 /* frames of a stack that is written */
#define SIZE_CLASSES  64
#define RECORD_MAX    96u /* of a stack, a node or a frame */

typedef struct amount {
  uint64_t count, bytes;
} amount_t;

typedef struct stack_amount {
  uint32_t stack;
  amount_t live;
} stack_amount_t;

/* A chunk that is being built. */
typedef struct table {
  uint8_t *chunk;
  uint32_t used; /* bytes of records */
} table_t;

typedef struct summary {
  uint32_t limit; /* of the records of both chunks */
  bool is_full;
  table_t tables, totals;
  amount_t all, rest, sizes[SIZE_CLASSES];
  id_map_t stacks, nodes, frames, images;
  stack_amount_t items[ID_MAP_MAX];
  uint32_t chain[CHAIN_MAX];
  table_body_t body;
} summary_t;

/* ---- collecting ----------------------------------------------------------------------------- */

static void add(amount_t *to, uint64_t count, uint64_t bytes) {
  to->count += count;
  to->bytes += bytes;
}

static bool add_block(void *context, uint64_t address, const live_detail_t *block) {
  summary_t *s = context;
  (void)address;
  add(&s->all, 1, block->size);
  add(&s->sizes[block->size ? 63 - __builtin_clzll(block->size) : 0], 1, block->size);
  uint32_t number = block->stack ? id_map_get(&s->stacks, block->stack) : 0;
  if (!number && block->stack) {
    number = id_map_add(&s->stacks, block->stack);
    if (number) s->items[number - 1].stack = block->stack;
  }
  add(number ? &s->items[number - 1].live : &s->rest, 1, block->size);
  return true;
}

/* Moves items[I] down the heap of COUNT items, whose parents have fewer bytes than their children.
 */
static void sift(stack_amount_t *items, uint32_t count, uint32_t i) {
  for (uint32_t child; (child = 2 * i + 1) < count; i = child) {
    if (child + 1 < count && items[child + 1].live.bytes < items[child].live.bytes) child++;
    if (items[i].live.bytes <= items[child].live.bytes) return;
    stack_amount_t t = items[i];
    items[i] = items[child];
    items[child] = t;
  }
}

/* Heap sort: most bytes first. */
static void sort(stack_amount_t *items, uint32_t count) {
  for (uint32_t i = count / 2; i-- > 0;)
    sift(items, count, i);
  for (uint32_t end = count; end-- > 1;) {
    stack_amount_t t = items[0];
    items[0] = items[end];
    items[end] = t;
    sift(items, end, 0);
  }
}

/* ---- records -------------------------------------------------------------------------------- */

/* Adds the body that was built to a table. */
static bool put(summary_t *s, table_t *to, unsigned type) {
  uint32_t size = table_body_size(&s->body);
  if (s->tables.used + s->totals.used + size > s->limit) return false;
  table_body_put(&s->body, (uint8_t)type, to->chunk + sizeof(chunk_header_t) + to->used);
  to->used += size;
  return true;
}

static bool put_numbers(summary_t *s, table_t *to, unsigned type, const uint64_t *numbers,
                        uint32_t count) {
  table_body_numbers(&s->body, numbers, count);
  return put(s, to, type);
}

static bool put_stack(summary_t *s, uint32_t id, amount_t live) {
  const uint64_t numbers[] = {id, 0, 0, live.count, live.bytes, live.count, live.bytes, 0, 0};
  return put_numbers(s, &s->totals, SUMMARY_STACK, numbers, ARRAY_COUNT(numbers));
}

static bool put_image(summary_t *s, uint32_t number, image_id_t id) {
  char program[4096];
  const image_entry_t *entry = image_entry(id);
  if (!entry) return false;
  const image_t *i = &entry->image;
  table_body_image(&s->body, number, 0, i->start, i->end, i->slide, i->build_id, i->build_id_size,
                   definitions_path(entry, program, sizeof program));
  return put(s, &s->tables, TABLE_IMAGE);
}

/* The number of an image, which is written if it is new; 0: it does not fit. */
static uint32_t image_number(summary_t *s, image_id_t id) {
  uint32_t number = id_map_get(&s->images, id);
  if (number || !(number = id_map_add(&s->images, id))) return number;
  return put_image(s, number, id) ? number : 0;
}

static uint32_t frame_number(summary_t *s, uint32_t id) {
  frame_info_t info;
  uint32_t image = 0, number = id_map_get(&s->frames, id);
  if (number) return number;
  if (!frame_table_get(id, &info)) return 0;
  if (info.image && !(image = image_number(s, info.image))) return 0;
  if (!(number = id_map_add(&s->frames, id))) return 0;
  const uint64_t numbers[] = {number, info.pc, image, definitions_frame_flags(info.pc, info.exact)};
  return put_numbers(s, &s->tables, TABLE_FRAME, numbers, ARRAY_COUNT(numbers)) ? number : 0;
}

/* Writes the nodes of STACK that are new, the outermost first. Returns the number of the innermost;
 * 0: they do not fit. */
static uint32_t node_number(summary_t *s, uint32_t stack) {
  uint32_t parent = 0, frame, number = 0;
  int depth = 0;
  for (uint32_t id = stack; id && !(number = id_map_get(&s->nodes, id)); id = parent) {
    if (depth == CHAIN_MAX || !stack_table_get(id, &parent, &frame)) return 0;
    s->chain[depth++] = id;
  }
  while (depth-- > 0) {
    (void)stack_table_get(s->chain[depth], &parent, &frame);
    uint64_t numbers[] = {0, number, frame_number(s, frame)};
    if (!numbers[2] || !(number = id_map_add(&s->nodes, s->chain[depth]))) return 0;
    numbers[0] = number;
    if (!put_numbers(s, &s->tables, TABLE_NODE, numbers, 3)) return 0;
  }
  return number;
}

/* Once a stack does not fit, no other is tried: numbers were given to nodes that were not written.
 */
static uint32_t put_stacks(summary_t *s) {
  uint32_t left_out = 0;
  for (uint32_t i = 0; i < s->stacks.count; i++) {
    const stack_amount_t *item = &s->items[i];
    uint32_t before = s->tables.used;
    uint32_t number = s->is_full ? 0 : node_number(s, item->stack);
    if (number && put_stack(s, number, item->live)) continue;
    if (!s->is_full) s->tables.used = before;
    s->is_full = true;
    add(&s->rest, item->live.count, item->live.bytes);
    left_out++;
  }
  return left_out;
}

/* The numbers are those of tool/analysis/summary/summary.h, in order: what the blocks were before
 * is unknown. */
static bool put_totals(summary_t *s, uint64_t now) {
  const amount_t *all = &s->all;
  const uint64_t totals[] = {0,          0,          0,   0, 0,   0, all->count, all->bytes,
                             all->count, all->bytes, now, 0, now, 0, 0,          0,
                             0,          0,          0,   1, 0,   0, 0};
  bool good = put_numbers(s, &s->totals, SUMMARY_TOTALS, totals, ARRAY_COUNT(totals));
  for (unsigned i = 0; good && i < SIZE_CLASSES; i++) {
    const uint64_t numbers[] = {i, 0, 0, s->sizes[i].count, s->sizes[i].bytes};
    if (s->sizes[i].count) good = put_numbers(s, &s->totals, SUMMARY_SIZE, numbers, 5);
  }
  return good;
}

/* ---- the file ------------------------------------------------------------------------------- */

static int write_chunk(int fd, const table_t *t, chunk_type_t type, uint64_t *at) {
  chunk_header_t h = {.magic = CHUNK_MAGIC,
                      .type = (uint16_t)type,
                      .flags = CHUNK_CLOSED,
                      .exec_index = 1,
                      .records = 1,
                      .used = t->used,
                      .size = ALIGN_UP((uint32_t)sizeof h + t->used, 8u)};
  memcpy(t->chunk, &h, sizeof h);
  memset(t->chunk + sizeof h + t->used, 0, h.size - sizeof h - t->used);
  chunk_seal(t->chunk, h.size);
  int status = header_write_at(fd, t->chunk, h.size, *at);
  *at += h.size;
  return status;
}

static int write_file(const summary_t *s, const char *path) {
  record_header_t h = *standalone_header();
  uint64_t at = RECORD_HEADER_SIZE;
  int fd = os_create_high(path);
  if (fd < 0) return SONDE_EIO;
  h.features |= RECORD_FEATURE_SUMMARY;
  h.mode = load_relaxed(&writer_control()->mode);
  int status = write_chunk(fd, &s->tables, CHUNK_TABLES, &at);
  if (status == 0) status = write_chunk(fd, &s->totals, CHUNK_SUMMARY, &at);
  header_finish(&h, writer_control(), RECORD_STATUS_RUNNING, fd);
  h.ring_start = h.ring_bytes = h.ring_written = 0;
  if (status == 0) status = header_write(&h, fd);
  os_close(fd);
  if (status) os_remove(path);
  return status ? SONDE_EIO : 0;
}

static int write_all(summary_t *s, const char *path) {
  live_table_each(writer_control(), add_block, s);
  sort(s->items, s->stacks.count);
  table_body_process(&s->body, writer_control()->pid);
  if (!put(s, &s->tables, TABLE_PROCESS) || !put_totals(s, standalone_now())) return SONDE_EINVAL;
  s->limit -= RECORD_MAX; /* for the sum of what is left out */
  uint32_t left_out = put_stacks(s);
  s->limit += RECORD_MAX;
  if (s->rest.count && !put_stack(s, 0, s->rest)) return SONDE_EINVAL;
  int status = write_file(s, path);
  return status ? status : (int)left_out;
}

int malloc_summary_write(const char *path, size_t limit_bytes) {
  uint64_t room = limit_bytes ? limit_bytes : LIMIT_DEFAULT;
  if (!path || room < LIMIT_MIN || room > LIMIT_MAX) return SONDE_EINVAL;
  if (!standalone_is_on() || !(load_relaxed(&writer_control()->mode) & RECORD_LIVE))
    return SONDE_EUNSUPPORTED;
  summary_t *s = os_map(sizeof *s);
  uint8_t *chunks = os_map(2 * LIMIT_MAX);
  int status = SONDE_ENOMEM;
  if (s && chunks) {
    s->tables.chunk = chunks;
    s->totals.chunk = chunks + LIMIT_MAX;
    s->limit = (uint32_t)room - RECORD_HEADER_SIZE - 2 * (uint32_t)(sizeof(chunk_header_t) + 8);
    status = write_all(s, path);
  }
  if (s) os_unmap(s, sizeof *s);
  if (chunks) os_unmap(chunks, 2 * LIMIT_MAX);
  return status;
}
