/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "top/functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Functions without time in the window are dropped when so many are known. */
enum { KNOWN_MAX = 4096 };

/* The name that FRAME is counted under. */
static const char *name_of(const top_frame_t *frame) {
  if (frame->function) return frame->function;
  return *frame->library ? frame->library : "[unknown]";
}

void top_place(const top_frame_t *frame, char *out, size_t size) {
  if (frame->file && frame->line)
    snprintf(out, size, "%s:%u", frame->file, (unsigned)frame->line);
  else
    snprintf(out, size, "%s", frame->file ? frame->file : frame->library);
}

static uint64_t hash_of(const void *functions, size_t i) {
  return hash_text(HASH_START, ((const top_functions_t *)functions)->items[i].name);
}

/* NULL: out of memory. */
static top_function_t *find(top_functions_t *f, const top_frame_t *frame) {
  uint32_t *slot;
  const char *text = name_of(frame);
  uint64_t hash = hash_text(HASH_START, text);
  if (!hash_reserve(&f->index, f->count, hash_of, f)) return NULL;
  HASH_FIND(&f->index, hash, slot) {
    if (!strcmp(f->items[*slot - 1].name, text)) return &f->items[*slot - 1];
  }
  if (!ARRAY_GROW(f->items, f->count, f->capacity)) return NULL;
  char *name = strdup(text);
  if (!name) return NULL;
  top_function_t *function = &f->items[f->count++];
  *function = (top_function_t){.name = name, .is_own = frame->is_own};
  top_place(frame, function->place, sizeof function->place);
  *slot = (uint32_t)f->count;
  return &f->items[f->count - 1];
}

int top_owner(const top_frame_t *frames, int count) {
  for (int i = 0; i < count; i++)
    if (frames[i].is_own) return i;
  for (int i = 0; i < count; i++)
    if (!frames[i].is_system) return i;
  return count > 0 ? 0 : -1;
}

bool top_functions_add(top_functions_t *f, const top_frame_t *frames, int count,
                       uint64_t weight_ns) {
  int owner = top_owner(frames, count);
  f->samples++;
  f->time_ns += weight_ns;
  f->times[f->slice] += weight_ns;
  for (int i = 0; i < count; i++) {
    top_function_t *function = find(f, &frames[i]);
    if (!function) return false;
    if (i == owner) {
      function->own_ns += weight_ns;
      function->owns[f->slice] += weight_ns;
    }
    if (function->last_sample == f->samples) continue;
    function->last_sample = f->samples;
    function->total_ns += weight_ns;
    function->totals[f->slice] += weight_ns;
  }
  return true;
}

static void drop_unused(top_functions_t *f) {
  size_t kept = 0;
  for (size_t i = 0; i < f->count; i++) {
    if (f->items[i].total_ns) {
      f->items[kept++] = f->items[i];
    } else {
      free(f->items[i].name);
    }
  }
  f->count = kept;
  hash_free(&f->index); /* filled again when it is needed */
}

void top_functions_turn(top_functions_t *f) {
  f->slice = (f->slice + 1) % TOP_SLICES;
  f->time_ns -= f->times[f->slice];
  f->times[f->slice] = 0;
  for (size_t i = 0; i < f->count; i++) {
    top_function_t *function = &f->items[i];
    function->total_ns -= function->totals[f->slice];
    function->own_ns -= function->owns[f->slice];
    function->totals[f->slice] = function->owns[f->slice] = 0;
  }
  if (f->count > KNOWN_MAX) drop_unused(f);
}

static int compare(const void *left, const void *right, void *rank) {
  const top_function_t *a = *(const top_function_t *const *)left;
  const top_function_t *b = *(const top_function_t *const *)right;
  if (a->is_own != b->is_own) return a->is_own ? -1 : 1;
  if (*(const top_rank_t *)rank == TOP_RANK_TOTAL && a->total_ns != b->total_ns)
    return a->total_ns > b->total_ns ? -1 : 1;
  if (a->own_ns != b->own_ns) return a->own_ns > b->own_ns ? -1 : 1;
  return strcmp(a->name, b->name);
}

size_t top_functions_list(const top_functions_t *f, top_rank_t rank, const char *filter,
                          const top_function_t **out, size_t max) {
  size_t count = 0;
  for (size_t i = 0; i < f->count && count < max; i++) {
    const top_function_t *function = &f->items[i];
    bool only_calls = function->own_ns * 100 < function->total_ns;
    if (function->total_ns && !only_calls && strcasestr(function->name, filter))
      out[count++] = function;
  }
  if (count) qsort_r(out, count, sizeof *out, compare, &rank);
  return count;
}

void top_functions_free(top_functions_t *f) {
  for (size_t i = 0; i < f->count; i++)
    free(f->items[i].name);
  free(f->items);
  hash_free(&f->index);
  *f = (top_functions_t){0};
}
