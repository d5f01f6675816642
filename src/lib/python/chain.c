/* SPDX-License-Identifier: MIT */
#include "python/chain.h"

#include "base/bits.h"
#include "base/load.h"

static bool has(uint16_t field) { return field != PYTHON_NO_FIELD; }

static bool read_word(const python_chain_t *c, uint64_t address, uint64_t *out) {
  return address % 8 == 0 && address && c->memory->read(c->memory, address, out, sizeof *out);
}

static bool is_root(const python_chain_t *c) {
  return c->cframe == c->state + c->layout->state_root_cframe;
}

/* ---- 3.10: one anchor for each frame, except for a call that begins or ends -------------------
 */

static bool count_frames(const python_chain_t *c, uint64_t *count) {
  uint64_t frame = c->frame;
  for (*count = 0; frame; ++*count)
    if (*count == PYTHON_STEPS_MAX || !read_word(c, frame + c->layout->frame_back, &frame))
      return false;
  return true;
}

static bool count_anchors(const python_chain_t *c, uint64_t *count) {
  uint64_t cframe = c->cframe, root = c->state + c->layout->state_root_cframe;
  for (*count = 0; cframe != root; ++*count)
    if (*count == PYTHON_STEPS_MAX || !read_word(c, cframe + c->layout->cframe_previous, &cframe))
      return false;
  return true;
}

/* Skips what one of the two lists has more: the innermost call begins or ends. */
static bool align(python_chain_t *c) {
  uint64_t frames, anchors;
  if (!count_frames(c, &frames) || !count_anchors(c, &anchors)) return false;
  for (; frames > anchors; frames--)
    if (!read_word(c, c->frame + c->layout->frame_back, &c->frame)) return false;
  for (; anchors > frames; anchors--)
    if (!read_word(c, c->cframe + c->layout->cframe_previous, &c->cframe)) return false;
  return true;
}

/* ---- the walk ---------------------------------------------------------------------------------
 */

bool python_chain_start(python_chain_t *c, const python_layout_t *layout, memory_t *memory,
                        uint64_t state) {
  *c = (python_chain_t){.layout = layout, .memory = memory, .state = state};
  if (has(layout->state_cframe) && !read_word(c, state + layout->state_cframe, &c->cframe))
    return false;
  if (has(layout->state_frame))
    return read_word(c, state + layout->state_frame, &c->frame) &&
           (!has(layout->state_cframe) || align(c));
  return read_word(c, c->cframe + layout->cframe_current, &c->frame);
}

bool python_chain_start_at(python_chain_t *c, uint64_t cframe) {
  c->cframe = cframe;
  return read_word(c, cframe + c->layout->cframe_current, &c->frame);
}

/* Ends the current call of the evaluator. */
static python_step_t end_call(python_chain_t *c) {
  const python_layout_t *l = c->layout;
  c->ends_call = false;
  c->anchor = 0;
  if (!has(l->state_cframe)) return PYTHON_CALL;
  if (is_root(c)) return PYTHON_DAMAGED;
  c->anchor = c->cframe;
  if (!read_word(c, c->cframe + l->cframe_previous, &c->cframe)) return PYTHON_DAMAGED;
  if (!has(l->cframe_current)) return PYTHON_CALL;
  /* The outermost frame of a call continues with the innermost one of the call around it. */
  uint64_t around;
  if (!read_word(c, c->cframe + l->cframe_current, &around) || around != c->frame)
    return PYTHON_DAMAGED;
  return PYTHON_CALL;
}

/* A frame of the evaluator itself is the anchor. From 3.15 on each chain ends with one more, which
 * is part of the thread's state and stands for no call. */
static python_step_t pass_anchor(python_chain_t *c, const uint8_t *frame) {
  c->anchor = c->frame;
  c->frame = load64(frame + c->layout->frame_back);
  return c->frame || c->layout->minor < 15 ? PYTHON_CALL : PYTHON_END;
}

python_step_t python_chain_next(python_chain_t *c) {
  const python_layout_t *l = c->layout;
  uint8_t frame[PYTHON_FRAME_BYTES];
  size_t size = has(l->code_bytes) ? l->frame_owner + 1u : sizeof frame;
  if (c->ends_call) return end_call(c);
  if (!c->frame) return PYTHON_END;
  if (c->steps++ == PYTHON_STEPS_MAX || c->frame % 8 ||
      !c->memory->read(c->memory, c->frame, frame, size))
    return PYTHON_DAMAGED;
  bool has_own_frames = has(l->frame_owner) && !has(l->frame_is_entry);
  if (has_own_frames && frame[l->frame_owner] >= PYTHON_OWNER_EVALUATOR)
    return pass_anchor(c, frame);
  c->code = python_code_in(l, load64(frame + l->frame_code));
  c->instruction = has(l->code_bytes) ? load64(frame + l->frame_instruction)
                                      : load32(frame + l->frame_instruction);
  c->address = c->frame;
  c->frame = load64(frame + l->frame_back);
  c->ends_call = !has(l->frame_owner) || (has(l->frame_is_entry) && frame[l->frame_is_entry]);
  return PYTHON_FRAME;
}
