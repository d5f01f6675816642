/* SPDX-License-Identifier: MIT */
#include "capture/python/python_shapes.h"

#include <string.h>

#include "capture/frame_table.h"
#include "capture/python/python_places.h"
#include "os/os.h"

/* Of the nodes of a walk, as many get a shape. */
#define PATH_MAX_NODES 64u
#define FRAME_SLOTS    LEVELED_SLOTS(FRAME_TABLE_BITS)
/* Places of one evaluator that call something. Debian's 3.11 has 500. */
#define CALLS_MAX 4096u

enum { KIND_UNKNOWN, KIND_NATIVE, KIND_CALL, KIND_SIGNAL };

HIDDEN uint32_t *python_shapes[LEVELED_MAX];
HIDDEN void (*python_call_on_new)(uint32_t frame);

static uint64_t evaluator, evaluator_bytes;
/* By the id of a native frame. */
static uint8_t *kinds;
/* The frames that are calls; 0: not stored yet. */
static uint32_t calls[CALLS_MAX], call_count;

bool python_shapes_start(uint64_t address, uint64_t bytes) {
  evaluator = address;
  evaluator_bytes = bytes;
  if (!kinds) kinds = os_map(FRAME_SLOTS);
  return kinds && leveled_map((void **)&python_shapes[0], STACK_TABLE_BITS, sizeof(uint32_t));
}

/* A pc outside of the function may still be in a part that the compiler moved elsewhere. It gets
 * its right kind with the first stack that is merged by address. */
static NOINLINE uint8_t learn_kind(uint32_t frame) {
  frame_info_t info;
  if (!frame_table_get(frame, &info)) return KIND_UNKNOWN;
  if (info.exact) {
    store_relaxed(&kinds[frame], (uint8_t)KIND_SIGNAL);
    return KIND_SIGNAL;
  }
  if (info.pc - 1 - evaluator < evaluator_bytes) return KIND_UNKNOWN;
  uint8_t unknown = KIND_UNKNOWN;
  (void)cas_acq_rel(&kinds[frame], &unknown, (uint8_t)KIND_NATIVE);
  return load_relaxed(&kinds[frame]);
}

static uint8_t kind_of(uint32_t frame) {
  uint8_t kind = frame < FRAME_SLOTS ? load_relaxed(&kinds[frame]) : KIND_UNKNOWN;
  return LIKELY(kind) ? kind : learn_kind(frame);
}

bool python_shape_is_call(uint32_t frame) { return kind_of(frame) == KIND_CALL; }

/* A pc of a moved part was taken for another function's. */
static void forget_shapes(void) {
  for (unsigned level = 0; level < LEVELED_MAX; level++)
    if (load_acquire(&python_shapes[level]))
      memset(python_shapes[level], 0, sizeof(uint32_t) << leveled_bits(STACK_TABLE_BITS, level));
  python_places_forget();
}

void python_shape_know_call(uint32_t frame) {
  if (!kinds || frame >= FRAME_SLOTS) return;
  uint8_t kind = load_relaxed(&kinds[frame]);
  if (kind == KIND_CALL || load_relaxed(&call_count) >= CALLS_MAX - 64) return;
  store_release(&calls[add_relaxed(&call_count, 1u)], frame);
  if (python_call_on_new) python_call_on_new(frame);
  store_relaxed(&kinds[frame], (uint8_t)KIND_CALL);
  if (kind == KIND_NATIVE) forget_shapes();
}

void python_calls_each(void (*visit)(uint32_t frame)) {
  for (uint32_t i = 0; i < load_relaxed(&call_count); i++) {
    uint32_t frame = load_acquire(&calls[i]);
    if (frame) visit(frame);
  }
}

/* The place of a node's shape; NULL: out of memory. */
static uint32_t *place_of(uint32_t node) {
  unsigned level;
  uint32_t index;
  if (!leveled_locate(STACK_TABLE_BITS, node, &level, &index)) return NULL;
  unsigned bits = leveled_bits(STACK_TABLE_BITS, level);
  uint32_t *shapes = leveled_map((void **)&python_shapes[level], bits, sizeof(uint32_t));
  return shapes ? &shapes[index] : NULL;
}

/* What the frame of NODE adds to a shape; 0: the kind of the frame is not known. */
static uint32_t part_of(uint32_t node, uint32_t *parent) {
  uint32_t frame;
  if (!stack_table_get(node, parent, &frame)) return 0;
  switch (kind_of(frame)) {
  case KIND_NATIVE: return SHAPE_FRAME;
  case KIND_CALL: return SHAPE_FRAME | SHAPE_CALL;
  case KIND_SIGNAL: return SHAPE_HAS_SIGNAL;
  default: return 0;
  }
}

static uint32_t add_part(uint32_t shape, uint32_t part) {
  return (shape | part) & SHAPE_HAS_SIGNAL ? SHAPE_KNOWN | SHAPE_HAS_SIGNAL : shape + part;
}

/* Stacks have at most STACK_OUTER + STACK_INNER frames, which the bits of both numbers can hold. */
uint32_t python_shape_learn(uint32_t native) {
  uint32_t path[PATH_MAX_NODES], parts[PATH_MAX_NODES], count = 0, shape = SHAPE_KNOWN, further = 0;
  for (uint32_t node = native, parent; node; node = parent) {
    const uint32_t *place = place_of(node);
    uint32_t known = place ? load_relaxed(place) : 0;
    if (known) {
      shape = known;
      break;
    }
    uint32_t part = part_of(node, &parent);
    if (!part) return 0;
    if (count < PATH_MAX_NODES) {
      path[count] = node;
      parts[count++] = part;
    } else {
      further = add_part(further, part);
    }
  }
  shape = add_part(shape, further);
  while (count--) {
    uint32_t *place = place_of(path[count]);
    shape = add_part(shape, parts[count]);
    if (place) store_relaxed(place, shape);
  }
  return shape;
}
