/* SPDX-License-Identifier: MIT
 *
 * Each path from a node to its root is walked once; a walk ends at the first node with a known
 * stream. A chain with a cycle, or with a parent outside the table, is truncated. See
 * apple_stacks.h.
 */
#include "import/apple_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/hash.h"

/* docs/format.md: the pc of a stack whose end is unknown. */
#define PC_NO_END 1u

/* ---- threads ------------------------------------------------------------------------------ */

static uint64_t hash_of_handle(const void *stacks, size_t i) {
  return hash_number(((const apple_stacks_t *)stacks)->handles[i]);
}

/* Sets *OUT to the number + 1 of the stream of the thread with this pthread; creates the stream
 * when it is new. If there are too many threads, uses the first stream, which is no thread's. False
 * when memory runs out. */
static bool stream_of(apple_stacks_t *s, uint64_t handle, uint16_t *out) {
  uint32_t *slot;
  if (!hash_reserve(&s->handle_index, s->stream_count, hash_of_handle, s)) return false;
  HASH_FIND(&s->handle_index, hash_number(handle), slot) {
    if (s->handles[*slot - 1] == handle) break;
  }
  if (!*slot) {
    char name[32];
    if (s->stream_count == OFFLINE_STREAMS_MAX) {
      *out = 1;
      return true;
    }
    snprintf(name, sizeof name, handle ? "pthread 0x%llx" : "unknown", (unsigned long long)handle);
    stream_t *stream = offline_stream(s->to, s->stream_count, name);
    if (!stream) return false;
    s->handles[s->stream_count] = handle;
    s->streams[s->stream_count++] = stream;
    *slot = s->stream_count;
  }
  *out = (uint16_t)*slot;
  return true;
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* Walks from NODE up to a node with a known stream or to a root, and sets *STREAM to its stream.
 * Stores the nodes in s->path, *END of them. False when memory runs out. */
static bool walk_up(apple_stacks_t *s, uint64_t node, size_t *end, uint16_t *stream) {
  for (*end = 0;;) {
    uint64_t pc, parent;
    if (!ARRAY_GROW(s->path, *end, s->path_capacity)) return false;
    s->path[(*end)++] = node;
    bool there = apple_table_node(s->table, node, &pc, &parent);
    s->states[node] = STATE_OPEN;
    if (there && parent == APPLE_NO_PARENT) /* with threads, its pc is a pthread plus 1 */
      return stream_of(s, s->table->is_lite ? 0 : pc - 1, stream);
    uint16_t above = there && parent < s->table->count ? s->states[parent] : STATE_OPEN;
    if (above & STATE_OPEN) { /* outside the table, or a cycle */
      s->summary->broken_chains++;
      s->states[node] |= STATE_TRUNCATED;
      return stream_of(s, 0, stream);
    }
    if (above) {
      *stream = above & STATE_STREAM;
      return true;
    }
    node = parent;
  }
}

bool apple_stacks_visit(apple_stacks_t *s, uint64_t node) {
  size_t end;
  uint16_t stream = 0;
  if (!walk_up(s, node, &end, &stream)) return false;
  for (size_t i = 0; i < end; i++)
    s->states[s->path[i]] = (uint16_t)((s->states[s->path[i]] & STATE_TRUNCATED) | stream);
  return true;
}

/* ---- frames ------------------------------------------------------------------------------- */

typedef struct frame_pcs {
  uint64_t *items; /* the pc of each frame; a frame's id is its index + 1 */
  size_t count, capacity;
  hash_index_t index;
} frame_pcs_t;

static uint64_t hash_of_frame(const void *pcs, size_t i) {
  return hash_number(((const frame_pcs_t *)pcs)->items[i]);
}

/* The frame id of PC. Writes its record when it is new. 0 when memory runs out. */
static uint32_t frame_of(apple_stacks_t *s, frame_pcs_t *pcs, uint64_t pc,
                         const image_list_t *images) {
  uint32_t *slot;
  if (pc == 0) pc = PC_NO_END;
  if (!ARRAY_GROW(pcs->items, pcs->count, pcs->capacity) ||
      !hash_reserve(&pcs->index, pcs->count, hash_of_frame, pcs))
    return 0;
  HASH_FIND(&pcs->index, hash_number(pc), slot) {
    if (pcs->items[*slot - 1] == pc) return *slot;
  }
  pcs->items[pcs->count++] = pc;
  *slot = (uint32_t)pcs->count;
  offline_table(s->to, TABLE_FRAME,
                (const uint64_t[]){*slot, pc, (uint64_t)(images_find(images, pc) + 1), 0}, 4, NULL);
  return *slot;
}

/* ---- the tables --------------------------------------------------------------------------- */

static void write_images(apple_stacks_t *s, const image_list_t *images, const uint64_t *bases) {
  for (size_t i = 0; i < images->count; i++) {
    const listed_image_t *image = &images->items[i];
    const uint64_t numbers[] = {i + 1, 0, image->start, image->end, image->start - bases[i]};
    const offline_text_t texts[] = {
        {image->uuid, image->has_uuid ? 16 : 0}, {image->path, strlen(image->path)}, {0}};
    offline_table(s->to, TABLE_IMAGE, numbers, 5, texts);
  }
}

static void put_node(apple_stacks_t *s, uint64_t id, uint64_t parent, uint32_t frame) {
  offline_table(s->to, TABLE_NODE, (const uint64_t[]){id, parent, frame}, 3, NULL);
  s->summary->stacks++;
}

/* A thread's pseudo-frame is not part of the stack; its children are outermost. */
static bool is_thread(const apple_stacks_t *s, uint64_t node) {
  uint64_t pc, parent;
  return !s->table->is_lite && apple_table_node(s->table, node, &pc, &parent) &&
         parent == APPLE_NO_PARENT;
}

static bool write_nodes(apple_stacks_t *s, frame_pcs_t *pcs, const image_list_t *images) {
  for (uint64_t i = 0; i < s->table->count && i < UINT32_MAX - 1; i++) {
    uint64_t pc = PC_NO_END, parent = APPLE_NO_PARENT;
    if (!s->states[i]) continue;
    bool there = apple_table_node(s->table, i, &pc, &parent);
    if (!there || is_thread(s, i))
      pc = PC_NO_END; /* an event may refer to it, but its frame is unknown */
    bool is_inner = parent != APPLE_NO_PARENT && !(s->states[i] & STATE_TRUNCATED);
    uint64_t above = is_inner && !is_thread(s, parent) ? parent + 1 : 0;
    uint32_t frame = frame_of(s, pcs, pc, images);
    if (!frame) return false;
    put_node(s, i + 1, above, frame);
  }
  return true;
}

static bool write_ids(apple_stacks_t *s, frame_pcs_t *pcs, const image_list_t *images) {
  uint32_t frame = frame_of(s, pcs, PC_NO_END, images);
  for (uint64_t i = 0; frame && i <= s->highest; i += 8)
    for (unsigned bit = 0; s->used[i / 8] && bit < 8; bit++)
      if (s->used[i / 8] & 1u << bit) put_node(s, i + bit + 1, 0, frame);
  return frame != 0;
}

bool apple_stacks_write(apple_stacks_t *s, const image_list_t *images, const uint64_t *bases) {
  frame_pcs_t pcs = {0};
  write_images(s, images, bases);
  bool good = s->table ? write_nodes(s, &pcs, images) : write_ids(s, &pcs, images);
  s->summary->frames = pcs.count;
  s->summary->threads = s->stream_count - 1;
  free(pcs.items);
  hash_free(&pcs.index);
  return good;
}

/* ---- opening and closing ------------------------------------------------------------------ */

bool apple_stacks_open(apple_stacks_t *s) {
  uint16_t first;
  s->state_bytes = s->table ? s->table->count * sizeof *s->states : STACKS_WITHOUT_TABLE / 8;
  void *memory = mmap(NULL, s->state_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (s->table)
    s->states = memory;
  else
    s->used = memory;
  return stream_of(s, 0, &first);
}

void apple_stacks_close(apple_stacks_t *s) {
  if (s->states) munmap(s->states, s->state_bytes);
  if (s->used) munmap(s->used, s->state_bytes);
  hash_free(&s->handle_index);
  free(s->path);
}
