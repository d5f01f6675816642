/* SPDX-License-Identifier: MIT */
#include "analysis/why/finding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/short_name.h"

const char *why_kind_key(why_kind_t kind) {
  static const char *const keys[] = {
#define WHY_KIND_TEXT(name, key) [name] = (key),
      WHY_KIND_TABLE(WHY_KIND_TEXT)
#undef WHY_KIND_TEXT
  };
  return keys[kind];
}

/* Functions of one name are told apart by the library, else by the file (Python). */
static const char *home_of(const why_function_t *f) {
  return *f->library || !f->file ? f->library : f->file;
}

bool why_same_function(const why_function_t *a, const why_function_t *b) {
  return a == b || (a && b && !strcmp(a->name, b->name) && !strcmp(home_of(a), home_of(b)));
}

char *why_function_text(const why_function_t *f, char out[WHY_NAME_MAX]) {
  enum { NAME_COLUMNS = 60, FILE_BYTES = 60 };
  char name[WHY_NAME_MAX];
  if (f->known)
    short_name(f->name, NAME_COLUMNS, name, sizeof name);
  else
    short_text(f->name, 0, name, sizeof name);
  const char *slash = f->file ? strrchr(f->file, '/') : NULL;
  const char *file = slash ? slash + 1 : f->file;
  if (file && f->line)
    snprintf(out, WHY_NAME_MAX, "%.80s (%.*s:%u)", name, FILE_BYTES, plain_text(file), f->line);
  else
    snprintf(out, WHY_NAME_MAX, "%.140s%s", name, f->known || !*f->path ? "" : " (no symbol)");
  return out;
}

void findings_list_add(findings_list_t *list, const finding_t *finding) {
  if (list->count < WHY_FINDINGS_MAX) list->items[list->count++] = *finding;
}

static int by_score(const void *left, const void *right) {
  const finding_t *a = left, *b = right;
  if (a->is_note != b->is_note) return a->is_note ? 1 : -1;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return (a->kind > b->kind) - (a->kind < b->kind);
}

static bool is_in(why_kind_t kind, const why_kind_t *kinds) {
  for (; *kinds != WHY_CRASH; kinds++)
    if (*kinds == kind) return true;
  return false;
}

/* Whether EFFECT is a consequence of CAUSE, which ranks higher. WHY_CRASH ends the lists. */
static bool explains(const finding_t *cause, const finding_t *effect) {
  static const why_kind_t of_locks[] = {WHY_CONVOY, WHY_STALL, WHY_BLOCKED, WHY_HANG, WHY_CRASH};
  static const why_kind_t of_time[] = {WHY_CPU, WHY_STALL, WHY_WAKEUPS, WHY_BLOCKED, WHY_CRASH};
  static const why_kind_t of_work[] = {WHY_CPU, WHY_TEMPORARY, WHY_CRASH};
  static const why_kind_t of_memory[] = {WHY_GROWTH, WHY_RESIDENT, WHY_CRASH};
  bool same = cause->culprit && why_same_function(cause->culprit, effect->culprit);
  switch (cause->kind) {
  case WHY_DEADLOCK: return is_in(effect->kind, of_locks);
  case WHY_CONVOY: return is_in(effect->kind, of_locks) || (same && is_in(effect->kind, of_time));
  case WHY_BUSY_LOOP:
  case WHY_STALL:
  case WHY_WAKEUPS:
  case WHY_DISK:
  case WHY_STARVED:
  case WHY_BLOCKED: return same && is_in(effect->kind, of_time);
  case WHY_DESCRIPTORS: return same && is_in(effect->kind, of_memory);
  case WHY_EXCEPTIONS:
  case WHY_COPIES: return same && is_in(effect->kind, of_work);
  case WHY_THREADS:
  case WHY_LEAK:
  case WHY_GROWTH: return is_in(effect->kind, of_memory);
  default: return false;
  }
}

void findings_list_rank(findings_list_t *list) {
  size_t kept = 0;
  if (list->count) qsort(list->items, list->count, sizeof *list->items, by_score);
  for (size_t i = 0; i < list->count; i++) {
    bool is_effect = kept && list->items[i].is_note && !list->items[0].is_note;
    for (size_t k = 0; k < kept && !is_effect; k++)
      is_effect = explains(&list->items[k], &list->items[i]);
    if (!is_effect) list->items[kept++] = list->items[i];
  }
  list->count = kept;
}
