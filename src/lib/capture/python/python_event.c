/* SPDX-License-Identifier: MIT */
#include "capture/python/python_event.h"

#include <string.h>

#include "capture/frame_table.h"
#include "capture/python/python.h"
#include "capture/python/python_codes.h"
#include "capture/python/python_frames.h"
#include "capture/python/python_merged.h"
#include "capture/python/python_shapes.h"
#include "capture/stack.h"
#include "os/os.h"

#define CHAIN_MAX 1024u
/* Powers of two: the places of frames in a chain by their addresses, known innermost frames, and
 * the last merged stacks. */
#define PLACES  256u
#define TOPS    256u
#define RECENTS 1024u
/* Deeper stacks are truncated, which capture_with_python does. */
#define DEPTH_MAX (STACK_OUTER + STACK_INNER)

/* A frame of the chain. */
typedef struct link {
  /* the second word is the code object, or with lines the instruction */
  uint64_t frame, caller, second, third;
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

/* The id of a merged stack, so that most events need not look into the table of all. */
typedef struct recent {
  uint64_t pair;
  uint32_t id;
} recent_t;

/* The last chain of a thread, outermost first. */
struct python_chain_cache {
  uint32_t count;
  uint16_t places[PLACES];
  uint64_t deaths;
  top_t tops[TOPS];
  recent_t recents[RECENTS];
  link_t links[CHAIN_MAX];
  uint64_t fresh[CHAIN_MAX];
};
typedef struct python_chain_cache chain_cache_t;

/* What the fast path needs of the runtime and its layout. */
static struct {
  const uint64_t *key, *finalizing, *interpreters;
  void *(*value_of_key)(uint32_t key);
  /* the only interpreter, 0 if it is not known */
  uint64_t interpreter, interpreter_next;
  uint32_t state_frame, state_cframe, cframe_current;
  uint32_t caller, second, third, code, instruction;
  uint64_t third_mask, instruction_mask;
  bool has_cframe, with_lines;
  const python_layout_t *layout;
} python;

/* ---- the chain --------------------------------------------------------------------------------
 */

static ALWAYS_INLINE READS_STACK uint64_t word_at(uint64_t address) {
  return *(const volatile uint64_t *)(uintptr_t)address;
}

/* Nonzero if the frame at FRAME, which is in the chain, is not as in LINK. */
static ALWAYS_INLINE READS_STACK uint64_t link_changed(const link_t *link, uint64_t frame) {
  return (word_at(frame + python.caller) ^ link->caller) |
         (word_at(frame + python.second) ^ link->second) |
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

static READS_STACK uint64_t instruction_of(uint64_t frame) {
  return word_at(frame + python.instruction) & python.instruction_mask;
}

/* The frame of INSTRUCTION in CODE in a node: 0 if it is not shown. UINT32_MAX: it has no name. */
static uint32_t shown_of(uint64_t code, uint64_t instruction) {
  uint32_t id = python_codes_find(code, instruction);
  if (UNLIKELY(!id)) id = capture_python_frame(code, instruction);
  if (UNLIKELY(!id || id == FRAME_TABLE_FULL)) return UINT32_MAX;
  return id == PYTHON_FRAME_INSERTED ? 0 : id;
}

static READS_STACK uint32_t shown_of_frame(uint64_t frame) {
  if (is_anchor(frame)) return STACK_IN_CHAIN | STACK_OF_CALL;
  uint32_t id = shown_of(word_at(frame + python.code),
                         python.with_lines ? instruction_of(frame) : PYTHON_WHOLE_FUNCTION);
  if (id == UINT32_MAX) return id;
  uint32_t bits = ends_call(frame) ? STACK_IN_CHAIN | STACK_OF_CALL : id ? STACK_IN_CHAIN : 0;
  return id | bits;
}

/* Whether FRAME is shown as LINK is, which may be of another frame: no code object has died since.
 */
static READS_STACK bool is_shown_as(const chain_cache_t *c, const link_t *link, uint64_t frame) {
  return link->node && link->deaths == c->deaths &&
         word_at(frame + python.second) == link->second &&
         !((word_at(frame + python.third) ^ link->third) & python.third_mask);
}

static bool has_frame(uint32_t shown) { return shown & ~(STACK_IN_CHAIN | STACK_OF_CALL); }

/* Adds FRAME as the innermost link. A handler may jump out of here, so `count` covers finished
 * links only. */
static READS_STACK bool add_link(chain_cache_t *c, uint64_t frame) {
  static const link_t none;
  uint32_t i = c->count;
  const link_t *outer = i ? &c->links[i - 1] : &none;
  link_t *link = &c->links[i];
  uint32_t shown = is_shown_as(c, link, frame) ? link->shown : shown_of_frame(frame);
  if (shown == UINT32_MAX) return false;
  uint32_t node = outer->node;
  if (shown && link->shown == shown && link->outer == outer->node && link->node)
    node = link->node; /* its caller moved on, and called it again */
  else if (shown)
    node = stack_table_child(outer->node, shown);
  if (!node || node == STACK_TABLE_FULL) return false;
  link->node = 0;
  signal_fence();
  link->frame = frame;
  link->caller = word_at(frame + python.caller);
  link->second = word_at(frame + python.second);
  link->third = word_at(frame + python.third);
  link->deaths = c->deaths;
  link->shown = shown;
  link->outer = outer->node;
  link->calls = (uint16_t)(outer->calls + !!(shown & STACK_OF_CALL));
  link->frames = (uint16_t)(outer->frames + has_frame(shown));
  signal_fence();
  link->node = node;
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

static NOINLINE void forget_chain(chain_cache_t *c, uint64_t deaths) {
  c->count = 0;
  signal_fence();
  memset(c->tops, 0, sizeof c->tops);
  c->deaths = deaths;
}

/* The innermost link of the chain from TOP outward. NULL: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK const link_t *find_chain(chain_cache_t *c, uint64_t top) {
  uint64_t deaths = load_relaxed(&python_code_deaths);
  if (UNLIKELY(c->deaths != deaths)) forget_chain(c, deaths);
  if (UNLIKELY(!links_unchanged(c, c->count, top)) && !update_chain(c, top)) return NULL;
  return &c->links[c->count - 1];
}

/* A handler may jump out of here. */
static NOINLINE uint32_t learn_top(top_t *known, const link_t *link, uint64_t code,
                                   uint64_t instruction) {
  uint32_t id = shown_of(code, instruction);
  if (!id || id == UINT32_MAX) return 0;
  uint32_t bits = link->shown & (STACK_IN_CHAIN | STACK_OF_CALL),
           node = stack_table_child(link->outer, id | bits);
  if (node == STACK_TABLE_FULL) return 0;
  known->code = 0;
  signal_fence();
  known->instruction = instruction;
  known->outer = link->outer;
  known->shown = link->shown;
  known->node = node;
  signal_fence();
  known->code = code;
  return node;
}

/* The chain's node; 0: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK uint32_t chain_with_line(chain_cache_t *c, const link_t *link) {
  if (python.with_lines || UNLIKELY(!has_frame(link->shown))) return link->node;
  uint64_t code = link->second, instruction = instruction_of(link->frame);
  top_t *known = &c->tops[(code / 64 ^ instruction / 2 ^ link->outer) % TOPS];
  if (LIKELY(known->code == code && known->instruction == instruction &&
             known->outer == link->outer && known->shown == link->shown))
    return known->node;
  return learn_top(known, link, code, instruction);
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

static uint64_t pair_of(uint32_t native, uint32_t chain) { return (uint64_t)native << 32 | chain; }

/* Whether NATIVE has as many calls of the evaluator as the chain of LINK. */
static bool fits(uint32_t native, const link_t *link) {
  uint32_t shape = python_shape(native);
  return shape && !(shape & SHAPE_HAS_SIGNAL) && link->calls == shape_calls(shape) &&
         link->frames + shape_frames(shape) <= DEPTH_MAX;
}

/* The id of a pair that is not the last one of its place. If NATIVE is new, the pair is. A pair
 * with an id fits. A handler may jump out of here. */
static NOINLINE uint32_t learn_recent(recent_t *recent, uint32_t native, uint32_t chain,
                                      const link_t *link, bool is_new) {
  uint32_t id = is_new ? 0 : python_merged_find(native, chain);
  if (!id && fits(native, link)) id = python_merged_add(native, chain);
  if (!id) return 0;
  recent->pair = 0;
  signal_fence();
  recent->id = id;
  signal_fence();
  recent->pair = pair_of(native, chain);
  return id;
}

/* Whether the frames of a thread in NATIVE may be read: no handler interrupted the evaluator. */
static NOINLINE bool learn_shape(uint32_t native) {
  uint32_t shape = python_shape(native);
  if (!shape || shape & SHAPE_HAS_SIGNAL) return false;
  python_shape_note(native);
  return true;
}

/* The merged stack; 0: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK uint32_t find_merged(capture_thread_t *self, uint32_t native) {
  uint64_t top;
  if (UNLIKELY(!find_top(&top))) return 0;
  if (!top) return native;
  bool is_new = UNLIKELY(!python_shape_is_noted(native));
  chain_cache_t *c = self->python;
  if (is_new && !learn_shape(native)) return 0;
  if (UNLIKELY(!c) && !(c = make_chain(self))) return 0;
  const link_t *link = find_chain(c, top);
  if (UNLIKELY(!link)) return 0;
  uint32_t chain = chain_with_line(c, link);
  if (UNLIKELY(!chain)) return 0;
  uint64_t pair = pair_of(native, chain);
  recent_t *recent = &c->recents[leveled_hash(pair) / (UINT64_MAX / RECENTS + 1)];
  return LIKELY(recent->pair == pair) ? recent->id
                                      : learn_recent(recent, native, chain, link, is_new);
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
  const python_origin_t origin = {.pc = pc, .sp = sp, .fp = fp, .is_event = true};
  if (!capture_with_python(&merged, &origin)) return 0;
  *id = merged;
  return merged ? 0 : SONDE_EFULL;
}

void python_event_start(const python_runtime_t *runtime, bool with_lines) {
  const python_layout_t *l = runtime->layout;
  static const char *const name[] = {"pthread_getspecific"};
  uint64_t function;
  os_symbols(0, name, &function, 1);
  if (!function || !stack_table_init() || !python_merged_start() ||
      !python_shapes_start(runtime->evaluator, runtime->evaluator_bytes))
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
  python.code = l->frame_code;
  python.instruction = l->frame_instruction;
  python.instruction_mask = l->code_bytes == PYTHON_NO_FIELD ? UINT32_MAX : UINT64_MAX;
  python.second = with_lines ? l->frame_instruction : l->frame_code;
  bool has_flag = l->frame_is_entry != PYTHON_NO_FIELD;
  python.third = has_flag ? l->frame_is_entry / 8u * 8 : l->frame_code;
  python.third_mask = has_flag ? UINT64_C(0xff) << l->frame_is_entry % 8 * 8 : UINT64_MAX;
  python.with_lines = with_lines;
  python.layout = l;
  stack_id_of_event = event_stack_id;
}
