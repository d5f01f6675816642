/* SPDX-License-Identifier: MIT */
#include "report/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { DEPTH_MAX = 4096 };

/* ---- keys: hashes of function names -------------------------------------------------------- */

size_t diff_stable_length(const char *name) {
  static const char *const suffixes[] = {".part.", ".cold",     ".isra.", ".constprop.",
                                         ".llvm.", ".lto_priv", NULL};
  size_t length = strlen(name);
  for (int i = 0; suffixes[i]; i++) {
    const char *found = strstr(name, suffixes[i]);
    if (found && found > name && (size_t)(found - name) < length) length = (size_t)(found - name);
  }
  return length;
}

static void mix(uint64_t key[2], const char *text, size_t size) {
  for (size_t i = 0; i < size; i++) {
    key[0] = (key[0] ^ (uint8_t)text[i]) * 1099511628211u;
    key[1] = (key[1] + (uint8_t)text[i]) * UINT64_C(0x9e3779b97f4a7c15);
    key[1] ^= key[1] >> 29;
  }
  key[0] = (key[0] ^ 0x100) * 1099511628211u;
  key[1] = (key[1] + 0x1ff) * UINT64_C(0x9e3779b97f4a7c15);
}

/* True if every function has a name. */
static bool key_of(const report_t *r, uint32_t stack, uint64_t key[2]) {
  const frame_name_t *names[DEPTH_MAX];
  const char *nameless = NULL; /* the library of the previous frame, if that has no name */
  bool named = true;
  int count = frame_names_of_stack(r->names, stack, names, DEPTH_MAX);
  key[0] = 14695981039346656037u;
  key[1] = 1;
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    if (names[i]->known) {
      mix(key, names[i]->function, diff_stable_length(names[i]->function));
      nameless = NULL;
    } else if (!nameless || strcmp(nameless, names[i]->library)) {
      named = false;
      nameless = names[i]->library;
      mix(key, "?", 1);
      mix(key, nameless, strlen(nameless));
    }
  }
  return named;
}

/* ---- rows --------------------------------------------------------------------------------- */

static uint64_t hash_of_row(const void *diff, size_t i) {
  return ((const diff_t *)diff)->rows[i].key[1];
}

/* The row of KEY, added if there is none; NULL: out of memory. */
static diff_row_t *row_of(diff_t *d, const uint64_t key[2]) {
  uint32_t *slot;
  if (!hash_reserve(&d->index, d->count, hash_of_row, d)) return NULL;
  HASH_FIND(&d->index, key[1], slot) {
    diff_row_t *row = &d->rows[*slot - 1];
    if (row->key[0] == key[0] && row->key[1] == key[1]) return row;
  }
  if (!ARRAY_GROW(d->rows, d->count, d->capacity)) return NULL;
  diff_row_t *row = &d->rows[d->count++];
  *row = (diff_row_t){.key = {key[0], key[1]}};
  *slot = (uint32_t)d->count;
  return row;
}

static void add_to(diff_t *d, diff_row_t *row, bool old, int64_t weight, int64_t count) {
  *(old ? &row->before : &row->after) += weight;
  *(old ? &row->count_before : &row->count_after) += count;
  *(old ? &d->before : &d->after) += weight;
}

bool diff_add(diff_t *d, const report_t *r, bool old, uint32_t stack, int64_t weight,
              int64_t count) {
  uint64_t key[2];
  bool named = key_of(r, stack, key);
  diff_row_t *row = row_of(d, key);
  if (!row) return false;
  if (!row->function) {
    const frame_name_t *owner = frame_names_owner(r->names, stack);
    row->function = !owner         ? "[a stack that is not in the recording]"
                    : owner->known ? owner->function
                                   : owner->library;
    row->stack = stack;
    row->nameless = !named;
    row->in_old = old;
  }
  add_to(d, row, old, weight, count);
  return true;
}

static int64_t size_of_change(const diff_row_t *r) {
  int64_t change = r->after - r->before;
  return change < 0 ? -change : change;
}

static int by_change(const void *left, const void *right) {
  const diff_row_t *a = left, *b = right;
  int64_t x = size_of_change(a), y = size_of_change(b);
  if (x != y) return x > y ? -1 : 1;
  int order = strcmp(a->function, b->function);
  if (order) return order;
  return a->key[0] < b->key[0] ? -1 : a->key[0] > b->key[0];
}

void diff_finish(diff_t *d) {
  size_t kept = 0;
  for (size_t i = 0; i < d->count; i++)
    if (size_of_change(&d->rows[i])) d->rows[kept++] = d->rows[i];
  d->count = kept;
  if (kept) qsort(d->rows, kept, sizeof *d->rows, by_change);
  hash_free(&d->index); /* its rows have moved */
}

double diff_nameless(const diff_t *d) {
  double all = 0, nameless = 0;
  for (size_t i = 0; i < d->count; i++) {
    double change = (double)size_of_change(&d->rows[i]);
    all += change;
    if (d->rows[i].nameless) nameless += change;
  }
  return all > 0 ? nameless / all : 0;
}

void diff_free(diff_t *d) {
  free(d->rows);
  hash_free(&d->index);
  memset(d, 0, sizeof *d);
}

bool diff_by_function(const diff_t *d, diff_t *out) {
  *out = (diff_t){0};
  for (size_t i = 0; i < d->count; i++) {
    const diff_row_t *from = &d->rows[i];
    uint64_t key[2] = {14695981039346656037u, 1};
    mix(key, from->function, diff_stable_length(from->function));
    diff_row_t *row = row_of(out, key);
    if (!row) {
      diff_free(out);
      return false;
    }
    if (!row->function) row->function = from->function;
    add_to(out, row, true, from->before, from->count_before);
    add_to(out, row, false, from->after, from->count_after);
  }
  diff_finish(out);
  return true;
}
