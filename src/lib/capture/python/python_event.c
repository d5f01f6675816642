/* SPDX-License-Identifier: MIT */
#include "capture/python/python_event.h"

#include "arch/arch.h"
#include "capture/predicted_stack.h"
#include "capture/python/python.h"
#include "capture/python/python_chain.h"
#include "capture/python/python_merged.h"
#include "capture/python/python_places.h"
#include "capture/stack.h"
#include "os/key_place.h"
#include "os/os.h"

/* Deeper stacks are truncated, which capture_with_python does. */
#define DEPTH_MAX (STACK_OUTER + STACK_INNER)
/* From 3.13 on: how far inside of the event's frame a suspended stack is expected. */
#define SUSPENDED_BYTES (1u << 20)

/* Where the anchor of the innermost call of the evaluator is. */
typedef enum anchor {
  ANCHOR_NONE,   /* to 3.9: there is none */
  ANCHOR_BESIDE, /* 3.10: the CFrame, beside the innermost frame in the thread's state */
  ANCHOR_CFRAME, /* 3.11 and 3.12: the CFrame, which leads to the innermost frame */
  ANCHOR_FRAME,  /* from 3.13 on: the first frame of the chain that is on the stack */
} anchor_t;

/* Where the thread's state is, and its chain in it. */
static struct {
  /* of the value of the key that `key_word` is, relative to the thread pointer; 0: not known */
  int64_t key_place;
  uint64_t key_word;
  const uint64_t *key, *finalizing;
  void *(*value_of_key)(uint32_t key);
  uint32_t state_frame, state_cframe, cframe_current;
  anchor_t anchor;
} python;
static view_t view_of_events, view_of_lines;

/* A captured native stack. */
typedef struct event {
  capture_thread_t *self;
  uint64_t pc, sp, fp;
  uint32_t native;
} event_t;

/* ---- the thread's state -----------------------------------------------------------------------
 */

/* 0: the thread has no state. */
static NOINLINE uint64_t find_state(void) {
  uint64_t key = load_relaxed(python.key);
  if (!(uint32_t)key) return 0; /* the key is not created */
  uint32_t number = (uint32_t)(key >> 32);
  uint64_t state = (uint64_t)(uintptr_t)python.value_of_key(number);
  if (state && !load_relaxed(&python.key_place)) {
    store_relaxed(&python.key_word, key);
    store_release(&python.key_place, os_key_place(number, state));
  }
  return state;
}

/* A key that was deleted and created again has another word, unless it got its former number. Then
 * a thread may have the former value, but no call of the evaluator, and nobody asks. */
static ALWAYS_INLINE READS_STACK uint64_t own_state(void) {
  int64_t place = load_acquire(&python.key_place);
  if (UNLIKELY(!place || load_relaxed(python.key) != python.key_word)) return find_state();
  return python_word_at(os_key_address(place));
}

/* ---- the innermost call of the evaluator ------------------------------------------------------
 */

/* The stack of a thread whose innermost frame is TOP, if no anchor is in its native stack. 0: only
 * capture_with_python can tell. */
static NOINLINE uint32_t stack_without_call(uint32_t native, uint64_t top) {
  if (top || !python_place_has_none(native)) return 0;
  python_place_note(native, PLACE_NONE);
  return native;
}

/* ANCHOR is not in the place that is known. */
static NOINLINE bool learn_place(event_t e, uint64_t anchor) {
  return python_place_learn(e.self, e.native, e.pc, e.sp, e.fp, anchor);
}

static NOINLINE bool learn_call(uint32_t native) {
  if (!python_place_has_call(native)) return false;
  python_place_note(native, PLACE_WITHOUT_ANCHOR);
  return true;
}

/* Whether the first frame from TOP outward that is on the stack, or on a suspended one, is in the
 * innermost call. */
static NOINLINE READS_STACK bool leads_to_call(event_t e, uint64_t top) {
  uint64_t lo = e.sp - SUSPENDED_BYTES, size = e.self->window.hi - lo;
  uint32_t frames = 0;
  while (top && top - lo >= size && frames++ < CHAIN_MAX)
    top = python_word_at(top + python_offsets.caller);
  if (!top || top - lo >= size) return false;
  return top - e.sp == python_place(e.native) || learn_place(e, top);
}

/* Sets *TOP to the innermost frame of the thread with STATE; its chain is still to be examined if
 * the anchor is one of its frames. False: the chain is not that of the native stack. */
static ALWAYS_INLINE READS_STACK bool find_top(anchor_t kind, event_t e, uint32_t place,
                                               uint64_t state, uint64_t *top) {
  uint64_t at = state + python.state_frame;
  bool is_in_call = true;
  if (kind == ANCHOR_CFRAME || kind == ANCHOR_BESIDE) {
    uint64_t anchor = python_word_at(state + python.state_cframe);
    if (kind == ANCHOR_CFRAME) at = anchor + python.cframe_current;
    is_in_call = LIKELY(anchor - e.sp == place) || learn_place(e, anchor);
  } else if (UNLIKELY(!place)) {
    is_in_call = learn_call(e.native);
  }
  *top = python_word_at(at);
  return is_in_call && LIKELY(*top);
}

/* ---- the chain --------------------------------------------------------------------------------
 */

static NOINLINE chain_cache_t *make_chain(capture_thread_t *self, const view_t *view) {
  chain_cache_t *c = chain_make(view);
  signal_fence();
  self->python[view->number] = c;
  return c;
}

/* The chain has changed, so its anchor may have, too. */
static NOINLINE bool update_chain(chain_cache_t *c, event_t e, uint64_t top) {
  return (python.anchor != ANCHOR_FRAME || leads_to_call(e, top)) && chain_update(c, top);
}

/* Makes TOP the innermost frame of the chain. THIRD_BYTE is compared only in frames that end a
 * call. False: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK bool find_chain(chain_cache_t *c, const view_t *view,
                                                 third_t third, anchor_t kind, event_t e,
                                                 uint64_t top) {
  uint64_t deaths = load_relaxed(&python_code_deaths);
  if (UNLIKELY(c->deaths != deaths)) chain_forget(c, deaths);
  uint32_t i = c->count;
  if (UNLIKELY(c->known[i].frame != top)) {
    i = *chain_place_of(c, top);
    if (!i || c->known[i].frame != top || !chain_is_kept(c, i)) return update_chain(c, e, top);
  }
  bool is_same = kind != ANCHOR_FRAME ||
                 LIKELY(c->entries[c->links[i].calls - 1] - e.sp == python_place(e.native));
  if (third == THIRD_WORD)
    is_same = is_same && !chain_find_changed(c, third, i);
  else
    is_same = is_same && chain_is_unchanged(c, view->second, i) &&
              (third == THIRD_NONE || chain_ends_calls(c, i));
  if (UNLIKELY(!is_same)) return update_chain(c, e, top);
  c->count = i;
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
                    .instruction = python_word_at(known->frame + python_offsets.instruction) &
                                   view->instruction_mask,
                    .stacks = (uint64_t)c->links[c->count].node << 32 | native};
}

static ALWAYS_INLINE recent_t *recent_of(chain_cache_t *c, const recent_t *wanted) {
  uint64_t key = wanted->instruction ^ wanted->second ^ wanted->stacks << 20;
  return &c->recents[leveled_hash(key) / (UINT64_MAX / CHAIN_RECENTS + 1)];
}

static ALWAYS_INLINE bool is_recent(const recent_t *known, const recent_t *wanted) {
  return LIKELY(known->stacks == wanted->stacks) &&
         LIKELY(known->instruction == wanted->instruction) &&
         LIKELY(known->second == wanted->second);
}

static uint32_t find_pair(chain_cache_t *c, uint32_t native, uint64_t instruction) {
  uint32_t chain = chain_node(c, instruction);
  return chain ? python_merged_find(native, chain) : 0;
}

/* The pair may be new because a frame ends a call that did not before, or the reverse. */
static READS_STACK uint32_t add_pair(chain_cache_t *c, uint32_t native, uint64_t top) {
  if (chain_find_changed(c, c->view->third, c->count) && !chain_update(c, top)) return 0;
  uint64_t instruction = python_instruction_of(top);
  uint32_t id = find_pair(c, native, instruction), chain = chain_node(c, instruction);
  if (id || !chain || !fits(native, &c->links[c->count])) return id;
  return python_merged_add(native, chain);
}

/* The id of the stack NATIVE with the chain, whose innermost frame is TOP. A handler may jump out
 * of here. */
static NOINLINE READS_STACK uint32_t learn_recent(chain_cache_t *c, uint32_t native, uint64_t top) {
  uint32_t id = find_pair(c, native, python_instruction_of(top));
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

/* The merged stack of an event; 0: capture_with_python must tell. */
static ALWAYS_INLINE READS_STACK uint32_t find_merged(event_t e, const view_t *view, third_t third,
                                                      anchor_t kind) {
  uint64_t top;
  uint32_t place = python_place(e.native);
  if (UNLIKELY(place == PLACE_NONE)) return e.native;
  uint64_t state = own_state(), finalizing = load_relaxed(python.finalizing);
  if (UNLIKELY(!state)) return stack_without_call(e.native, 0);
  if (UNLIKELY(finalizing) && finalizing != state) return 0;
  if (UNLIKELY(!find_top(kind, e, place, state, &top))) return stack_without_call(e.native, top);
  chain_cache_t *c = e.self->python[view->number];
  if (UNLIKELY(!c) && !(c = make_chain(e.self, view))) return 0;
  if (UNLIKELY(!find_chain(c, view, third, kind, e, top))) return 0;
  const recent_t wanted = wanted_of(c, view, e.native);
  const recent_t *recent = recent_of(c, &wanted);
  return LIKELY(is_recent(recent, &wanted)) ? recent->id : learn_recent(c, e.native, top);
}

/* A stack without a prediction, and one that capture_with_python must tell. */
static NOINLINE READS_STACK uint32_t find_slowly(uint64_t pc, uint64_t sp, uint64_t fp,
                                                 const view_t *view) {
  uint32_t native, merged = 0;
  if (UNLIKELY(stack_id_here(&native, pc, sp, fp) < 0)) return 0;
  capture_thread_t *self = thread_state_enter(sp);
  if (LIKELY(self)) {
    const event_t e = {self, pc, sp, fp, native};
    merged = find_merged(e, view, view->third, python.anchor);
    thread_state_leave(self);
  }
  const python_origin_t origin = {
      .pc = pc, .sp = sp, .fp = fp, .is_event = view == &view_of_events};
  return merged || capture_with_python(&merged, &origin) ? merged : native;
}

static ALWAYS_INLINE READS_STACK uint32_t merged_id(uint64_t pc, uint64_t sp, uint64_t fp,
                                                    const view_t *view, third_t third,
                                                    anchor_t kind) {
  uint32_t merged = 0;
  capture_thread_t *self = predicted_stack_enter(sp);
  if (LIKELY(self)) {
    const event_t e = {self, pc, sp, fp, predicted_stack_find(self, pc, sp, fp)};
    if (LIKELY(e.native)) merged = find_merged(e, view, third, kind);
    thread_state_leave(self);
  }
  return LIKELY(merged) ? merged : find_slowly(pc, sp, fp, view);
}

/* The kind of comparison is a constant, as it is in each round of the loop over a chain. Only 3.11
 * has the byte. */
static READS_STACK uint32_t event_stack_id(uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(pc, sp, fp, &view_of_events, THIRD_NONE, python.anchor);
}

static READS_STACK uint32_t event_stack_id_by_byte(uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(pc, sp, fp, &view_of_events, THIRD_BYTE, ANCHOR_CFRAME);
}

static READS_STACK uint32_t event_stack_id_by_word(uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(pc, sp, fp, &view_of_events, THIRD_WORD, python.anchor);
}

static READS_STACK uint32_t stack_id_with_lines(uint64_t pc, uint64_t sp, uint64_t fp) {
  return merged_id(pc, sp, fp, &view_of_lines, view_of_lines.third, python.anchor);
}

static view_t make_view(const python_layout_t *l, bool with_lines, uint8_t number) {
  bool has_flag = l->frame_is_entry != PYTHON_NO_FIELD;
  return (view_t){.second = with_lines ? l->frame_instruction : l->frame_code,
                  .third = has_flag     ? THIRD_BYTE
                           : with_lines ? THIRD_WORD
                                        : THIRD_NONE,
                  .with_lines = with_lines,
                  .number = number,
                  .instruction_mask = with_lines ? 0 : python_offsets.instruction_mask};
}

static anchor_t anchor_of(const python_layout_t *l) {
  if (l->cframe_current != PYTHON_NO_FIELD) return ANCHOR_CFRAME;
  if (l->state_cframe != PYTHON_NO_FIELD) return ANCHOR_BESIDE;
  return l->frame_owner == PYTHON_NO_FIELD ? ANCHOR_NONE : ANCHOR_FRAME;
}

static void set_offsets(const python_runtime_t *runtime) {
  const python_layout_t *l = runtime->layout;
  python.key = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_key);
  python.finalizing = (const uint64_t *)(uintptr_t)(runtime->address + l->runtime_finalizing);
  python.state_frame = l->state_frame;
  python.state_cframe = l->state_cframe;
  python.cframe_current = l->cframe_current;
  python.anchor = anchor_of(l);
  python_offsets = (python_offsets_t){
      .caller = l->frame_back,
      .code = l->frame_code,
      .instruction = l->frame_instruction,
      .flag = l->frame_is_entry,
      .instruction_mask = l->code_bytes == PYTHON_NO_FIELD ? UINT32_MAX : UINT64_MAX,
      .layout = l};
}

void python_event_start(const python_runtime_t *runtime, bool with_lines) {
  static stack_id_function_t *const of_event[] = {[THIRD_NONE] = event_stack_id,
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
