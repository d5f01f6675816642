/* SPDX-License-Identifier: MIT */
#include "capture/python/python_event.h"

#include "capture/python/python.h"
#include "capture/python/python_codes.h"
#include "capture/python/python_frames.h"
#include "capture/stack.h"
#include "image/name.h"
#include "os/os.h"

#define CHAIN_MAX 1024u
/* A power of two, for the places of frames in a chain by their addresses. */
#define PLACES     256u
#define KNOWN_BITS 14
/* A power of two. */
#define RECENT    512u
#define PAIR_BITS 17
/* A cache line. */
#define PAIR_BUCKET 4u
/* Deeper stacks are truncated, which capture_with_python does. */
#define DEPTH_MAX (STACK_OUTER + STACK_INNER)
/* In a node of a chain, with the frame: it is the outermost of a call of the evaluator. */
#define ENDS_CALL (1u << 30)

typedef struct link {
  uint64_t frame, caller, instruction, third;
  /* of the chain from here outward */
  uint32_t node;
  /* the frame's id, 0 if it is not shown, and ENDS_CALL */
  uint32_t shown;
} link_t;

/* A native frame of the stack that is merged. */
typedef struct native {
  uint32_t node, frame;
  /* the links of its call are first to end - 1, outermost first; none: not the evaluator's */
  uint16_t first, end;
} native_t;

/* A native stack and a chain. `merged` is the merged stack's id and, above it, its depth; 0 until
 * they are known. */
typedef struct pair {
  uint64_t key, merged;
} pair_t;

/* The last chain of a thread, outermost first. */
struct python_chain_cache {
  uint32_t count;
  uint16_t places[PLACES];
  uint64_t deaths;
  link_t links[CHAIN_MAX];
  uint64_t fresh[CHAIN_MAX];
  native_t natives[DEPTH_MAX];
  /* Parts of the last merged stacks, by their pairs. */
  pair_t recent[RECENT];
};
typedef struct python_chain_cache chain_cache_t;

/* What the fast path needs of the runtime and its layout. */
static struct {
  const uint64_t *key, *finalizing, *interpreters;
  void *(*value_of_key)(uint32_t key);
  /* the only interpreter, 0 if it is not known */
  uint64_t interpreter, interpreter_next;
  uint32_t state_frame, state_cframe, cframe_current;
  uint32_t caller, instruction, third, code;
  uint64_t third_mask, instruction_mask;
  bool has_cframe;
  uint64_t evaluator, evaluator_bytes;
  const python_layout_t *layout;
} python;

/* ---- the tables -------------------------------------------------------------------------------
 */

/* Chains: nodes of the chain further out, and a frame. */
static stack_tree_t chains;
/* Native stacks without a signal handler. */
static uint32_t known_natives[1u << KNOWN_BITS];

static pair_t *pairs[LEVELED_MAX];

/* By the id of a native frame. */
enum { KIND_UNKNOWN, KIND_NATIVE, KIND_CALL };
static uint8_t *kinds;

static ALWAYS_INLINE uint64_t pair_key(uint32_t native, uint32_t chain) {
  return (uint64_t)native << 32 | chain;
}

/* The pair of KEY; NULL if the table is full, or if it has none and MAKE is false. */
static NOINLINE pair_t *find_pair_slow(uint64_t key, bool make) {
  uint64_t hash = leveled_hash(key);
  for (unsigned level = 0; level < LEVELED_MAX; level++) {
    unsigned bits = leveled_bits(PAIR_BITS, level);
    pair_t *slots = leveled_map((void **)&pairs[level], bits, sizeof(pair_t), false);
    if (!slots) return NULL;
    for (uint32_t i = 0; i < PAIR_BUCKET; i++) {
      pair_t *pair = &slots[(hash >> (64 - bits)) ^ i];
      uint64_t found = load_relaxed(&pair->key);
      if (!found && (!make || cas_acq_rel(&pair->key, &found, key))) return make ? pair : NULL;
      if (found == key) return pair;
    }
  }
  return NULL;
}

/* As in pair_t; 0: not known. */
static ALWAYS_INLINE uint64_t merged_of(uint32_t native, uint32_t chain) {
  uint64_t key = pair_key(native, chain);
  const pair_t *pair = &pairs[0][leveled_hash(key) >> (64 - PAIR_BITS)];
  if (UNLIKELY(load_relaxed(&pair->key) != key) && !(pair = find_pair_slow(key, false))) return 0;
  return load_acquire(&pair->merged);
}

static void remember(uint32_t native, uint32_t chain, uint64_t merged) {
  pair_t *pair = find_pair_slow(pair_key(native, chain), true);
  if (pair) store_release(&pair->merged, merged);
}

void python_event_know_call(uint32_t frame) {
  if (kinds && frame < LEVELED_SLOTS(FRAME_TABLE_BITS)) store_relaxed(&kinds[frame], KIND_CALL);
}

static NOINLINE uint8_t learn_kind(uint32_t frame) {
  frame_info_t info;
  if (!frame_table_get(frame, &info) ||
      info.pc - !info.exact - python.evaluator < python.evaluator_bytes)
    return KIND_UNKNOWN;
  store_relaxed(&kinds[frame], KIND_NATIVE);
  return KIND_NATIVE;
}

static ALWAYS_INLINE uint8_t kind_of(uint32_t frame) {
  uint8_t kind = load_relaxed(&kinds[frame]);
  return LIKELY(kind) ? kind : learn_kind(frame);
}

/* True if the stack NATIVE was interrupted by no signal, and is complete: no pc is exact. */
static NOINLINE bool learn_native(uint32_t native) {
  uint32_t node = native, frame;
  frame_info_t info;
  while (node)
    if (!stack_table_get(node, &node, &frame) || !frame_table_get(frame, &info) || info.exact)
      return false;
  store_relaxed(&known_natives[leveled_hash(native) >> (64 - KNOWN_BITS)], native);
  return true;
}

static ALWAYS_INLINE bool is_of_calls(uint32_t native) {
  return LIKELY(load_relaxed(&known_natives[leveled_hash(native) >> (64 - KNOWN_BITS)]) ==
                native) ||
         learn_native(native);
}

/* ---- the chain --------------------------------------------------------------------------------
 */

static ALWAYS_INLINE READS_STACK uint64_t word_at(uint64_t address) {
  return *(const volatile uint64_t *)(uintptr_t)address;
}

/* Nonzero if the frame at FRAME, which is in the chain, is not as in LINK. */
static ALWAYS_INLINE READS_STACK uint64_t link_changed(const link_t *link, uint64_t frame) {
  return (word_at(frame + python.caller) ^ link->caller) |
         (word_at(frame + python.instruction) ^ link->instruction) |
         ((word_at(frame + python.third) ^ link->third) & python.third_mask);
}

/* True if the chain from FRAME outward is that of the COUNT outermost links. The caller of a link
 * is the frame of the next one, and that of the last is 0. */
static ALWAYS_INLINE READS_STACK bool links_unchanged(const chain_cache_t *c, uint32_t count,
                                                      uint64_t frame) {
  const link_t *link = &c->links[count];
  if (!count || link[-1].frame != frame) return false;
  while (link-- > c->links) {
    if (UNLIKELY(link_changed(link, frame))) return false;
    frame = link->caller;
  }
  return true;
}

static ALWAYS_INLINE uint16_t *place_of(chain_cache_t *c, uint64_t frame) {
  return &c->places[frame / 16 % PLACES];
}

/* To 3.10 each frame does. */
static bool ends_call(uint64_t frame) {
  const python_layout_t *l = python.layout;
  return l->frame_owner == PYTHON_NO_FIELD ||
         (l->frame_is_entry != PYTHON_NO_FIELD &&
          *(const uint8_t *)(uintptr_t)(frame + l->frame_is_entry));
}

/* The frame of the evaluator itself, which ends a call: from 3.12 on. */
static bool is_anchor(uint64_t frame) {
  const python_layout_t *l = python.layout;
  return l->frame_owner != PYTHON_NO_FIELD && l->frame_is_entry == PYTHON_NO_FIELD &&
         *(const uint8_t *)(uintptr_t)(frame + l->frame_owner) >= PYTHON_OWNER_EVALUATOR;
}

/* The frame's id and ENDS_CALL, as in link_t; UINT32_MAX: it cannot be named. */
static READS_STACK uint32_t shown_of(uint64_t frame) {
  if (is_anchor(frame)) return ENDS_CALL;
  uint64_t code = word_at(frame + python.code),
           instruction = word_at(frame + python.instruction) & python.instruction_mask;
  uint32_t id = python_codes_find(code, instruction);
  if (UNLIKELY(!id)) id = capture_python_frame(code, instruction);
  if (UNLIKELY(!id || id == FRAME_TABLE_FULL)) return UINT32_MAX;
  return (id == PYTHON_FRAME_INSERTED ? 0 : id) | (ends_call(frame) ? ENDS_CALL : 0);
}

/* Adds FRAME as the innermost link. A handler may jump out of here, so `count` covers finished
 * links only. */
static READS_STACK bool add_link(chain_cache_t *c, uint64_t frame) {
  uint32_t i = c->count, node = i ? c->links[i - 1].node : 0, shown = shown_of(frame);
  if (shown == UINT32_MAX) return false;
  if (shown) node = stack_tree_child(&chains, node, shown);
  if (!node || node == STACK_TABLE_FULL) return false;
  c->links[i] = (link_t){.frame = frame,
                         .caller = word_at(frame + python.caller),
                         .instruction = word_at(frame + python.instruction),
                         .third = word_at(frame + python.third),
                         .node = node,
                         .shown = shown};
  *place_of(c, frame) = (uint16_t)i;
  signal_fence();
  c->count = i + 1;
  return true;
}

/* Finds the chain from TOP outward: fresh frames down to a link of the last chain. False: it is too
 * long, or a frame cannot be named. */
static NOINLINE READS_STACK bool update_chain(chain_cache_t *c, uint64_t top) {
  uint32_t fresh = 0, base = 0;
  for (uint64_t f = top; f; f = word_at(f + python.caller)) {
    uint32_t i = *place_of(c, f);
    if (i < c->count && links_unchanged(c, i + 1, f)) {
      base = i + 1;
      break;
    }
    if (fresh == CHAIN_MAX) return false;
    c->fresh[fresh++] = f;
  }
  if (base + fresh > CHAIN_MAX) return false;
  c->count = base;
  signal_fence();
  while (fresh)
    if (!add_link(c, c->fresh[--fresh])) return false;
  return true;
}

static NOINLINE chain_cache_t *make_chain(capture_thread_t *self) {
  self->python = os_map(sizeof(chain_cache_t));
  return self->python;
}

/* 0: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK uint32_t node_of_chain(chain_cache_t *c, uint64_t top) {
  uint64_t deaths = load_relaxed(&python_code_deaths);
  if (UNLIKELY(c->deaths != deaths)) {
    c->count = 0;
    signal_fence();
    c->deaths = deaths;
  }
  if (UNLIKELY(!links_unchanged(c, c->count, top)) && !update_chain(c, top)) return 0;
  return c->links[c->count - 1].node;
}

/* ---- the thread's state -----------------------------------------------------------------------
 */

/* The only interpreter is the first and has no next one. */
static NOINLINE bool learn_interpreter(void) {
  uint64_t interpreter = load_relaxed(python.interpreters), next = 1;
  if (!interpreter ||
      os_read_memory(interpreter + python.interpreter_next, &next, sizeof next) != sizeof next ||
      next)
    return false;
  store_relaxed(&python.interpreter, interpreter);
  return true;
}

/* False: only capture_with_python can tell. *TOP is 0 if the thread has no Python frames. */
static ALWAYS_INLINE READS_STACK bool find_top(uint64_t *top) {
  uint64_t key = load_relaxed(python.key), interpreter = load_relaxed(python.interpreters);
  *top = 0;
  if (UNLIKELY(!(uint32_t)key)) return true; /* the key is not created */
  uint64_t finalizing = load_relaxed(python.finalizing);
  if (UNLIKELY(interpreter != load_relaxed(&python.interpreter)) && !learn_interpreter())
    return false;
  uint64_t state = (uint64_t)(uintptr_t)python.value_of_key((uint32_t)(key >> 32));
  if (!state) return true;
  if (UNLIKELY(finalizing && finalizing != state)) return false;
  *top = python.has_cframe ? word_at(word_at(state + python.state_cframe) + python.cframe_current)
                           : word_at(state + python.state_frame);
  return true;
}

/* ---- the stack --------------------------------------------------------------------------------
 */

static ALWAYS_INLINE pair_t *recent_of(chain_cache_t *c, uint64_t key) {
  return &c->recent[leveled_hash(key) >> 32 & (RECENT - 1)];
}

static ALWAYS_INLINE uint64_t recently_merged(chain_cache_t *c, uint32_t native, uint32_t chain) {
  uint64_t key = pair_key(native, chain);
  const pair_t *pair = recent_of(c, key);
  return pair->key == key ? pair->merged : 0;
}

/* A handler may jump out of here. */
static ALWAYS_INLINE void note_recent(chain_cache_t *c, uint64_t key, uint64_t merged) {
  pair_t *pair = recent_of(c, key);
  pair->key = 0;
  signal_fence();
  pair->merged = merged;
  signal_fence();
  pair->key = key;
}

/* Adds the native frame NODE to C->natives[I], with its links if it is a call of the evaluator:
 * those further in than *LINK, which moves outward. False: it has none, or is not known. */
static ALWAYS_INLINE bool take_native(chain_cache_t *c, uint32_t i, uint32_t node, uint32_t frame,
                                      uint32_t *link) {
  uint8_t kind = kind_of(frame);
  uint32_t end = *link;
  if (kind == KIND_CALL) {
    if (!*link) return false;
    while (*link && !(c->links[--*link].shown & ENDS_CALL)) {
    }
  }
  c->natives[i] = (native_t){node, frame, (uint16_t)*link, (uint16_t)end};
  return kind != KIND_UNKNOWN;
}

/* Adds the frames of NATIVE and of its call to the merged stack, whose id and depth are in *MERGED.
 * Later stacks share this part. False: a table is full, or the stack is too deep. */
static ALWAYS_INLINE bool add_native(chain_cache_t *c, const native_t *native, uint64_t *merged) {
  uint32_t node = stack_table_child((uint32_t)*merged, native->frame),
           depth = (uint32_t)(*merged >> 32) + 1;
  for (uint32_t i = native->first; i < native->end; i++) {
    uint32_t id = c->links[i].shown & ~ENDS_CALL;
    if (!id) continue;
    node = stack_table_child(node, id);
    depth++;
  }
  if (node == STACK_TABLE_FULL || depth > DEPTH_MAX) return false;
  *merged = (uint64_t)depth << 32 | node;
  uint32_t chain = native->end ? c->links[native->end - 1].node : 0;
  note_recent(c, pair_key(native->node, chain), *merged);
  return true;
}

/* Merges a pair that is new: by order, since each call of the evaluator has its frames. A part of
 * the stack that was merged recently ends the search. 0: capture_with_python must tell. */
static NOINLINE uint32_t merge_by_order(chain_cache_t *c, uint32_t native) {
  uint32_t frame, parent, count = 0, link = c->count;
  uint64_t merged = 0;
  for (uint32_t node = native; node; node = parent) {
    uint32_t chain = link ? c->links[link - 1].node : 0;
    if ((merged = recently_merged(c, node, chain))) break;
    if (count == DEPTH_MAX || !stack_table_get(node, &parent, &frame) ||
        !take_native(c, count++, node, frame, &link))
      return 0;
  }
  if (!merged && link) return 0;
  while (count)
    if (!add_native(c, &c->natives[--count], &merged)) return 0;
  remember(native, c->links[c->count - 1].node, merged);
  return (uint32_t)merged;
}

/* The merged stack; 0: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK uint32_t find_merged(capture_thread_t *self, uint32_t native) {
  uint64_t top;
  chain_cache_t *c = self->python;
  if (UNLIKELY(!is_of_calls(native)) || UNLIKELY(!find_top(&top))) return 0;
  if (!top) return native;
  if (UNLIKELY(!c) && !(c = make_chain(self))) return 0;
  uint32_t chain = node_of_chain(c, top);
  if (UNLIKELY(!chain)) return 0;
  uint32_t merged = (uint32_t)merged_of(native, chain);
  return LIKELY(merged) ? merged : merge_by_order(c, native);
}

static int event_stack_id(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp) {
  uint32_t merged = 0;
  int status = stack_id_here(id, pc, sp, fp);
  if (UNLIKELY(status < 0)) return status;
  capture_thread_t *self = thread_state_enter(sp);
  if (LIKELY(self)) {
    merged = find_merged(self, *id);
    thread_state_leave(self);
  }
  if (LIKELY(merged)) {
    *id = merged;
    return 0;
  }
  if (!capture_with_python(&merged, &(python_origin_t){.pc = pc, .sp = sp, .fp = fp})) return 0;
  *id = merged;
  return merged ? 0 : SONDE_EFULL;
}

void python_event_start(const python_runtime_t *runtime) {
  const python_layout_t *l = runtime->layout;
  static const char *const name[] = {"pthread_getspecific"};
  uint64_t function;
  os_symbols(0, name, &function, 1);
  if (!function || !stack_tree_init(&chains) ||
      !leveled_map((void **)&pairs[0], PAIR_BITS, sizeof(pair_t), false) ||
      !(kinds = os_map(LEVELED_SLOTS(FRAME_TABLE_BITS))))
    return;
  python.key = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_key);
  python.finalizing = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_finalizing);
  python.interpreters = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_interpreters);
  python.value_of_key = (void *(*)(uint32_t))(uintptr_t)function;
  python.interpreter_next = l->interpreter_next;
  python.has_cframe = l->state_frame == PYTHON_NO_FIELD;
  python.state_frame = l->state_frame;
  python.state_cframe = l->state_cframe;
  python.cframe_current = l->cframe_current;
  python.caller = l->frame_back;
  python.instruction = l->frame_instruction;
  python.code = l->frame_code;
  bool has_flag = l->frame_is_entry != PYTHON_NO_FIELD;
  python.third = has_flag ? l->frame_is_entry / 8u * 8 : l->frame_code;
  python.third_mask = has_flag ? UINT64_C(0xff) << l->frame_is_entry % 8 * 8 : UINT64_MAX;
  python.instruction_mask = l->code_bytes == PYTHON_NO_FIELD ? UINT32_MAX : UINT64_MAX;
  python.evaluator = runtime->evaluator;
  python.evaluator_bytes = runtime->evaluator_bytes;
  python.layout = l;
  stack_id_of_event = event_stack_id;
}
