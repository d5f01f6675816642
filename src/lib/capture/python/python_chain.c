/* SPDX-License-Identifier: MIT */
#include "capture/python/python_chain.h"

#include <string.h>

#include "capture/frame_table.h"
#include "capture/python/python.h"
#include "os/os.h"

HIDDEN python_offsets_t python_offsets;

chain_cache_t *chain_make(const view_t *view) {
  chain_cache_t *c = os_map(sizeof *c);
  if (c) c->view = view;
  return c;
}

void chain_forget(chain_cache_t *c, uint64_t deaths) {
  c->count = 0;
  signal_fence();
  memset(c->tops, 0, sizeof c->tops);
  memset(c->inners, 0, sizeof c->inners);
  memset(c->recents, 0, sizeof c->recents);
  c->deaths = deaths;
}

/* ---- a frame ---- */

/* What tells FRAME from another one, besides its caller and its second word. */
static READS_STACK uint64_t third_of(third_t third, uint64_t frame) {
  switch (third) {
  case THIRD_BYTE: return *(const uint8_t *)(uintptr_t)(frame + python_offsets.flag);
  case THIRD_WORD: return python_word_at(frame + python_offsets.code);
  default: return 0;
  }
}

READS_STACK uint32_t chain_find_changed(const chain_cache_t *c, third_t third, uint32_t i) {
  for (; i; i--)
    if (!chain_frame_is_unchanged(&c->known[i], c->view->second) ||
        third_of(third, c->known[i].frame) != c->links[i].third)
      return i;
  return 0;
}

/* To 3.10 each frame does. */
static bool ends_call(uint64_t frame) {
  const python_layout_t *l = python_offsets.layout;
  return l->frame_owner == PYTHON_NO_FIELD ||
         (l->frame_is_entry != PYTHON_NO_FIELD &&
          *(const uint8_t *)(uintptr_t)(frame + l->frame_is_entry));
}

/* The frame of the evaluator itself, which ends a call: from 3.12 on. */
static bool is_anchor(uint64_t frame) {
  const python_layout_t *l = python_offsets.layout;
  return l->frame_owner != PYTHON_NO_FIELD && l->frame_is_entry == PYTHON_NO_FIELD &&
         *(const uint8_t *)(uintptr_t)(frame + l->frame_owner) >= PYTHON_OWNER_EVALUATOR;
}

/* The frame of INSTRUCTION in the code of WORD in a node: 0 if it is not shown. UINT32_MAX: it has
 * no name. */
static uint32_t shown_of(uint64_t word, uint64_t instruction) {
  uint64_t code = python_code_in(python_offsets.layout, word);
  uint32_t id = python_codes_find(code, instruction);
  if (UNLIKELY(!id)) id = capture_python_frame(code, instruction);
  if (UNLIKELY(!id || id == FRAME_TABLE_FULL)) return UINT32_MAX;
  return id == PYTHON_FRAME_INSERTED ? 0 : id;
}

static READS_STACK uint32_t shown_of_frame(const view_t *view, uint64_t frame) {
  if (is_anchor(frame)) return STACK_IN_CHAIN | STACK_OF_CALL;
  uint32_t id = shown_of(python_word_at(frame + python_offsets.code),
                         view->with_lines ? python_instruction_of(frame) : PYTHON_WHOLE_FUNCTION);
  if (id == UINT32_MAX) return id;
  uint32_t bits = ends_call(frame) ? STACK_IN_CHAIN | STACK_OF_CALL : id ? STACK_IN_CHAIN : 0;
  return id | bits;
}

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
  const inner_t wanted = {.second = python_word_at(frame + c->view->second),
                          .third = third_of(c->view->third, frame),
                          .outer = outer->node};
  inner_t *inner =
      &c->inners[(wanted.second / 64 ^ wanted.second / 2 ^ wanted.outer) % CHAIN_INNERS];
  if (!is_inner(inner, &wanted) && !learn_inner(c, inner, &wanted, link, frame)) return false;
  link->node = 0;
  signal_fence();
  c->known[i] = (known_frame_t){frame, wanted.second};
  link->third = wanted.third;
  link->deaths = c->deaths;
  link->shown = inner->shown;
  link->outer = outer->node;
  link->calls = (uint16_t)(outer->calls + link_has_call(link));
  link->frames = (uint16_t)(outer->frames + link_has_frame(link));
  if (link_has_call(link)) c->entries[outer->calls] = frame;
  signal_fence();
  link->node = inner->node;
  *chain_place_of(c, frame) = (uint16_t)i;
  signal_fence();
  c->count = i;
  return true;
}

READS_STACK bool chain_update(chain_cache_t *c, uint64_t top) {
  uint32_t fresh = 0, base = 0, limit = c->count;
  for (uint64_t f = top; f; f = python_word_at(f + python_offsets.caller)) {
    uint32_t i = *chain_place_of(c, f);
    if (i && i <= limit && c->known[i].frame == f) {
      uint32_t changed = chain_find_changed(c, c->view->third, i);
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

/* ---- the innermost line ---- */

/* A handler may jump out of here. */
static uint32_t learn_top(top_t *known, const link_t *link, uint64_t code, uint64_t instruction) {
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

uint32_t chain_node(chain_cache_t *c, uint64_t instruction) {
  const link_t *link = &c->links[c->count];
  if (c->view->with_lines || !link_has_frame(link)) return link->node;
  uint64_t code = c->known[c->count].second;
  top_t *known = &c->tops[(code / 64 ^ instruction / 2 ^ link->outer) % CHAIN_TOPS];
  if (known->code == code && known->instruction == instruction && known->outer == link->outer &&
      known->shown == link->shown)
    return known->node;
  return learn_top(known, link, code, instruction);
}
