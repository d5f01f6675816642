/* SPDX-License-Identifier: MIT */
#include "report/functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/wrap.h"
#include "report/json.h"
#include "report/table.h"
#include "symbol/short_name.h"

enum { DEPTH_MAX = 4096, BRIEF_ROWS = 5 };

static const column_t self_columns[] = {
    {"total", "total", UNIT_SHARE, FIELD(function_sum_t, total)},
    {"self", "self", UNIT_SHARE, FIELD(function_sum_t, self)},
    {"own", NULL, UNIT_SHARE, FIELD(function_sum_t, own)},
    {"function", "function", UNIT_FUNCTION, FIELD(function_sum_t, name)},
    {0}};

static const column_t own_columns[] = {
    {"total", "total", UNIT_SHARE, FIELD(function_sum_t, total)},
    {"own", "own", UNIT_SHARE, FIELD(function_sum_t, own)},
    {"function", "function", UNIT_FUNCTION, FIELD(function_sum_t, name)},
    {0}};

/* ---- adding up ---------------------------------------------------------------------------- */

static uint64_t hash_of_function(const void *functions, size_t i) {
  return frame_name_hash(((const function_sums_t *)functions)->items[i].name);
}

/* NULL: out of memory. */
static function_sum_t *function_of(function_sums_t *f, const frame_name_t *name) {
  uint32_t *slot;
  if (!hash_reserve(&f->index, f->count, hash_of_function, f)) return NULL;
  HASH_FIND(&f->index, frame_name_hash(name), slot) {
    if (!frame_name_compare(f->items[*slot - 1].name, name)) return &f->items[*slot - 1];
  }
  if (!ARRAY_GROW(f->items, f->count, f->capacity)) return NULL;
  f->items[f->count++] = (function_sum_t){.name = name};
  *slot = (uint32_t)f->count;
  return &f->items[f->count - 1];
}

bool functions_add(const report_t *r, function_sums_t *f, uint32_t stack, uint64_t weight) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  bool innermost = true, innermost_own = true;
  int depth = frame_names_frames(r->names, stack, frames, DEPTH_MAX);
  f->stacks++;
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    int count =
        frame_names_is_marker(frames[i]) ? 0 : frame_names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < count; k++) {
      function_sum_t *function = function_of(f, &names[k]);
      if (!function) return false;
      if (innermost) function->self += weight;
      innermost = false;
      if (names[k].own && innermost_own) function->own += weight;
      if (names[k].own) innermost_own = false;
      if (function->last_stack != f->stacks) function->total += weight;
      function->last_stack = f->stacks;
    }
  }
  return true;
}

void functions_free(function_sums_t *f) {
  free(f->items);
  hash_free(&f->index);
}

/* ---- text and JSON ------------------------------------------------------------------------ */

static int by_self(const void *left, const void *right) {
  const function_sum_t *a = left, *b = right;
  if (a->self != b->self) return a->self > b->self ? -1 : 1;
  if (a->total != b->total) return a->total > b->total ? -1 : 1;
  return frame_name_compare(a->name, b->name);
}

/* The program's own functions first, by total. */
static int by_own(const void *left, const void *right) {
  const function_sum_t *a = left, *b = right;
  if (a->name->own != b->name->own) return a->name->own ? -1 : 1;
  if (a->total != b->total) return a->total > b->total ? -1 : 1;
  if (a->own != b->own) return a->own > b->own ? -1 : 1;
  return frame_name_compare(a->name, b->name);
}

/* A function that only calls others, such as most of a program's main, says little in a summary. */
static bool is_shown(const report_t *r, const function_sum_t *f) {
  return f->name->own && (!r->brief || f->own * 100 >= f->total);
}

static void sort(function_sums_t *f, int (*compare)(const void *, const void *)) {
  if (f->count) qsort(f->items, f->count, sizeof *f->items, compare);
}

/* Returns false if there are none. */
static bool print_own(const report_t *r, const function_sums_t *f, const char *what, FILE *out) {
  uint32_t *order = malloc((f->count + 1) * sizeof *order);
  table_t table = {TABLE(own_columns, f->items, 0), .order = order, .whole = f->whole};
  for (size_t i = 0; order && i < f->count; i++)
    if (is_shown(r, &f->items[i])) order[table.count++] = (uint32_t)i;
  if (table.count) {
    fprintf(out, "%s%s%s, by function of the program; own includes libraries%s\n", report_gap(r),
            r->bold, what, r->plain);
    table_text(r, &table, report_rows(r, BRIEF_ROWS), "functions", out);
  }
  free(order);
  return table.count != 0;
}

/* Why there is no table of the program's functions, if it is stripped. */
static void print_stripped(const report_t *r, const function_sums_t *f, FILE *out) {
  const function_sum_t *most = NULL;
  for (size_t i = 0; i < f->count; i++)
    if (f->items[i].name->stripped && !f->items[i].name->system &&
        (!most || f->items[i].total > most->total))
      most = &f->items[i];
  if (most)
    wrap_format(out, (wrap_t){.indent = 4, .columns = r->columns},
                "  %.80s is stripped, so its functions have no names; '--debug-dir DIR' takes them "
                "from the same build in DIR, unstripped\n",
                plain_text(most->name->library));
}

static void print_self(const report_t *r, const function_sums_t *f, const char *what, FILE *out) {
  table_t table = {TABLE(self_columns, f->items, 0), .whole = f->whole};
  while (table.count < f->count && f->items[table.count].self)
    table.count++;
  fprintf(out, "%s%s%s, by innermost function%s\n", report_gap(r), r->bold, what, r->plain);
  table_text(r, &table, report_rows(r, BRIEF_ROWS), "functions", out);
}

void functions_text(const report_t *r, function_sums_t *f, const char *what, FILE *out) {
  bool printed = false;
  if (r->functions_by != FUNCTIONS_BY_SELF) {
    sort(f, by_own);
    printed = print_own(r, f, what, out);
  }
  if (printed && (r->brief || r->functions_by == FUNCTIONS_BY_TOTAL)) return;
  if (!printed && r->functions_by != FUNCTIONS_BY_SELF) print_stripped(r, f, out);
  sort(f, by_self);
  print_self(r, f, what, out);
}

json_object *functions_json(const report_t *r, function_sums_t *f) {
  sort(f, r->functions_by == FUNCTIONS_BY_TOTAL ? by_own : by_self);
  const table_t table = {TABLE(self_columns, f->items, f->count)};
  return table_json(r, &table, r->top);
}
