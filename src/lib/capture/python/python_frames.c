/* SPDX-License-Identifier: MIT */
#include "capture/python/python_frames.h"

#include <string.h>

#include "base/text.h"
#include "capture/frame_table.h"
#include "os/os.h"
#include "python/frame_pc.h"

#define FRAMES_MAX  (1u << 16)
#define PROBES_MAX  64u
#define TEXTS_BYTES (8u << 20)

typedef struct slot {
  uint64_t hash; /* 0: free */
  uint32_t line;
  uint32_t text; /* place of both texts in `texts`; NOT_READY; NO_TEXT */
} slot_t;

enum { NOT_READY = 0, NO_TEXT = 1, FIRST_TEXT = 2 };

typedef struct table {
  slot_t slots[FRAMES_MAX];
  uint32_t used;
  char texts[TEXTS_BYTES];
} table_t;

HIDDEN void (*python_frame_on_new)(const python_frame_t *frame);
static table_t *table;

static table_t *the_table(void) {
  table_t *t = load_acquire(&table), *none = NULL;
  if (LIKELY(t)) return t;
  table_t *mapped = os_map(sizeof *mapped);
  if (!mapped) return NULL;
  mapped->used = FIRST_TEXT;
  if (cas_acq_rel(&table, &none, mapped)) return mapped;
  os_unmap(mapped, sizeof *mapped);
  return none;
}

/* Copies both texts. NO_TEXT: the memory for texts is used up. */
static uint32_t keep(table_t *t, const char *function, const char *file) {
  size_t first = text_length(function) + 1, second = text_length(file) + 1;
  if (load_relaxed(&t->used) + first + second > TEXTS_BYTES) return NO_TEXT;
  uint32_t at = add_relaxed(&t->used, (uint32_t)(first + second));
  if (at + first + second > TEXTS_BYTES) return NO_TEXT;
  memcpy(t->texts + at, function, first);
  memcpy(t->texts + at + first, file, second);
  return at;
}

static void announce(const python_frame_t *frame) {
  if (python_frame_on_new) python_frame_on_new(frame);
}

uint32_t python_frame_id(const char *function, const char *file, uint32_t line) {
  uint64_t hash = language_name_hash(function, file, line);
  table_t *t = the_table();
  if (!t) return FRAME_TABLE_FULL;
  for (uint32_t i = 0; i < PROBES_MAX; i++) {
    uint32_t index = ((uint32_t)(hash >> 48) + i) % FRAMES_MAX;
    slot_t *slot = &t->slots[index];
    uint64_t found = load_relaxed(&slot->hash);
    bool mine = !found && cas_acq_rel(&slot->hash, &found, hash);
    if (!mine && found != hash) continue;
    const python_frame_t frame = {PYTHON_FRAME_IDS + index, line,
                                  language_recorded_pc(PYTHON_PC_TAG, hash), function, file};
    if (load_acquire(&slot->text) != NOT_READY) return frame.id;
    announce(&frame);
    if (!mine) return frame.id;
    slot->line = line;
    store_release(&slot->text, keep(t, function, file));
    return frame.id;
  }
  return FRAME_TABLE_FULL;
}

void python_frames_each(void (*visit)(const python_frame_t *frame)) {
  const table_t *t = load_acquire(&table);
  for (uint32_t i = 0; t && i < FRAMES_MAX; i++) {
    const slot_t *slot = &t->slots[i];
    uint32_t text = load_acquire(&slot->text);
    if (text < FIRST_TEXT) continue;
    const char *function = t->texts + text;
    const python_frame_t frame = {PYTHON_FRAME_IDS + i, slot->line,
                                  language_recorded_pc(PYTHON_PC_TAG, slot->hash), function,
                                  function + text_length(function) + 1};
    visit(&frame);
  }
}
