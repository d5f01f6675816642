/* SPDX-License-Identifier: MIT
 *
 * Section `audit`: audited calls by category, most severe first, each with the code that made it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/wrap.h"
#include "image/path.h"
#include "report/sections/analyses.h"
#include "report/sections/coverage.h"
#include "report/findings.h"
#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 3 };

/* Calls of the last program arrive as events of the common pass. Calls of earlier programs (exec)
 * are read afterwards, on first use. */
typedef struct section_state {
  audit_t *audit;
  audited_t all;
  int status; /* of reading them */
  bool opened;
} section_state_t;

static void *start(const report_t *r) {
  section_state_t *s = calloc(1, sizeof *s);
  if (s) s->audit = audit_new(r->reader);
  if (s && s->audit) return s;
  free(s);
  return NULL;
}

static bool add_event(void *state, const record_event_t *event) {
  return audit_add(((section_state_t *)state)->audit, event);
}

static const audited_t *all_of(const report_t *r, section_state_t *s) {
  if (!s->opened) s->status = audited_open(&s->all, r, s->audit);
  s->opened = true;
  for (size_t i = 0; i < s->all.count; i++)
    s->all.programs[i].report.brief_rows = r->brief_rows; /* tried until the summary fits */
  return &s->all;
}

const audited_t *section_audit_programs(const report_t *r, void *state) {
  const audited_t *all = all_of(r, state);
  return ((section_state_t *)state)->status == 0 ? all : NULL;
}

static bool has_data(const report_t *r, void *state) { return audited_has_data(all_of(r, state)); }

static void end(void *state) {
  section_state_t *s = state;
  audited_close(&s->all);
  audit_free(s->audit);
  free(s);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* The number of functions that no image has, so they were not hooked. */
static uint32_t absent_functions(const audit_t *a) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < a->flat->function_count; i++)
    count += !a->reached[i];
  return count;
}

/* A static program has no system library. */
static bool is_static(const reader_t *reader) {
  size_t count;
  const record_image_t *images = reader_images(reader, &count);
  for (size_t i = 0; i < count; i++)
    if (images[i].path[0] == '/' && path_is_system(images[i].path, NULL)) return false;
  return count > 0;
}

/* Of a program whose system calls were traced, since it calls no function with a hook. */
static void print_traced(const audited_program_t *p, bool is_alone, FILE *out) {
  char text[24];
  const self_made_t made = coverage_self_made(&p->report, p->audit);
  const char *why = !is_alone ? "the program makes them itself and called no hooked function"
                    : is_static(p->report.reader)
                        ? "the program is statically linked, so no function was hooked"
                        : "the program has no agent, so no function was hooked";
  wrap_format(
      out, (wrap_t){.indent = 13, .columns = p->report.columns},
      "  calls      %s system call%s with %zu distinct stacks or arguments, seen by tracing; "
      "%s",
      report_count(made.calls, text), report_plural(made.calls), made.distinct, why);
}

static void print_program(const audited_program_t *p, FILE *out) {
  char text[24];
  const audit_t *a = p->audit;
  if (!a->policy) {
    fprintf(out, "  the recording has no valid policy; %s calls\n", report_count(a->calls, text));
    return;
  }
  bool is_alone = reader_header(p->report.reader)->mode & RECORD_FROM_OUTSIDE;
  if (a->coverage.recorded && (is_alone || coverage_is_all(&p->report, a)))
    print_traced(p, is_alone, out);
  else
    fprintf(out, "  calls      %s, with %zu distinct stacks or arguments\n",
            report_count(a->calls, text), a->count);
  if (is_alone && a->coverage.recorded) return;
  if (!report_is_tight(&p->report))
    fprintf(out,
            "  functions  %" PRIu32 " audited; %" PRIu32
            " others are in no library of the program\n",
            a->flat->function_count - absent_functions(a), absent_functions(a));
  uint32_t depth = audit_depth(a->flat);
  if (depth)
    fprintf(out, "  depth      %" PRIu32 " innermost %s of each stack %s recorded\n", depth,
            depth == 1 ? "frame" : "frames", depth == 1 ? "was" : "were");
  if (a->damaged) fprintf(out, "  damaged    %" PRIu64 " calls cannot be decoded\n", a->damaged);
}

static void print_head(const report_t *r, const audited_t *all, FILE *out) {
  fprintf(out, "\n%saudit%s\n", r->bold, r->plain);
  if (all->left_out)
    fprintf(out, "  omitted    the first %" PRIu32 " programs; '--program N' reports one\n",
            all->left_out);
  for (size_t i = 0; i < all->count; i++) {
    const audited_program_t *p = &all->programs[i];
    if (all->count > 1) report_program_text(&p->report, out);
    print_program(p, out);
  }
}

static void print_category(const report_t *r, const finding_row_t *row, FILE *out) {
  fprintf(out, "%s%s%s%s  %s, %s\n", report_is_tight(r) ? "" : "\n", r->bold, row->category->id,
          r->plain, policy_level_word(row->category->level), row->category->title);
}

static void print_row(const report_t *of, const finding_row_t *row, FILE *out) {
  char count[24], result[160];
  const report_t *r = &row->by->report;
  bool earlier = r->reader != of->reader;
  audit_results_text(&row->sighting->results, audit_result_of(finding_function(row)), result,
                     sizeof result);
  wrap_format(out, (wrap_t){.indent = 14, .columns = of->columns}, "  %8s ×  %s(%s)%s  %s%s%s",
              report_count(row->sighting->count, count), finding_function(row), row->arguments,
              result, r->bold, row->owner, r->plain);
  if (earlier) fprintf(out, "      in program %" PRIu32 "\n", reader_program(r->reader));
  if (row->too_early)
    fprintf(out, "      %sbefore the phase '%s'%s\n", r->bold, row->too_early, r->plain);
  if (row->site && r->brief) report_site_text(r, row->site, out);
  if (!r->brief) report_stack_text(r, row->sighting->stack, out);
}

/* Prints the rows of one category, from FIRST; returns the index after them. */
static size_t print_rows(const report_t *r, const findings_t *f, size_t first, FILE *out) {
  size_t shown = 0, most = report_rows(r, BRIEF_ROWS), i = first;
  print_category(r, &f->rows[first], out);
  for (; i < f->count && finding_same_category(&f->rows[i], &f->rows[first]) && !f->rows[i].allowed;
       i++)
    if (shown++ < most) print_row(r, &f->rows[i], out);
  if (shown > most) report_more(r, shown - most, "distinct calls", out);
  return i;
}

static void print_allowed(const audited_program_t *by, const findings_t *f, size_t first,
                          FILE *out) {
  const report_t *r = &by->report;
  const policy_t *policy = by->audit->policy;
  for (size_t k = 0; policy && k < policy->allowance_count; k++) {
    const policy_allowance_t *allowance = &policy->allowances[k];
    uint64_t calls = 0;
    char count[24];
    for (size_t i = first; i < f->count; i++)
      if (f->rows[i].allowed == allowance) calls += f->rows[i].sighting->count;
    if (calls)
      fprintf(out, "  %8s ×  %s: %s%s%s\n", report_count(calls, count), allowance->category, r->dim,
              allowance->reason, r->plain);
  }
}

static void print_limits(const report_t *r, const audit_t *a, FILE *out) {
  for (size_t i = 0; i < a->policy->limit_count; i++) {
    const policy_limit_t *limit = &a->policy->limits[i];
    const limit_state_t *state = &a->limits[i];
    if (state->exceeded)
      fprintf(out,
              "\n%sover the limit%s  %s: %" PRIu64 " calls exceeded %" PRIu64
              " in %.3g s, the first after %.3f s\n",
              r->bold, r->plain, limit->category, state->exceeded, limit->calls,
              (double)limit->window_ns / 1e9, (double)reader_ns(a->reader, state->first) / 1e9);
  }
}

/* Limits and coverage of one program. */
static int print_rest(const audited_t *all, const audited_program_t *p, FILE *out) {
  bool watched = p->audit->coverage.recorded;
  if (p->audit->policy) print_limits(&p->report, p->audit, out);
  if (watched && all->count > 1)
    fprintf(out, "\n  of program %" PRIu32, reader_program(p->report.reader));
  return coverage_text(&p->report, p->audit, out);
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const audited_t *all = all_of(r, state);
  findings_t f = {0};
  int status = ((section_state_t *)state)->status;
  if (status == 0) status = findings_make(&f, all, true); /* traced calls are in the coverage */
  print_head(r, all, out);
  completeness_t complete = {0};
  for (size_t k = 0; status == 0 && k < f.count; k++)
    report_add_stack(&f.rows[k].by->report, &complete, f.rows[k].sighting->stack, 1);
  report_completeness_text(r, &complete, "the findings", out);
  if (status == 0) status = findings_merge(&f);
  size_t i = 0;
  while (status == 0 && i < f.count && !f.rows[i].allowed)
    i = print_rows(r, &f, i, out);
  if (status == 0 && i < f.count) fprintf(out, "\n%sallowed%s\n", r->bold, r->plain);
  for (size_t k = 0; status == 0 && i < f.count && k < all->count; k++)
    print_allowed(&all->programs[k], &f, i, out);
  for (size_t k = 0; status == 0 && k < all->count; k++)
    status = print_rest(all, &all->programs[k], out);
  findings_free(&f);
  return status;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_object *row_json(const audited_t *all, const finding_row_t *row) {
  char fingerprint[17];
  const report_t *r = &row->by->report;
  const record_thread_t *thread = reader_thread(r->reader, row->sighting->stream);
  json_object *o = json_new_object();
  snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, row->fingerprint);
  finding_add_json(row, o);
  if (row->site) json_add_text(o, "module", row->site->library);
  if (row->traced) json_add_flag(o, "traced", true);
  json_add_number(o, "calls", (int64_t)row->sighting->count);
  json_add_number(o, "first_ns", (int64_t)reader_ns(r->reader, row->sighting->first));
  json_add_number(o, "last_ns", (int64_t)reader_ns(r->reader, row->sighting->last));
  coverage_results_json(&row->sighting->results, audit_result_of(finding_function(row)), o);
  if (thread) json_add_number(o, "tid", thread->tid);
  if (row->allowed) json_add_text(o, "allowed", row->allowed->reason);
  if (row->too_early) json_add_text(o, "too_early", row->too_early);
  if (all->count > 1) json_add_number(o, "program", reader_program(r->reader));
  json_add_text(o, "fingerprint", fingerprint);
  json_add(o, "frames", report_frames_json(r, row->sighting->stack, NULL));
  return o;
}

static json_object *limits_json(const audit_t *a) {
  json_object *list = json_new_array();
  for (size_t i = 0; i < a->policy->limit_count; i++) {
    json_object *o = json_new_object();
    json_add_text(o, "category", a->policy->limits[i].category);
    json_add_number(o, "calls", (int64_t)a->policy->limits[i].calls);
    json_add_number(o, "window_ns", (int64_t)a->policy->limits[i].window_ns);
    json_add_number(o, "exceeded", (int64_t)a->limits[i].exceeded);
    json_append(list, o);
  }
  return list;
}

static json_object *absent_json(const audit_t *a) {
  json_object *list = json_new_array();
  for (uint32_t i = 0; i < a->flat->function_count; i++)
    if (!a->reached[i]) json_append(list, json_new_text(audit_function_name(a, i)));
  return list;
}

/* Limits, absent functions and coverage of one program. */
static void add_rest(const audited_program_t *p, json_object *o) {
  const audit_t *a = p->audit;
  if (a->coverage.recorded) json_add(o, "coverage", coverage_json(&p->report, a));
  if (!a->policy) return;
  json_add(o, "limits", limits_json(a));
  json_add(o, "not_present", absent_json(a));
}

static json_object *programs_json(const audited_t *all) {
  json_object *list = json_new_array();
  for (size_t i = 0; i < all->count; i++) {
    const audited_program_t *p = &all->programs[i];
    json_object *o = json_new_object();
    json_add_number(o, "program", reader_program(p->report.reader));
    report_program_json(&p->report, o);
    json_add_number(o, "calls", (int64_t)p->audit->calls);
    json_add_number(o, "damaged", (int64_t)p->audit->damaged);
    add_rest(p, o);
    json_append(list, o);
  }
  return list;
}

static json_object *make_json(const report_t *r, void *state) {
  const audited_t *all = all_of(r, state);
  findings_t f = {0};
  json_object *o = NULL;
  if (((section_state_t *)state)->status == 0 && findings_make(&f, all, false) == 0) {
    json_object *rows = json_new_array();
    uint64_t damaged = 0;
    for (size_t i = 0; i < all->count; i++)
      damaged += all->programs[i].audit->damaged;
    o = json_new_object();
    json_add_number(o, "calls", (int64_t)audited_calls(all));
    json_add_number(o, "damaged", (int64_t)damaged);
    for (size_t i = 0, of_category = 0; i < f.count; i++) {
      of_category = i && finding_same_category(&f.rows[i], &f.rows[i - 1]) ? of_category + 1 : 0;
      if (r->all || !r->top_given || of_category < r->top)
        json_append(rows, row_json(all, &f.rows[i]));
    }
    json_add(o, "findings", rows);
    add_rest(&all->programs[all->count - 1], o);
    if (all->count > 1) json_add(o, "programs", programs_json(all));
    if (all->left_out) json_add_number(o, "programs_left_out", all->left_out);
  }
  findings_free(&f);
  return o;
}

const report_section_t section_audit = {.name = "audit",
                                        .option = "--audit",
                                        .mode = RECORD_AUDIT,
                                        .start = start,
                                        .event = add_event,
                                        .has_data = has_data,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
