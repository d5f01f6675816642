/* SPDX-License-Identifier: MIT
 *
 * Section `sample`: CPU time by function and stack. A function's self counts the samples in it, its
 * total those in it and in functions that it called. A recursive function counts once a stack.
 *
 * The program's own functions come first, by total. Their own time includes that of the libraries
 * and templates that they called, up to the next function of the program.
 */
#include "analysis/samples.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"
#include "report/json.h"
#include "report/table.h"
#include "report/tree.h"
#include "sonde/status.h"

enum { DEPTH_MAX = 4096, BRIEF_ROWS = 5 };
#define UNSAMPLED_SHOWN_NS UINT64_C(50000000)

typedef struct function {
  const frame_name_t *name;
  uint64_t self, total;
  uint64_t own;        /* in it, and in libraries that it called */
  uint32_t last_stack; /* number + 1 of the stack that it last counted in */
} function_t;

typedef struct functions {
  function_t *items;
  size_t count, capacity;
  hash_index_t index; /* by function and library */
} functions_t;

static const column_t function_columns[] = {
    {"self", "self", UNIT_SHARE, FIELD(function_t, self)},
    {"total", "total", UNIT_SHARE, FIELD(function_t, total)},
    {"own", NULL, UNIT_SHARE, FIELD(function_t, own)},
    {"function", "function", UNIT_FUNCTION, FIELD(function_t, name)},
    {0}};

static const column_t own_columns[] = {
    {"total", "total", UNIT_SHARE, FIELD(function_t, total)},
    {"own", "own", UNIT_SHARE, FIELD(function_t, own)},
    {"function", "function", UNIT_FUNCTION, FIELD(function_t, name)},
    {0}};

static const column_t stack_columns[] = {
    {NULL, "share", UNIT_SHARE, FIELD(sample_stack_t, ticks)},
    {"samples", "samples", UNIT_COUNT, FIELD(sample_stack_t, ticks)},
    {"stack", "stack", UNIT_STACK, FIELD(sample_stack_t, stack)},
    {0}};

/* ---- by function -------------------------------------------------------------------------- */

static uint64_t hash_of_function(const void *functions, size_t i) {
  const frame_name_t *name = ((const functions_t *)functions)->items[i].name;
  return hash_text(hash_text(HASH_START, name->function), name->library);
}

static int by_name(const frame_name_t *a, const frame_name_t *b) {
  int order = strcmp(a->function, b->function);
  return order ? order : strcmp(a->library, b->library);
}

/* NULL: out of memory. */
static function_t *function_of(functions_t *f, const frame_name_t *name) {
  uint32_t *slot;
  if (!hash_reserve(&f->index, f->count, hash_of_function, f)) return NULL;
  HASH_FIND(&f->index, hash_text(hash_text(HASH_START, name->function), name->library), slot) {
    if (!by_name(f->items[*slot - 1].name, name)) return &f->items[*slot - 1];
  }
  if (!ARRAY_GROW(f->items, f->count, f->capacity)) return NULL;
  f->items[f->count++] = (function_t){.name = name};
  *slot = (uint32_t)f->count;
  return &f->items[f->count - 1];
}

static bool count_stack(const report_t *r, const samples_t *samples, functions_t *f, size_t n) {
  const sample_stack_t *s = &samples->stacks[n];
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  bool innermost = true, innermost_own = true;
  int depth = reader_program_stack(r->reader, s->stack, frames, DEPTH_MAX);
  for (int i = 0; i < depth && i < DEPTH_MAX; i++) {
    int count =
        frame_names_is_marker(frames[i]) ? 0 : frame_names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < count; k++) {
      function_t *function = function_of(f, &names[k]);
      if (!function) return false;
      if (innermost) function->self += s->ticks;
      innermost = false;
      if (names[k].own && innermost_own) function->own += s->ticks;
      if (names[k].own) innermost_own = false;
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

/* A function that only calls others, such as most of a program's main, says little in a summary. */
static bool is_shown(const report_t *r, const function_t *f) {
  return f->name->own && (!r->brief || f->own * 100 >= f->total);
}

/* The program's own functions first, by total. */
static int by_own(const void *left, const void *right) {
  const function_t *a = left, *b = right;
  if (a->name->own != b->name->own) return a->name->own ? -1 : 1;
  if (a->total != b->total) return a->total > b->total ? -1 : 1;
  if (a->own != b->own) return a->own > b->own ? -1 : 1;
  return by_name(a->name, b->name);
}

/* The caller frees F in any case. False: out of memory. */
static bool count_functions(const report_t *r, const samples_t *samples, functions_t *f) {
  for (size_t n = 0; n < samples->stack_count; n++)
    if (!count_stack(r, samples, f, n)) return false;
  if (f->count) qsort(f->items, f->count, sizeof *f->items, by_self);
  return true;
}

static void free_functions(functions_t *f) {
  free(f->items);
  hash_free(&f->index);
}

/* ---- text and JSON ------------------------------------------------------------------------ */

static bool fill_tree(tree_t *tree, const void *context) {
  const samples_t *s = context;
  bool good = true;
  for (size_t i = 0; good && i < s->stack_count; i++) {
    int64_t ticks = (int64_t)s->stacks[i].ticks;
    good = tree_add(tree, s->stacks[i].stack, ticks, ticks);
  }
  return good;
}

static completeness_t completeness_of(const report_t *r, const samples_t *s) {
  completeness_t c = {0};
  for (size_t i = 0; i < s->stack_count; i++)
    report_add_stack(r, &c, s->stacks[i].stack, s->stacks[i].ticks);
  return c;
}

static table_t stacks_of(const samples_t *s) {
  return (table_t){TABLE(stack_columns, s->stacks, s->stack_count), .whole = s->ticks};
}

static void print_table(const report_t *r, const char *title, table_t *table, FILE *out) {
  size_t most = r->brief ? BRIEF_ROWS : r->top;
  if (table->count > most) table->count = most;
  fprintf(out, "\n%sCPU time, by %s%s\n", r->bold, title, r->plain);
  table_text(r, table, most, "", out);
}

/* Sorts F by own functions. Returns false if the recording has none. */
static bool print_own(const report_t *r, const samples_t *s, functions_t *f, FILE *out) {
  table_t table = {TABLE(own_columns, f->items, 0), .whole = s->ticks};
  if (f->count) qsort(f->items, f->count, sizeof *f->items, by_own);
  for (size_t i = 0; i < f->count; i++)
    if (is_shown(r, &f->items[i])) f->items[table.count++] = f->items[i];
  if (table.count) print_table(r, "function of the program; own includes libraries", &table, out);
  return table.count != 0;
}

static void print_innermost(const report_t *r, const samples_t *s, functions_t *f, FILE *out) {
  table_t table = {TABLE(function_columns, f->items, 0), .whole = s->ticks};
  if (f->count) qsort(f->items, f->count, sizeof *f->items, by_self);
  while (table.count < f->count && f->items[table.count].self)
    table.count++;
  print_table(r, "function", &table, out);
}

/* A summary without functions of the program shows the innermost ones, as does the whole section.
 */
static int print_functions(const report_t *r, const samples_t *s, FILE *out) {
  functions_t f = {0};
  bool good = count_functions(r, s, &f);
  if (good && !(print_own(r, s, &f, out) && r->brief)) print_innermost(r, s, &f, out);
  free_functions(&f);
  return good ? 0 : SONDE_ENOMEM;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  samples_t *s = state;
  char a[24], b[24];
  samples_rank(s);
  fprintf(out,
          "\n%sCPU time%s\n  samples    %s; %s of them were delayed and merged into the thread's "
          "next sample\n",
          r->bold, r->plain, report_count(s->ticks, a), report_count(s->missed, b));
  report_cpu_time_text(r, out);
  if (!s->ticks) return 0;
  const completeness_t complete = completeness_of(r, s);
  report_completeness_text(&complete, "samples", out);
  if (r->tree) return tree_print(r, fill_tree, s, "CPU time", "samples", out);
  int status = print_functions(r, s, out);
  if (status < 0 || r->brief) return status;
  const table_t stacks = stacks_of(s);
  fprintf(out, "\n%sCPU time, by stack%s\n", r->bold, r->plain);
  table_text(r, &stacks, r->top, "stacks", out);
  return 0;
}

/* JSON holds samples where text shows shares. */
static json_object *make_json(const report_t *r, void *state) {
  samples_t *s = state;
  functions_t f = {0};
  samples_rank(s);
  json_object *o = json_new_object();
  json_add_count(o, "samples", s->ticks);
  json_add_count(o, "missed", s->missed);
  json_object *time = report_cpu_time_json(r);
  if (time) json_add(o, "cpu_time", time);
  json_add_count(o, "complete", completeness_of(r, s).complete);
  if (r->tree) tree_add_json(r, fill_tree, s, o);
  bool good = count_functions(r, s, &f);
  const table_t functions = {TABLE(function_columns, f.items, f.count)}, stacks = stacks_of(s);
  json_add(o, "functions", table_json(r, &functions, good ? r->top : 0));
  json_add(o, "stacks", table_json(r, &stacks, r->top));
  free_functions(&f);
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static bool add_event(void *state, const record_event_t *e) {
  return e->kind != EVENT_SAMPLE || samples_add(state, e);
}

/* CPU time without a sample is a fact, too, unless it is too short to have one. */
static bool has_data(const report_t *r, void *state) {
  if (((const samples_t *)state)->ticks) return true;
  if (!r->cpu_time || !(reader_header(r->reader)->mode & RECORD_SAMPLES)) return false;
  cpu_times_t sum = cpu_time_sum(r->cpu_time);
  return cpu_time_unsampled(&sum) >= UNSAMPLED_SHOWN_NS;
}

static void end(void *state) { samples_free(state); }

const report_section_t section_sample = {.name = "sample",
                                         .option = "--sample",
                                         .mode = RECORD_SAMPLES,
                                         .state_bytes = sizeof(samples_t),
                                         .event = add_event,
                                         .has_data = has_data,
                                         .text = print_text,
                                         .json = make_json,
                                         .end = end};
