/* SPDX-License-Identifier: MIT
 *
 * The last chain of Python frames of a thread, as capture/python/python_event.h describes it: what
 * an event compares, and how a changed chain is found.
 *
 * An event compares the chain from a frame that is alive. So each frame that is read is alive: it
 * is the caller of one that is.
 *
 * Threads: a chain is its thread's. A handler may jump out of every function that is not inlined,
 * so each of them leaves only finished entries behind.
 */
#ifndef SONDE_CAPTURE_PYTHON_CHAIN_H
#define SONDE_CAPTURE_PYTHON_CHAIN_H

#include "capture/python/python_codes.h"
#include "capture/stack_table.h"
#include "python/layout.h"

#define CHAIN_MAX 1024u
/* Powers of two: the places of frames in a chain by their addresses, known innermost frames with a
 * line, known frames inside of a known chain, and the last merged stacks. */
#define CHAIN_PLACES  256u
#define CHAIN_TOPS    256u
#define CHAIN_INNERS  256u
#define CHAIN_RECENTS 2048u

/* What tells a frame from another one, besides its caller and its second word: nothing, the byte
 * that says whether it ends a call of the evaluator, or its code object. */
typedef enum third { THIRD_NONE, THIRD_BYTE, THIRD_WORD } third_t;

/* How frames are compared: those of frequent events, and those of rare ones, with all lines. */
typedef struct view {
  /* the offset of the code object, or with lines that of the instruction */
  uint32_t second;
  third_t third;
  bool with_lines;
  /* of its chain in the thread's state */
  uint8_t number;
  /* what is compared of the innermost frame's instruction: nothing if `second` is it */
  uint64_t instruction_mask;
} view_t;

/* What every event compares of a frame of the chain. Its caller is the frame before it. */
typedef struct known_frame {
  uint64_t frame, second;
} known_frame_t;

/* The rest of a frame of the chain. */
typedef struct link {
  uint64_t third;
  /* of code objects, when it was added */
  uint64_t deaths;
  /* the frame in a node, 0 if it is not shown; the nodes of the chain from its caller and from here
   * outward, 0 while the link is being changed */
  uint32_t shown, outer, node;
  /* from here outward: calls of the evaluator, and frames that are shown */
  uint16_t calls, frames;
} link_t;

/* The node of a chain whose innermost frame has a line. */
typedef struct top {
  uint64_t code, instruction;
  /* of the link */
  uint32_t outer, shown;
  uint32_t node;
} top_t;

/* The node of a frame inside of the chain OUTER. */
typedef struct inner {
  uint64_t second, third;
  uint32_t outer, shown;
  uint32_t node; /* 0: none */
} inner_t;

/* The id of a merged stack, so that most events look into no other table. */
typedef struct recent {
  uint64_t second, instruction;
  /* the native stack, and the chain's node above */
  uint64_t stacks;
  uint32_t id; /* 0: none */
} recent_t;

/* The last chain of a thread, outermost first. */
struct python_chain_cache {
  const view_t *view;
  uint64_t deaths;
  uint32_t count;
  recent_t recents[CHAIN_RECENTS] __attribute__((aligned(32)));
  /* The first one has no frame, and those from `count` + 1 on are of former chains. */
  known_frame_t known[CHAIN_MAX + 1];
  link_t links[CHAIN_MAX + 1];
  /* The frames that end a call: of a link, its `calls` first ones. */
  uint64_t entries[CHAIN_MAX];
  uint16_t places[CHAIN_PLACES];
  top_t tops[CHAIN_TOPS];
  inner_t inners[CHAIN_INNERS];
  uint64_t fresh[CHAIN_MAX];
};
typedef struct python_chain_cache chain_cache_t;

/* What the chain needs of the runtime and its layout. */
typedef struct python_offsets {
  uint32_t caller, code, instruction, flag;
  uint64_t instruction_mask;
  const python_layout_t *layout;
} python_offsets_t;
extern HIDDEN python_offsets_t python_offsets;

/* The frames do not change while they are compared, so these reads need no order. */
typedef uint64_t python_word_t __attribute__((may_alias));

static ALWAYS_INLINE READS_STACK uint64_t python_word_at(uint64_t address) {
  return *(const python_word_t *)(uintptr_t)address;
}

static ALWAYS_INLINE READS_STACK uint64_t python_instruction_of(uint64_t frame) {
  return python_word_at(frame + python_offsets.instruction) & python_offsets.instruction_mask;
}

static ALWAYS_INLINE bool link_has_call(const link_t *link) { return link->shown & STACK_OF_CALL; }

static ALWAYS_INLINE bool link_has_frame(const link_t *link) {
  return link->shown & ~(STACK_IN_CHAIN | STACK_OF_CALL);
}

static ALWAYS_INLINE READS_STACK bool chain_frame_is_unchanged(const known_frame_t *known,
                                                               uint64_t second) {
  uint64_t frame = known->frame;
  return LIKELY(python_word_at(frame + python_offsets.caller) == known[-1].frame) &&
         LIKELY(python_word_at(frame + second) == known->second);
}

/* Whether the words of the frames from number I outward are unchanged. The frame of number I is in
 * the chain. The caller of the outermost frame is 0, as the frame of the first link. Four frames
 * are compared in each round, and the outermost ones perhaps twice. */
static ALWAYS_INLINE READS_STACK bool chain_is_unchanged(const chain_cache_t *c, uint64_t second,
                                                         uint32_t i) {
  const known_frame_t *known = &c->known[i], *last = &c->known[4];
  KEEP_POINTER(known);
  if (UNLIKELY(i < 4)) {
    for (; known > c->known; known--)
      if (UNLIKELY(!chain_frame_is_unchanged(known, second))) return false;
    return true;
  }
  for (;; known -= 4) {
    if (known < last) known = last;
    if (UNLIKELY(!chain_frame_is_unchanged(known, second)) ||
        UNLIKELY(!chain_frame_is_unchanged(known - 1, second)) ||
        UNLIKELY(!chain_frame_is_unchanged(known - 2, second)) ||
        UNLIKELY(!chain_frame_is_unchanged(known - 3, second)))
      return false;
    if (known == last) return true;
  }
}

/* Whether the frames that ended a call still do. Of a native stack with as many calls this proves
 * that no other frame does. */
static ALWAYS_INLINE READS_STACK bool chain_ends_calls(const chain_cache_t *c, uint32_t i) {
  const uint64_t *entry = c->entries, *end = entry + c->links[i].calls;
  for (; entry < end; entry++)
    if (UNLIKELY(!*(const uint8_t *)(uintptr_t)(*entry + python_offsets.flag))) return false;
  return true;
}

static ALWAYS_INLINE uint16_t *chain_place_of(chain_cache_t *c, uint64_t frame) {
  return &c->places[frame / 16 % CHAIN_PLACES];
}

/* Whether the links to number I, of a former chain, still belong to those of this chain. */
static ALWAYS_INLINE bool chain_is_kept(const chain_cache_t *c, uint32_t i) {
  for (; i > c->count; i--) {
    const link_t *link = &c->links[i];
    uint32_t calls = link[-1].calls + link_has_call(link);
    if (!link->node || link->outer != link[-1].node || link->deaths != c->deaths ||
        link->calls != calls || (link_has_call(link) && c->entries[calls - 1] != c->known[i].frame))
      return false;
  }
  return true;
}

/* An empty chain for VIEW; NULL: out of memory. */
chain_cache_t *chain_make(const view_t *view);

/* Forgets the frames after DEATHS code objects have died. */
void chain_forget(chain_cache_t *c, uint64_t deaths);

/* The innermost of the links from number I outward that its frame differs from, 0: none does. The
 * frame of link I is in the chain. */
uint32_t chain_find_changed(const chain_cache_t *c, third_t third, uint32_t i);

/* Finds the chain from the frame TOP outward: fresh frames down to a link of the last chain. False:
 * it is too long, or a frame cannot be named. */
bool chain_update(chain_cache_t *c, uint64_t top);

/* The node of the chain with the line of its innermost frame, which is at INSTRUCTION; 0: it has
 * none, or memory is exhausted. */
uint32_t chain_node(chain_cache_t *c, uint64_t instruction);

#endif
