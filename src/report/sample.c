/* SPDX-License-Identifier: MIT
 *
 * By function: self is where the CPU was, total is that and what was called from there. A function
 * that stands several times in a stack counts once for its total.
 */
#include "report/sample.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/malloc.h"
#include "sonde/status.h"

enum { DEPTH_MAX = 4096, DEPTH_SHOWN = 12 };

typedef struct function {
  const frame_name_t *name;
  uint64_t self, total;
  uint32_t last_stack; /* number + 1 of the stack it was last counted in */
} function_t;

typedef struct functions {
  function_t *items;
  size_t count, room;
} functions_t;

static int by_name(const frame_name_t *a, const frame_name_t *b) {
  int order = strcmp(a->function, b->function);
  return order ? order : strcmp(a->library, b->library);
}

/* The table is small enough to be kept in order of names. */
static function_t *find(functions_t *f, const frame_name_t *name) {
  size_t low = 0, high = f->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = by_name(name, f->items[middle].name);
    if (!order) return &f->items[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  if (f->count == f->room) {
    size_t room = f->room ? 2 * f->room : 256;
    function_t *grown = realloc(f->items, room * sizeof *grown);
    if (!grown) return NULL;
    f->items = grown;
    f->room = room;
  }
  memmove(f->items + low + 1, f->items + low, (f->count - low) * sizeof *f->items);
  f->count++;
  f->items[low] = (function_t){.name = name};
  return &f->items[low];
}

static bool count_stack(const sample_report_t *r, functions_t *f, size_t n) {
  const sample_stack_t *s = &r->samples->stacks[n];
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  bool innermost = true;
  int depth = reader_stack(r->reader, s->stack, frames, DEPTH_MAX);
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    int count = names_is_marker(frames[i]) ? 0 : names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < count; k++) {
      function_t *function = find(f, &names[k]);
      if (!function) return false;
      if (innermost) function->self += s->ticks;
      innermost = false;
      if (function->last_stack != n + 1) function->total += s->ticks;
      function->last_stack = (uint32_t)(n + 1);
    }
  }
  return true;
}

static int by_self(const void *left, const void *right) {
  const function_t *a = left, *b = right;
  if (a->self != b->self) return a->self > b->self ? -1 : 1;
  if (a->total != b->total) return a->total > b->total ? -1 : 1;
  return by_name(a->name, b->name);
}

static bool count_functions(const sample_report_t *r, functions_t *f) {
  for (size_t n = 0; n < r->samples->stack_count; n++)
    if (!count_stack(r, f, n)) return false;
  if (f->count) qsort(f->items, f->count, sizeof *f->items, by_self);
  return true;
}

static double percent(const sample_report_t *r, uint64_t ticks) {
  return r->samples->ticks ? 100.0 * (double)ticks / (double)r->samples->ticks : 0;
}

static void print_stack(const sample_report_t *r, const sample_stack_t *s, FILE *out) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  int depth = reader_stack(r->reader, s->stack, frames, DEPTH_MAX), shown = 0;
  fprintf(out, "  %5.1f %%  %8" PRIu64 " ×  stack %" PRIu32 "\n", percent(r, s->ticks), s->ticks,
          s->stack);
  if (depth < 0) fprintf(out, "      [the stack is not in the recording]\n");
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    int count = names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < count; k++) {
      if (shown++ >= DEPTH_SHOWN) continue;
      fprintf(out, "      %s", names[k].function);
      if (names[k].file)
        fprintf(out, "  %s%s:%" PRIu32 "%s", r->dim, names[k].file, names[k].line, r->plain);
      fprintf(out, "%s\n", names[k].inlined ? "  (inlined)" : "");
    }
  }
  if (shown > DEPTH_SHOWN) fprintf(out, "      … %d more\n", shown - DEPTH_SHOWN);
}

int report_sample_text(const sample_report_t *r, FILE *out) {
  const samples_t *s = r->samples;
  functions_t f = {0};
  char a[24], b[24];
  if (!count_functions(r, &f)) {
    free(f.items);
    return SONDE_ENOMEM;
  }
  fprintf(out, "\n%sCPU time%s\n  samples    %s; %s ticks could not be taken\n", r->bold, r->plain,
          report_count(s->ticks, a), report_count(s->missed, b));
  fprintf(out, "\n%swhere the CPU was, by function%s\n     self    total\n", r->bold, r->plain);
  for (size_t i = 0; i < f.count && i < r->top; i++) {
    if (!f.items[i].self) break;
    fprintf(out, "  %5.1f %%  %5.1f %%  %s", percent(r, f.items[i].self),
            percent(r, f.items[i].total), f.items[i].name->function);
    if (f.items[i].name->known)
      fprintf(out, "  %s%s%s", r->dim, f.items[i].name->library, r->plain);
    fputc('\n', out);
  }
  fprintf(out, "\n%swhere the CPU was, by stack%s\n", r->bold, r->plain);
  for (size_t i = 0; i < s->stack_count && i < r->top; i++)
    print_stack(r, &s->stacks[i], out);
  if (s->stack_count > r->top) fprintf(out, "  … and %zu more stacks\n", s->stack_count - r->top);
  free(f.items);
  return 0;
}

json_object *report_sample_json(const sample_report_t *r) {
  functions_t f = {0};
  if (!count_functions(r, &f)) return NULL;
  json_object *o = json_object_new_object(), *functions = json_object_new_array(),
              *stacks = json_object_new_array();
  json_add_number(o, "samples", (int64_t)r->samples->ticks);
  json_add_number(o, "missed", (int64_t)r->samples->missed);
  for (size_t i = 0; i < f.count && i < r->top; i++) {
    json_object *row = json_object_new_object();
    json_add_text(row, "function", f.items[i].name->function);
    json_add_text(row, "module", f.items[i].name->library);
    json_add_number(row, "self", (int64_t)f.items[i].self);
    json_add_number(row, "total", (int64_t)f.items[i].total);
    json_object_array_add(functions, row);
  }
  for (size_t i = 0; i < r->samples->stack_count && i < r->top; i++) {
    const sample_stack_t *s = &r->samples->stacks[i];
    json_object *row = json_object_new_object();
    json_add_number(row, "stack", s->stack);
    json_add_number(row, "samples", (int64_t)s->ticks);
    json_object_object_add(row, "frames", report_frames_json(r->reader, r->names, s->stack, NULL));
    json_object_array_add(stacks, row);
  }
  json_object_object_add(o, "functions", functions);
  json_object_object_add(o, "stacks", stacks);
  free(f.items);
  return o;
}
