/* SPDX-License-Identifier: MIT */
#include "capture/python/python_event.h"

#include <string.h>

#include "capture/frame_table.h"
#include "capture/predicted_stack.h"
#include "capture/python/python.h"
#include "capture/python/python_codes.h"
#include "capture/python/python_frames.h"
#include "capture/python/python_merged.h"
#include "capture/python/python_shapes.h"
#include "capture/stack.h"
#include "os/os.h"

#define CHAIN_MAX 1024u
/* Powers of two: the places of frames in a chain by their addresses, known innermost frames with a
 * line, known frames inside of a known chain, and the last merged stacks. */
#define PLACES  256u
#define TOPS    256u
#define INNERS  256u
#define RECENTS 512u
/* Deeper stacks are truncated, which capture_with_python does. */
#define DEPTH_MAX (STACK_OUTER + STACK_INNER)

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
  /* from here outward: calls of the evaluator, frames that are shown, and the number of the first
   * link that ends a call */
  uint16_t calls, frames, entry;
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
  recent_t recents[RECENTS] __attribute__((aligned(32)));
  /* The first one has no frame, and those from `count` + 1 on are of former chains. */
  known_frame_t known[CHAIN_MAX + 1];
  link_t links[CHAIN_MAX + 1];
  uint16_t places[PLACES];
  top_t tops[TOPS];
  inner_t inners[INNERS];
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
  uint32_t caller, code, instruction, flag;
  uint64_t instruction_mask;
  bool has_cframe;
  const python_layout_t *layout;
} python;
static view_t view_of_events, view_of_lines;

/* ---- the chain --------------------------------------------------------------------------------
 */

static ALWAYS_INLINE READS_STACK uint64_t word_at(uint64_t address) {
  return *(const volatile uint64_t *)(uintptr_t)address;
}

/* The frames do not change while they are compared, so these reads need no order. */
typedef uint64_t word_t __attribute__((may_alias));

static ALWAYS_INLINE READS_STACK uint64_t third_of(third_t third, uint64_t frame) {
  switch (third) {
  case THIRD_BYTE: return *(const volatile uint8_t *)(uintptr_t)(frame + python.flag);
  case THIRD_WORD: return word_at(frame + python.code);
  default: return 0;
  }
}

static ALWAYS_INLINE READS_STACK bool is_unchanged(const known_frame_t *known, uint64_t second) {
  uint64_t frame = known->frame;
  return LIKELY(*(const word_t *)(uintptr_t)(frame + python.caller) == known[-1].frame) &&
         LIKELY(*(const word_t *)(uintptr_t)(frame + second) == known->second);
}

/* Whether the words of the frames from number I outward are unchanged. The frame of number I is in
 * the chain. The caller of the outermost frame is 0, as the frame of the first link. Four frames
 * are compared in each round, and the outermost ones perhaps twice. */
static ALWAYS_INLINE READS_STACK bool are_unchanged(const chain_cache_t *c, uint64_t second,
                                                    uint32_t i) {
  const known_frame_t *known = &c->known[i], *last = &c->known[4];
  KEEP_POINTER(known);
  if (UNLIKELY(i < 4)) {
    for (; known > c->known; known--)
      if (!is_unchanged(known, second)) return false;
    return true;
  }
  for (;; known -= 4) {
    if (known < last) known = last;
    if (!is_unchanged(known, second) || !is_unchanged(known - 1, second) ||
        !is_unchanged(known - 2, second) || !is_unchanged(known - 3, second))
      return false;
    if (known == last) return true;
  }
}

/* Whether the frames that ended a call still do. Of a native stack with as many calls this proves
 * that no other frame does. */
static ALWAYS_INLINE READS_STACK bool end_calls(const chain_cache_t *c, uint32_t i) {
  for (i = c->links[i].entry; i; i = c->links[i - 1].entry)
    if (UNLIKELY(!*(const uint8_t *)(uintptr_t)(c->known[i].frame + python.flag))) return false;
  return true;
}

/* The innermost of the links from number I outward that its frame differs from, 0: none does. The
 * frame of link I is in the chain. */
static READS_STACK uint32_t find_changed(const chain_cache_t *c, third_t third, uint32_t i) {
  for (; i; i--)
    if (!is_unchanged(&c->known[i], c->view->second) ||
        third_of(third, c->known[i].frame) != c->links[i].third)
      return i;
  return 0;
}

static bool has_call(const link_t *link) { return link->shown & STACK_OF_CALL; }

/* Whether the links to number I, of a former chain, still belong to those of this chain. */
static ALWAYS_INLINE bool is_kept(const chain_cache_t *c, uint32_t i) {
  for (; i > c->count; i--) {
    const link_t *link = &c->links[i];
    if (!link->node || link->outer != link[-1].node || link->deaths != c->deaths ||
        (!has_call(link) && link->entry != link[-1].entry))
      return false;
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

/* The frame of INSTRUCTION in the code of WORD in a node: 0 if it is not shown. UINT32_MAX: it has
 * no name. */
static uint32_t shown_of(uint64_t word, uint64_t instruction) {
  uint64_t code = python_code_in(python.layout, word);
  uint32_t id = python_codes_find(code, instruction);
  if (UNLIKELY(!id)) id = capture_python_frame(code, instruction);
  if (UNLIKELY(!id || id == FRAME_TABLE_FULL)) return UINT32_MAX;
  return id == PYTHON_FRAME_INSERTED ? 0 : id;
}

static READS_STACK uint32_t shown_of_frame(const view_t *view, uint64_t frame) {
  if (is_anchor(frame)) return STACK_IN_CHAIN | STACK_OF_CALL;
  uint32_t id = shown_of(word_at(frame + python.code),
                         view->with_lines ? instruction_of(frame) : PYTHON_WHOLE_FUNCTION);
  if (id == UINT32_MAX) return id;
  uint32_t bits = ends_call(frame) ? STACK_IN_CHAIN | STACK_OF_CALL : id ? STACK_IN_CHAIN : 0;
  return id | bits;
}

static bool has_frame(uint32_t shown) { return shown & ~(STACK_IN_CHAIN | STACK_OF_CALL); }

/* Finds the node of FRAME, whose words WANTED has, inside of its chain. FORMER is shown as the
 * frame if it has the same words. A handler may jump out of here. */
static READS_STACK bool learn_inner(chain_cache_t *c, inner_t *known, const inner_t *wanted,
                                    const link_t *former, uint64_t frame) {
  bool is_same = former->node && former->deaths == c->deaths &&
                 c->known[former - c->links].second == wanted->second &&
                 former->third == wanted->third;
  uint32_t shown = is_same ? former->shown : shown_of_frame(c->view, frame);
  if (shown == UINT32_MAX) return false;
  uint32_t node = shown ? stack_table_child(wanted->outer, shown) : wanted->outer;
  if (!node || node == STACK_TABLE_FULL) return false;
  known->node = 0;
  signal_fence();
  known->second = wanted->second;
  known->third = wanted->third;
  known->outer = wanted->outer;
  known->shown = shown;
  signal_fence();
  known->node = node;
  return true;
}

static ALWAYS_INLINE bool is_inner(const inner_t *known, const inner_t *wanted) {
  return known->node && known->second == wanted->second && known->third == wanted->third &&
         known->outer == wanted->outer;
}

/* Adds FRAME as the innermost link. A handler may jump out of here, so `count` covers finished
 * links only. */
static READS_STACK bool add_link(chain_cache_t *c, uint64_t frame) {
  uint32_t i = c->count + 1;
  link_t *link = &c->links[i];
  const link_t *outer = &link[-1];
  const inner_t wanted = {.second = word_at(frame + c->view->second),
                          .third = third_of(c->view->third, frame),
                          .outer = outer->node};
  inner_t *inner = &c->inners[(wanted.second / 64 ^ wanted.second / 2 ^ wanted.outer) % INNERS];
  if (!is_inner(inner, &wanted) && !learn_inner(c, inner, &wanted, link, frame)) return false;
  link->node = 0;
  signal_fence();
  c->known[i] = (known_frame_t){frame, wanted.second};
  link->third = wanted.third;
  link->deaths = c->deaths;
  link->shown = inner->shown;
  link->outer = outer->node;
  link->calls = (uint16_t)(outer->calls + !!(inner->shown & STACK_OF_CALL));
  link->frames = (uint16_t)(outer->frames + has_frame(inner->shown));
  link->entry = has_call(link) ? (uint16_t)i : outer->entry;
  signal_fence();
  link->node = inner->node;
  *place_of(c, frame) = (uint16_t)i;
  signal_fence();
  c->count = i;
  return true;
}

/* Finds the chain from TOP outward: fresh frames down to a link of the last chain. False: it is too
 * long, or a frame cannot be named. */
static NOINLINE READS_STACK bool update_chain(chain_cache_t *c, uint64_t top) {
  uint32_t fresh = 0, base = 0, limit = c->count;
  for (uint64_t f = top; f; f = word_at(f + python.caller)) {
    uint32_t i = *place_of(c, f);
    if (i && i <= limit && c->known[i].frame == f) {
      uint32_t changed = find_changed(c, c->view->third, i);
      base = changed ? 0 : i;
      if (base) break;
      limit = changed - 1;
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

static NOINLINE chain_cache_t *make_chain(capture_thread_t *self, const view_t *view) {
  chain_cache_t *c = os_map(sizeof *c);
  if (!c) return NULL;
  c->view = view;
  signal_fence();
  self->python[view->number] = c;
  return c;
}

static NOINLINE void forget_chain(chain_cache_t *c, uint64_t deaths) {
  c->count = 0;
  signal_fence();
  memset(c->tops, 0, sizeof c->tops);
  memset(c->inners, 0, sizeof c->inners);
  memset(c->recents, 0, sizeof c->recents);
  c->deaths = deaths;
}

/* Makes TOP the innermost frame of the chain. Without EXACT, THIRD_BYTE is compared only in frames
 * that end a call. False: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK bool find_chain(chain_cache_t *c, const view_t *view,
                                                 third_t third, uint64_t top) {
  uint64_t deaths = load_relaxed(&python_code_deaths);
  if (UNLIKELY(c->deaths != deaths)) forget_chain(c, deaths);
  uint32_t i = c->count;
  if (UNLIKELY(c->known[i].frame != top)) {
    i = *place_of(c, top);
    if (!i || c->known[i].frame != top || !is_kept(c, i)) return update_chain(c, top);
  }
  bool is_same = third == THIRD_WORD ? !find_changed(c, third, i)
                                     : are_unchanged(c, view->second, i) &&
                                           (third == THIRD_NONE || end_calls(c, i));
  if (UNLIKELY(!is_same)) return update_chain(c, top);
  c->count = i;
  return true;
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
  if (UNLIKELY(finalizing) && finalizing != state) return false;
  *top = python.has_cframe ? word_at(word_at(state + python.state_cframe) + python.cframe_current)
                           : word_at(state + python.state_frame);
  return true;
}

/* ---- the stack --------------------------------------------------------------------------------
 */

/* Whether NATIVE has as many calls of the evaluator as the chain of LINK. */
static bool fits(uint32_t native, const link_t *link) {
  uint32_t shape = python_shape(native);
  return shape && !(shape & SHAPE_HAS_SIGNAL) && link->calls == shape_calls(shape) &&
         link->frames + shape_frames(shape) <= DEPTH_MAX;
}

static ALWAYS_INLINE READS_STACK recent_t wanted_of(const chain_cache_t *c, const view_t *view,
                                                    uint32_t native) {
  const known_frame_t *known = &c->known[c->count];
  return (recent_t){.second = known->second,
                    .instruction = view->with_lines ? 0 : instruction_of(known->frame),
                    .stacks = (uint64_t)c->links[c->count].node << 32 | native};
}

static ALWAYS_INLINE recent_t *recent_of(chain_cache_t *c, const recent_t *wanted) {
  uint64_t key = wanted->instruction ^ wanted->second ^ wanted->stacks << 20;
  return &c->recents[leveled_hash(key) / (UINT64_MAX / RECENTS + 1)];
}

static ALWAYS_INLINE bool is_recent(const recent_t *known, const recent_t *wanted) {
  return LIKELY(known->stacks == wanted->stacks) &&
         LIKELY(known->instruction == wanted->instruction) &&
         LIKELY(known->second == wanted->second);
}

/* The node of the chain with the line of its innermost frame; 0: capture_with_python must tell. */
static uint32_t node_of_chain(chain_cache_t *c, uint64_t instruction) {
  const link_t *link = &c->links[c->count];
  if (c->view->with_lines || !has_frame(link->shown)) return link->node;
  uint64_t code = c->known[c->count].second;
  top_t *known = &c->tops[(code / 64 ^ instruction / 2 ^ link->outer) % TOPS];
  if (known->code == code && known->instruction == instruction && known->outer == link->outer &&
      known->shown == link->shown)
    return known->node;
  return learn_top(known, link, code, instruction);
}

static uint32_t find_pair(chain_cache_t *c, uint32_t native, uint64_t instruction) {
  uint32_t chain = node_of_chain(c, instruction);
  return chain ? python_merged_find(native, chain) : 0;
}

/* The pair may be new because a frame ends a call that did not before, or the reverse. */
static READS_STACK uint32_t add_pair(chain_cache_t *c, uint32_t native, uint64_t top) {
  if (find_changed(c, c->view->third, c->count) && !update_chain(c, top)) return 0;
  uint64_t instruction = instruction_of(top);
  uint32_t id = find_pair(c, native, instruction), chain = node_of_chain(c, instruction);
  if (id || !chain || !fits(native, &c->links[c->count])) return id;
  return python_merged_add(native, chain);
}

/* The id of the stack NATIVE with the chain, whose innermost frame is TOP. A handler may jump out
 * of here. */
static NOINLINE READS_STACK uint32_t learn_recent(chain_cache_t *c, uint32_t native, uint64_t top) {
  uint32_t id = find_pair(c, native, instruction_of(top));
  if (!id) id = add_pair(c, native, top);
  if (!id) return 0;
  const recent_t wanted = wanted_of(c, c->view, native);
  recent_t *recent = recent_of(c, &wanted);
  recent->stacks = 0;
  signal_fence();
  recent->second = wanted.second;
  recent->instruction = wanted.instruction;
  recent->id = id;
  signal_fence();
  recent->stacks = wanted.stacks;
  return id;
}

/* Whether the frames of a thread in NATIVE may be read: no handler interrupted the evaluator. */
static NOINLINE bool learn_shape(uint32_t native) {
  uint32_t shape = python_shape(native);
  if (!shape || shape & SHAPE_HAS_SIGNAL) return false;
  python_shape_note(native);
  return true;
}

/* The merged stack of NATIVE; 0: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK uint32_t find_merged(capture_thread_t *self, const view_t *view,
                                                      third_t third, uint32_t native) {
  uint64_t top;
  if (UNLIKELY(!find_top(&top))) return 0;
  if (UNLIKELY(!top)) return native;
  chain_cache_t *c = self->python[view->number];
  if (UNLIKELY(!python_shape_is_noted(native)) && !learn_shape(native)) return 0;
  if (UNLIKELY(!c) && !(c = make_chain(self, view))) return 0;
  if (UNLIKELY(!find_chain(c, view, third, top))) return 0;
  const recent_t wanted = wanted_of(c, view, native);
  const recent_t *recent = recent_of(c, &wanted);
  return LIKELY(is_recent(recent, &wanted)) ? recent->id : learn_recent(c, native, top);
}

/* A stack without a prediction, and one that capture_with_python must tell. */
static NOINLINE READS_STACK int find_slowly(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp,
                                            const view_t *view) {
  uint32_t merged = 0;
  int status = stack_id_here(id, pc, sp, fp);
  if (UNLIKELY(status < 0)) return status;
  capture_thread_t *self = thread_state_enter(sp);
  if (LIKELY(self)) {
    merged = find_merged(self, view, view->third, *id);
    thread_state_leave(self);
  }
  const python_origin_t origin = {
      .pc = pc, .sp = sp, .fp = fp, .is_event = view == &view_of_events};
  if (!merged && !capture_with_python(&merged, &origin)) return 0;
  *id = merged;
  return merged ? 0 : SONDE_EFULL;
}

static ALWAYS_INLINE READS_STACK int merged_id(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp,
                                               const view_t *view, third_t third) {
  uint32_t merged = 0;
  capture_thread_t *self = predicted_stack_enter(sp);
  if (LIKELY(self)) {
    uint32_t native = predicted_stack_find(self, pc, sp, fp);
    if (LIKELY(native)) merged = find_merged(self, view, third, native);
    thread_state_leave(self);
  }
  if (UNLIKELY(!merged)) return find_slowly(id, pc, sp, fp, view);
  *id = merged;
  return 0;
}

/* The kind of comparison is a constant, as it is in each round of the loop over a chain. */
static READS_STACK int event_stack_id(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(id, pc, sp, fp, &view_of_events, THIRD_NONE);
}

static READS_STACK int event_stack_id_by_byte(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(id, pc, sp, fp, &view_of_events, THIRD_BYTE);
}

static READS_STACK int event_stack_id_by_word(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(id, pc, sp, fp, &view_of_events, THIRD_WORD);
}

static READS_STACK int stack_id_with_lines(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(id, pc, sp, fp, &view_of_lines, view_of_lines.third);
}

static view_t make_view(const python_layout_t *l, bool with_lines, uint8_t number) {
  bool has_flag = l->frame_is_entry != PYTHON_NO_FIELD;
  return (view_t){.second = with_lines ? l->frame_instruction : l->frame_code,
                  .third = has_flag     ? THIRD_BYTE
                           : with_lines ? THIRD_WORD
                                        : THIRD_NONE,
                  .with_lines = with_lines,
                  .number = number};
}

static void set_offsets(const python_runtime_t *runtime) {
  const python_layout_t *l = runtime->layout;
  python.key = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_key);
  python.finalizing = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_finalizing);
  python.interpreters = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_interpreters);
  python.interpreter_next = l->interpreter_next;
  python.has_cframe = l->state_frame == PYTHON_NO_FIELD;
  python.state_frame = l->state_frame;
  python.state_cframe = l->state_cframe;
  python.cframe_current = l->cframe_current;
  python.caller = l->frame_back;
  python.code = l->frame_code;
  python.flag = l->frame_is_entry;
  python.instruction = l->frame_instruction;
  python.instruction_mask = l->code_bytes == PYTHON_NO_FIELD ? UINT32_MAX : UINT64_MAX;
  python.layout = l;
}

void python_event_start(const python_runtime_t *runtime, bool with_lines) {
  static int (*const of_event[])(uint32_t *, uint64_t, uint64_t,
                                 uint64_t) = {[THIRD_NONE] = event_stack_id,
                                              [THIRD_BYTE] = event_stack_id_by_byte,
                                              [THIRD_WORD] = event_stack_id_by_word};
  static const char *const name[] = {"pthread_getspecific"};
  uint64_t function;
  os_symbols(0, name, &function, 1);
  /* From 3.15 on the state is in a thread-local variable that no symbol names. */
  if (runtime->layout->runtime_key == PYTHON_NO_FIELD) return;
  if (!function || !stack_table_init() || !python_merged_start() ||
      !python_shapes_start(runtime->evaluator, runtime->evaluator_bytes))
    return;
  python.value_of_key = (void *(*)(uint32_t))(uintptr_t)function;
  set_offsets(runtime);
  view_of_events = make_view(runtime->layout, with_lines, 0);
  view_of_lines = make_view(runtime->layout, true, !with_lines);
  stack_id_of_event = of_event[view_of_events.third];
  stack_id_of_rare_event = stack_id_with_lines;
}
