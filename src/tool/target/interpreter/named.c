/* SPDX-License-Identifier: MIT */
#include "target/interpreter/named.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of_key(const uint64_t key[4]) {
  return hash_pair(hash_pair(key[0], key[1]), hash_pair(key[2], key[3]));
}

static uint64_t hash_of_item(const void *named, size_t i) {
  return hash_of_key(((const named_frames_t *)named)->items.items[i].key);
}

uint64_t named_number(named_frames_t *n, const uint64_t key[4], bool *is_new) {
  uint32_t *slot;
  *is_new = false;
  if (!hash_reserve(&n->index, n->items.count, hash_of_item, n)) return NAMED_NONE;
  HASH_FIND(&n->index, hash_of_key(key), slot) {
    if (memcmp(n->items.items[*slot - 1].key, key, sizeof n->items.items->key) == 0)
      return *slot - 1;
  }
  named_frame_t *added = n->items.count < UINT32_MAX - 1 ? ARRAY_ADD(n->items) : NULL;
  if (!added) return NAMED_NONE;
  *added = (named_frame_t){0};
  memcpy(added->key, key, sizeof added->key);
  *slot = (uint32_t)n->items.count;
  *is_new = true;
  return *slot - 1;
}

named_frame_t *named_at(const named_frames_t *n, uint64_t number) {
  return &n->items.items[number];
}

static uint64_t pc_of(const interpreter_t *self, uint64_t number) {
  return language_tag(self->kind->language) << 48 | number;
}

bool named_add(interpreter_t *self, uint64_t number) {
  return number != NAMED_NONE && interpreter_frames_add(&self->frames, pc_of(self, number));
}

/* Until it has a number, the frame has the function instead of a pc. */
bool named_add_waiting(interpreter_t *self, named_frames_t *n, uint64_t function) {
  if (!interpreter_frames_add(&self->frames, function)) return false;
  n->waiting++;
  return true;
}

bool named_resolve(interpreter_t *self, named_frames_t *n, uint64_t caller,
                   uint64_t (*number_of)(interpreter_t *self, uint64_t function, uint64_t caller)) {
  interpreter_frames_t *frames = &self->frames;
  bool done = true;
  for (; n->waiting; n->waiting--) {
    uint64_t *pc = &frames->pcs.items[frames->pcs.count - n->waiting];
    uint64_t number = number_of(self, *pc, caller);
    done &= number != NAMED_NONE;
    *pc = pc_of(self, number & LANGUAGE_PC_MASK);
  }
  return done;
}

void named_take_place(named_frames_t *n, uint64_t number, uint64_t caller) {
  if (caller == NAMED_NONE) return;
  const named_frame_t *from = named_at(n, caller);
  named_frame_t *to = named_at(n, number);
  to->file = from->file ? strdup(from->file) : NULL;
  to->line = from->line;
}

bool named_name(const named_frames_t *n, uint64_t pc, interpreter_name_t *out) {
  uint64_t number = pc & LANGUAGE_PC_MASK;
  if (number >= n->items.count) return false;
  const named_frame_t *found = named_at(n, number);
  *out = (interpreter_name_t){found->function, found->file, found->line};
  return true;
}

void named_free(named_frames_t *n) {
  for (size_t i = 0; i < n->items.count; i++) {
    free(n->items.items[i].function);
    free(n->items.items[i].file);
  }
  free(n->items.items);
  hash_free(&n->index);
}
