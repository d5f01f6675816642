/* SPDX-License-Identifier: MIT
 *
 * Section `sample`: CPU time by function and stack.
 */
#include "analysis/samples.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/functions.h"
#include "report/json.h"
#include "report/table.h"
#include "report/tree.h"
#include "sonde/status.h"

#define UNSAMPLED_SHOWN_NS UINT64_C(50000000)
#define DELAYED_SHOWN      10u /* in a summary: one sample in so many */

static const column_t stack_columns[] = {
    {NULL, "share", UNIT_SHARE, FIELD(sample_stack_t, ticks)},
    {"samples", "samples", UNIT_COUNT, FIELD(sample_stack_t, ticks)},
    {"stack", "stack", UNIT_STACK, FIELD(sample_stack_t, stack)},
    {0}};

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
  return (table_t){TABLE(stack_columns, s->stacks, s->stack_count), .whole = s->ticks,
                   .summed = true};
}

/* The caller frees F in any case. False: out of memory. */
static bool count_functions(const report_t *r, const samples_t *s, function_sums_t *f) {
  f->whole = s->ticks;
  for (size_t i = 0; i < s->stack_count; i++)
    if (!functions_add(r, f, s->stacks[i].stack, s->stacks[i].ticks)) return false;
  return true;
}

static int print_functions(const report_t *r, const samples_t *s, FILE *out) {
  function_sums_t f = {0};
  bool good = count_functions(r, s, &f);
  if (good) functions_text(r, &f, "CPU time", out);
  functions_free(&f);
  return good ? 0 : SONDE_ENOMEM;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  samples_t *s = state;
  char a[24];
  samples_rank(s);
  fprintf(out, "\n%sCPU time%s%s%s%s\n", r->bold, r->plain, r->brief ? ", " : "\n  samples    ",
          report_count(s->ticks, a),
          !r->brief       ? ""
          : s->ticks == 1 ? " sample"
                          : " samples");
  if (s->missed && (!r->brief || s->missed * DELAYED_SHOWN > s->ticks))
    fprintf(out, "  delayed    %s sample%s, counted with the next sample of the thread\n",
            report_count(s->missed, a), s->missed == 1 ? "" : "s");
  report_cpu_time_text(r, out);
  if (!s->ticks) return 0;
  const completeness_t complete = completeness_of(r, s);
  report_completeness_text(r, &complete, "samples", out);
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
  function_sums_t f = {0};
  samples_rank(s);
  json_object *o = json_new_object();
  json_add_count(o, "samples", s->ticks);
  json_add_count(o, "missed", s->missed);
  json_object *time = report_cpu_time_json(r);
  if (time) json_add(o, "cpu_time", time);
  json_add_count(o, "complete", completeness_of(r, s).complete);
  if (r->tree) tree_add_json(r, fill_tree, s, o);
  bool good = count_functions(r, s, &f);
  const table_t stacks = stacks_of(s);
  if (good) json_add(o, "functions", functions_json(r, &f));
  json_add(o, "stacks", table_json(r, &stacks, r->top));
  functions_free(&f);
  return good ? o : NULL;
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
