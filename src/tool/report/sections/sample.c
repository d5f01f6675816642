/* SPDX-License-Identifier: MIT
 *
 * The sampled CPU time of a recording.
 *
 * By function: self is where the CPU was, total is that and what was called from there. A function
 * that stands several times in a stack counts once for its total.
 */
#include "analysis/samples.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/json.h"
#include "report/tree.h"
#include "sonde/status.h"

enum { DEPTH_MAX = 4096, BRIEF_ROWS = 5 };

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

static bool count_stack(const report_t *r, const samples_t *samples, functions_t *f, size_t n) {
  const sample_stack_t *s = &samples->stacks[n];
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  bool innermost = true;
  int depth = reader_stack(r->reader, s->stack, frames, DEPTH_MAX);
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    int count =
        frame_names_is_marker(frames[i]) ? 0 : frame_names_of_frame(r->names, frames[i], &names);
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

static bool count_functions(const report_t *r, const samples_t *samples, functions_t *f) {
  for (size_t n = 0; n < samples->stack_count; n++)
    if (!count_stack(r, samples, f, n)) return false;
  if (f->count) qsort(f->items, f->count, sizeof *f->items, by_self);
  return true;
}

static double percent(const samples_t *s, uint64_t ticks) {
  return s->ticks ? 100.0 * (double)ticks / (double)s->ticks : 0;
}

/* ---- text --------------------------------------------------------------------------------- */

static int print_functions(const report_t *r, const samples_t *s, FILE *out) {
  functions_t f = {0};
  size_t top = r->brief ? BRIEF_ROWS : r->top;
  if (!count_functions(r, s, &f)) {
    free(f.items);
    return SONDE_ENOMEM;
  }
  fprintf(out, "\n%swhere the CPU was, by function%s\n     self    total\n", r->bold, r->plain);
  for (size_t i = 0; i < f.count && i < top && f.items[i].self; i++) {
    fprintf(out, "  %5.1f %%  %5.1f %%  %s", percent(s, f.items[i].self),
            percent(s, f.items[i].total), f.items[i].name->function);
    if (f.items[i].name->known)
      fprintf(out, "  %s%s%s", r->dim, f.items[i].name->library, r->plain);
    fputc('\n', out);
  }
  free(f.items);
  return 0;
}

static void print_stacks(const report_t *r, const samples_t *s, FILE *out) {
  fprintf(out, "\n%swhere the CPU was, by stack%s\n", r->bold, r->plain);
  for (size_t i = 0; i < s->stack_count && i < r->top; i++) {
    fprintf(out, "  %5.1f %%  %8" PRIu64 " ×  stack %" PRIu32 "\n", percent(s, s->stacks[i].ticks),
            s->stacks[i].ticks, s->stacks[i].stack);
    report_stack_text(r, s->stacks[i].stack, out);
  }
  if (s->stack_count > r->top) fprintf(out, "  … and %zu more stacks\n", s->stack_count - r->top);
}

static tree_t *make_tree(const report_t *r, const samples_t *s) {
  tree_t *tree = tree_new(r);
  bool good = tree != NULL;
  for (size_t i = 0; good && i < s->stack_count; i++) {
    int64_t ticks = (int64_t)s->stacks[i].ticks;
    good = tree_add(tree, s->stacks[i].stack, ticks, ticks);
  }
  if (good) return tree;
  tree_free(tree);
  return NULL;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  samples_t *s = state;
  char a[24], b[24];
  samples_rank(s);
  fprintf(out,
          "\n%sCPU time%s\n  samples    %s; %s of them came late, merged into the next one of "
          "their thread\n",
          r->bold, r->plain, report_count(s->ticks, a), report_count(s->missed, b));
  if (r->tree) {
    tree_t *tree = make_tree(r, s);
    if (tree) tree_text(tree, "where the CPU was", false, "samples", out);
    tree_free(tree);
    return tree ? 0 : SONDE_ENOMEM;
  }
  int status = print_functions(r, s, out);
  if (status == 0 && !r->brief) print_stacks(r, s, out);
  return status;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *functions_json(const report_t *r, const samples_t *s) {
  functions_t f = {0};
  json_object *list = json_object_new_array();
  bool good = count_functions(r, s, &f);
  for (size_t i = 0; good && i < f.count && i < r->top; i++) {
    json_object *row = json_object_new_object();
    json_add_text(row, "function", f.items[i].name->function);
    json_add_text(row, "module", f.items[i].name->library);
    json_add_number(row, "self", (int64_t)f.items[i].self);
    json_add_number(row, "total", (int64_t)f.items[i].total);
    json_object_array_add(list, row);
  }
  free(f.items);
  return list;
}

static json_object *make_json(const report_t *r, void *state) {
  samples_t *s = state;
  samples_rank(s);
  json_object *o = json_object_new_object(), *stacks = json_object_new_array();
  json_add_number(o, "samples", (int64_t)s->ticks);
  json_add_number(o, "missed", (int64_t)s->missed);
  for (size_t i = 0; i < s->stack_count && i < r->top; i++) {
    json_object *row = json_object_new_object();
    json_add_number(row, "stack", s->stacks[i].stack);
    json_add_number(row, "samples", (int64_t)s->stacks[i].ticks);
    json_object_object_add(row, "frames", report_frames_json(r, s->stacks[i].stack, NULL));
    json_object_array_add(stacks, row);
  }
  tree_t *tree = r->tree ? make_tree(r, s) : NULL;
  if (tree) json_object_object_add(o, "tree", tree_json(tree));
  tree_free(tree);
  json_object_object_add(o, "functions", functions_json(r, s));
  json_object_object_add(o, "stacks", stacks);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static bool take_event(void *state, const record_event_t *e) {
  return e->kind != EVENT_SAMPLE || samples_add(state, e);
}

static bool holds(const report_t *r, void *state) {
  (void)r;
  return ((const samples_t *)state)->ticks != 0;
}

static void end(void *state) { samples_free(state); }

const report_section_t section_sample = {.name = "sample",
                                         .option = "--sample",
                                         .mode = RECORD_SAMPLES,
                                         .state_bytes = sizeof(samples_t),
                                         .event = take_event,
                                         .holds = holds,
                                         .text = print_text,
                                         .json = make_json,
                                         .end = end};
