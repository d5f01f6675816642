/* SPDX-License-Identifier: MIT
 *
 * Stacks that a recording has as pairs: a native stack and a chain of Python frames
 * (capture/python/python_event.h). They become ordinary nodes, so nothing else knows of them.
 *
 * Both are put in order from the innermost frame outward. A native frame that is a call of the
 * evaluator runs the frames of the chain up to the first that ends a call; they are further in than
 * the native frame. A part that several stacks share has the same nodes in all of them.
 */
#include <stdlib.h>
#include <string.h>

#include "reader/internal.h"
#include "reader/reader.h"
#include "sonde/status.h"

/* A hostile file could require a million parts per kilobyte. So parts and nodes are limited by the
 * number of definitions, which is 7 for each pair of a program with stacks of 15 frames. */
#define ITEMS_MIN            (4u << 20)
#define ITEMS_PER_DEFINITION 64u
/* The same for the frames of chains that are passed. */
#define STEPS_PER_ITEM 16u

/* A native stack with a chain, and its node. */
typedef struct part {
  uint32_t native, chain, node;
} part_t;

typedef struct merge {
  reader_t *reader;
  ARRAY(part_t) parts;
  hash_index_t part_index;
  /* by stack: the number of its innermost part */
  ARRAY(size_t) innermost;
  /* numbers of parts that the current stack needs, innermost first */
  ARRAY(size_t) path;
  ARRAY(uint32_t) frames;
  uint64_t items_left, steps_left;
  bool no_memory;
} merge_t;

static bool take_item(merge_t *m) { return m->items_left && m->items_left--; }

static uint64_t part_hash(const void *merge, size_t i) {
  const part_t *part = &((const merge_t *)merge)->parts.items[i];
  return hash_pair(part->native, part->chain);
}

/* The number of the part of NATIVE and CHAIN. A new one gets NODE, and *IS_NEW. SIZE_MAX: there are
 * too many, or out of memory. */
static size_t find_part(merge_t *m, uint32_t native, uint32_t chain, uint32_t node, bool *is_new) {
  uint32_t *slot;
  *is_new = false;
  if (!hash_reserve(&m->part_index, m->parts.count, part_hash, m)) {
    m->no_memory = true;
    return SIZE_MAX;
  }
  HASH_FIND(&m->part_index, hash_pair(native, chain), slot) {
    const part_t *part = &m->parts.items[*slot - 1];
    if (part->native == native && part->chain == chain) return *slot - 1;
  }
  if (!take_item(m)) return SIZE_MAX;
  part_t *part = ARRAY_ADD(m->parts);
  if (!part) {
    m->no_memory = true;
    return SIZE_MAX;
  }
  *part = (part_t){native, chain, node};
  *slot = (uint32_t)m->parts.count;
  *is_new = true;
  return m->parts.count - 1;
}

static int compare_ids(const void *a, const void *b) {
  uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
  return (left > right) - (left < right);
}

static bool is_call(const reader_t *r, uint32_t frame) {
  return r->python_calls.count &&
         bsearch(&frame, r->python_calls.items, r->python_calls.count, sizeof frame, compare_ids);
}

/* The chain further out than the innermost call of CHAIN, whose shown frames are added to
 * `frames`. False: the chain is damaged. */
static bool pass_call(merge_t *m, uint32_t *chain) {
  m->frames.count = 0;
  for (int steps = 0; *chain && steps < READER_DEPTH_MAX && m->steps_left; steps++) {
    const record_chain_t *n = reader_chain_node(m->reader, *chain);
    m->steps_left--;
    uint32_t *frame = n && n->frame ? ARRAY_ADD(m->frames) : NULL;
    if (!n || (n->frame && !frame)) return false;
    if (frame) *frame = n->frame;
    *chain = n->parent;
    if (n->flags & CHAIN_ENDS_CALL) return true;
  }
  return false;
}

/* Adds the part INNERMOST of STACK and those further out to the path, up to one that is known,
 * whose node is *OUTER. False: a definition is missing, or the two stacks do not fit. */
static bool find_path(merge_t *m, const merged_stack_t *stack, size_t innermost, uint32_t *outer) {
  uint32_t native = stack->native, chain = stack->chain;
  m->path.count = 0;
  for (*outer = 0; native;) {
    bool is_new;
    size_t number = m->path.count ? find_part(m, native, chain, 0, &is_new) : innermost;
    const record_node_t *n = reader_node(m->reader, native);
    size_t *step =
        number == SIZE_MAX || m->path.count > READER_DEPTH_MAX ? NULL : ARRAY_ADD(m->path);
    if (!step || !n) return false;
    /* The innermost part was made before, with the id of the stack. */
    if (m->path.count > 1 && !is_new) {
      m->path.count--;
      *outer = m->parts.items[number].node;
      return *outer != 0;
    }
    *step = number;
    if (is_call(m->reader, n->frame) && !pass_call(m, &chain)) return false;
    native = n->parent;
  }
  return chain == 0;
}

/* Adds FRAME inside of *NODE: with the id WANTED, unless that is 0. */
static bool add_node(merge_t *m, uint32_t *node, uint32_t frame, uint32_t wanted) {
  if (!take_item(m)) return false;
  *node = wanted ? reader_set_node(m->reader, wanted, *node, frame)
                 : reader_add_node(m->reader, *node, frame);
  if (!*node) m->no_memory |= m->reader->next_node <= UINT32_MAX;
  return *node != 0;
}

/* Makes the nodes of the part number NUMBER inside of *NODE. */
static bool add_part(merge_t *m, size_t number, uint32_t *node) {
  part_t *part = &m->parts.items[number];
  uint32_t chain = part->chain, frame = reader_node(m->reader, part->native)->frame;
  m->frames.count = 0;
  if (is_call(m->reader, frame) && !pass_call(m, &chain)) return false;
  size_t left = m->frames.count;
  bool good = add_node(m, node, frame, left ? 0 : part->node);
  for (; good && left; left--)
    good = add_node(m, node, m->frames.items[left - 1], left > 1 ? 0 : part->node);
  part->node = *node;
  return good;
}

/* False: the stack is damaged, or `no_memory`. */
static bool expand(merge_t *m, const merged_stack_t *stack, size_t innermost) {
  uint32_t node;
  if (!find_path(m, stack, innermost, &node)) return false;
  while (m->path.count)
    if (!add_part(m, m->path.items[--m->path.count], &node)) return false;
  return true;
}

/* Makes the innermost part of each stack, with the first id of its pair. A pair that was recorded
 * again with the same id, after a gap for example, is removed. */
static bool add_innermost_parts(merge_t *m) {
  reader_t *r = m->reader;
  size_t kept = 0;
  for (size_t i = 0; i < r->merged_stacks.count; i++) {
    const merged_stack_t s = r->merged_stacks.items[i];
    bool is_new;
    size_t number = find_part(m, s.native, s.chain, s.id, &is_new);
    if (number == SIZE_MAX) return false;
    if (!is_new && m->parts.items[number].node == s.id) continue;
    size_t *innermost = ARRAY_ADD(m->innermost);
    m->no_memory |= !innermost;
    if (!innermost) return false;
    *innermost = number;
    r->merged_stacks.items[kept++] = s;
  }
  r->merged_stacks.count = kept;
  return true;
}

/* New nodes get ids above all others. */
static void set_next_node(reader_t *r) {
  r->next_node = reader_next_node(r);
  for (size_t i = 0; i < r->merged_stacks.count; i++)
    if (r->merged_stacks.items[i].id >= r->next_node)
      r->next_node = (uint64_t)r->merged_stacks.items[i].id + 1;
}

/* A pair may have several ids. The first gets the nodes, the others copies of the innermost one. */
static bool expand_all(merge_t *m) {
  reader_t *r = m->reader;
  if (r->python_calls.count)
    qsort(r->python_calls.items, r->python_calls.count, sizeof(uint32_t), compare_ids);
  if (!add_innermost_parts(m)) return false;
  set_next_node(r);
  for (size_t i = 0; i < m->innermost.count && !m->no_memory; i++) {
    const merged_stack_t *s = &r->merged_stacks.items[i];
    size_t number = m->innermost.items[i];
    if (m->parts.items[number].node == s->id && !expand(m, s, number))
      r->damage.missing_definitions++;
  }
  for (size_t i = 0; i < m->innermost.count && !m->no_memory; i++) {
    const merged_stack_t *s = &r->merged_stacks.items[i];
    uint32_t first = m->parts.items[m->innermost.items[i]].node;
    const record_node_t *n = first == s->id ? NULL : reader_node(r, first);
    if (n && !reader_set_node(r, s->id, n->parent, n->frame)) return false;
  }
  return !m->no_memory;
}

int reader_merge_python(reader_t *r) {
  uint64_t definitions = r->nodes.count + r->chain_nodes.count + r->merged_stacks.count,
           items = ITEMS_MIN + ITEMS_PER_DEFINITION * definitions;
  merge_t m = {.reader = r, .items_left = items, .steps_left = STEPS_PER_ITEM * items};
  bool good = r->merged_stacks.count == 0 || expand_all(&m);
  free(m.parts.items);
  free(m.part_index.slots);
  free(m.innermost.items);
  free(m.path.items);
  free(m.frames.items);
  return good ? 0 : SONDE_ENOMEM;
}
