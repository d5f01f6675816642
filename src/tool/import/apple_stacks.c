/* SPDX-License-Identifier: MIT
 *
 * Each node is walked to its root once: the way to a node that was met before is known. A chain
 * that comes back to itself, or leads out of the table, is cut there. See apple_stacks.h.
 */
#include "import/apple_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "symbol/index/strings.h"

#define HANDLE_SLOTS (4 * OFFLINE_STREAMS_MAX)
#define PC_NO_END    1u /* docs/format.md: of a stack whose end was not found */

/* ---- threads ------------------------------------------------------------------------------ */

/* The stream of the thread with this pthread, made when it is new; the first one, of nobody, when
 * there are too many. False: no memory. */
static bool stream_of(apple_stacks_t *s, uint64_t handle, uint16_t *out) {
  uint32_t i = (uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) % HANDLE_SLOTS;
  while (s->slots[i] && s->handles[s->slots[i] - 1] != handle)
    i = (i + 1) % HANDLE_SLOTS;
  if (!s->slots[i]) {
    char name[32];
    if (s->stream_count == OFFLINE_STREAMS_MAX) {
      *out = 1;
      return true;
    }
    snprintf(name, sizeof name, handle ? "pthread 0x%llx" : "not known",
             (unsigned long long)handle);
    stream_t *stream = offline_stream(s->to, s->stream_count, name);
    if (!stream) return false;
    s->handles[s->stream_count] = handle;
    s->streams[s->stream_count++] = stream;
    s->slots[i] = s->stream_count;
  }
  *out = (uint16_t)s->slots[i];
  return true;
}

/* ---- meeting nodes ------------------------------------------------------------------------ */

/* Goes up from NODE, noting the way, to a node whose stream is known or to a root; then *STREAM is
 * its stream. *END is how far the way goes. */
static bool go_up(apple_stacks_t *s, uint64_t node, size_t *end, uint16_t *stream) {
  for (*end = 0;;) {
    uint64_t pc, parent;
    if (!array_reserve((void **)&s->path, &s->path_room, *end, sizeof *s->path)) return false;
    s->path[(*end)++] = node;
    bool there = apple_table_node(s->table, node, &pc, &parent);
    s->states[node] = STATE_OPEN;
    if (there && parent == APPLE_NO_PARENT) /* where the thread is known: a pthread, plus 1 */
      return stream_of(s, s->table->is_lite ? 0 : pc - 1, stream);
    uint16_t above = there && parent < s->table->count ? s->states[parent] : STATE_OPEN;
    if (above & STATE_OPEN) { /* nowhere, or round in a circle */
      s->summary->broken_chains++;
      s->states[node] |= STATE_CUT;
      return stream_of(s, 0, stream);
    }
    if (above) {
      *stream = above & STATE_STREAM;
      return true;
    }
    node = parent;
  }
}

bool apple_stacks_meet(apple_stacks_t *s, uint64_t node) {
  size_t end;
  uint16_t stream = 0;
  if (!go_up(s, node, &end, &stream)) return false;
  for (size_t i = 0; i < end; i++)
    s->states[s->path[i]] = (uint16_t)((s->states[s->path[i]] & STATE_CUT) | stream);
  return true;
}

/* ---- frames ------------------------------------------------------------------------------- */

typedef struct pcs {
  uint64_t *items; /* by slot; 0: free */
  uint32_t *ids;
  size_t mask, count;
} pcs_t;

static size_t slot_of(const pcs_t *pcs, uint64_t pc) {
  size_t i = (size_t)(pc * UINT64_C(0x9e3779b97f4a7c15) >> 20) & pcs->mask;
  while (pcs->items[i] && pcs->items[i] != pc)
    i = (i + 1) & pcs->mask;
  return i;
}

static bool grow(pcs_t *pcs) {
  pcs_t more = {.mask = pcs->items ? pcs->mask * 2 + 1 : 1023, .count = pcs->count};
  more.items = calloc(more.mask + 1, sizeof *more.items);
  more.ids = calloc(more.mask + 1, sizeof *more.ids);
  if (!more.items || !more.ids) {
    free(more.items);
    free(more.ids);
    return false;
  }
  for (size_t i = 0; pcs->items && i <= pcs->mask; i++) {
    if (!pcs->items[i]) continue;
    size_t slot = slot_of(&more, pcs->items[i]);
    more.items[slot] = pcs->items[i];
    more.ids[slot] = pcs->ids[i];
  }
  free(pcs->items);
  free(pcs->ids);
  *pcs = more;
  return true;
}

/* The frame id of PC, whose record is written when it is new; 0: no memory. */
static uint32_t frame_of(apple_stacks_t *s, pcs_t *pcs, uint64_t pc, const image_list_t *images) {
  if (2 * (pcs->count + 1) > pcs->mask && !grow(pcs)) return 0;
  if (pc == 0) pc = PC_NO_END;
  size_t slot = slot_of(pcs, pc);
  if (!pcs->items[slot]) {
    long image = images_find(images, pc);
    pcs->items[slot] = pc;
    pcs->ids[slot] = (uint32_t)++pcs->count;
    offline_table(s->to, TABLE_FRAME,
                  (const uint64_t[]){pcs->ids[slot], pc, (uint64_t)(image + 1), 0}, 4, NULL);
  }
  return pcs->ids[slot];
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

/* A thread's pseudo-frame is none of the stack: what it is the parent of stands outermost. */
static bool is_thread(const apple_stacks_t *s, uint64_t node) {
  uint64_t pc, parent;
  return !s->table->is_lite && apple_table_node(s->table, node, &pc, &parent) &&
         parent == APPLE_NO_PARENT;
}

static bool write_nodes(apple_stacks_t *s, pcs_t *pcs, const image_list_t *images) {
  for (uint64_t i = 0; i < s->table->count && i < UINT32_MAX - 1; i++) {
    uint64_t pc = PC_NO_END, parent = APPLE_NO_PARENT;
    if (!s->states[i]) continue;
    bool there = apple_table_node(s->table, i, &pc, &parent);
    if (!there || is_thread(s, i)) pc = PC_NO_END; /* an event may name it, but no frame is known */
    bool is_inner = parent != APPLE_NO_PARENT && !(s->states[i] & STATE_CUT);
    uint64_t above = is_inner && !is_thread(s, parent) ? parent + 1 : 0;
    uint32_t frame = frame_of(s, pcs, pc, images);
    if (!frame) return false;
    put_node(s, i + 1, above, frame);
  }
  return true;
}

static bool write_ids(apple_stacks_t *s, pcs_t *pcs, const image_list_t *images) {
  uint32_t frame = frame_of(s, pcs, PC_NO_END, images);
  for (uint64_t i = 0; frame && i <= s->highest; i += 8)
    for (unsigned bit = 0; s->used[i / 8] && bit < 8; bit++)
      if (s->used[i / 8] & 1u << bit) put_node(s, i + bit + 1, 0, frame);
  return frame != 0;
}

bool apple_stacks_write(apple_stacks_t *s, const image_list_t *images, const uint64_t *bases) {
  pcs_t pcs = {0};
  write_images(s, images, bases);
  bool good = s->table ? write_nodes(s, &pcs, images) : write_ids(s, &pcs, images);
  s->summary->frames = pcs.count;
  s->summary->threads = s->stream_count - 1;
  free(pcs.items);
  free(pcs.ids);
  return good;
}

/* ---- open, close -------------------------------------------------------------------------- */

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
  s->slots = calloc(HANDLE_SLOTS, sizeof *s->slots);
  return s->slots && stream_of(s, 0, &first);
}

void apple_stacks_close(apple_stacks_t *s) {
  if (s->states) munmap(s->states, s->state_bytes);
  if (s->used) munmap(s->used, s->state_bytes);
  free(s->slots);
  free(s->path);
}
