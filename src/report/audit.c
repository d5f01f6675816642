/* SPDX-License-Identifier: MIT
 *
 * The audited calls of a recording: by category, the gravest first, each with who did it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "report/coverage.h"
#include "report/findings.h"
#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 3 };

static void *audit_section_start(const report_t *r) { return audit_new(r->reader); }

static bool audit_section_event(void *state, const record_event_t *event) {
  return audit_add(state, event);
}

static bool audit_section_holds(const report_t *r, void *state) {
  (void)r;
  return audit_holds(state);
}

static void audit_section_end(void *state) { audit_free(state); }

/* ---- text ----------------------------------------------------------------------------------- */

/* Functions that no image has ever had: they could not be hooked. */
static uint32_t not_reached(const audit_t *a) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < a->flat->function_count; i++)
    count += !a->reached[i];
  return count;
}

static void print_head(const report_t *r, const audit_t *a, FILE *out) {
  char text[24];
  fprintf(out, "\n%saudit%s\n", r->bold, r->plain);
  if (!a->policy) {
    fprintf(out, "  the policy is missing from this recording, or damaged: %s calls\n",
            report_count(a->calls, text));
    return;
  }
  fprintf(out, "  calls      %s, %zu of different stack or arguments\n",
          report_count(a->calls, text), a->count);
  fprintf(out,
          "  functions  %" PRIu32 " audited; %" PRIu32 " more are in no library of this program\n",
          a->flat->function_count - not_reached(a), not_reached(a));
  if (a->damaged) fprintf(out, "  damaged    %" PRIu64 " calls are not understood\n", a->damaged);
}

static void print_category(const report_t *r, const finding_row_t *row, FILE *out) {
  fprintf(out, "\n%s%s%s  %s, %s\n", r->bold, row->category->id, r->plain,
          policy_level_word(row->category->level), row->category->title);
}

static void print_row(const report_t *r, const audit_t *a, const finding_row_t *row, FILE *out) {
  char count[24];
  fprintf(out, "  %8s ×  %s(%s)  %s%s%s\n", report_count(row->sighting->count, count),
          audit_function_name(a, row->sighting->function), row->arguments, r->bold, row->owner,
          r->plain);
  if (row->too_early)
    fprintf(out, "      %sbefore the phase '%s'%s\n", r->bold, row->too_early, r->plain);
  if (row->site && r->brief) fprintf(out, "      %s%s%s\n", r->dim, row->site->function, r->plain);
  if (!r->brief) report_stack_text(r, row->sighting->stack, out);
}

/* The rows from FIRST on that are of one category; returns the row behind them. */
static size_t print_rows(const report_t *r, const audit_t *a, const findings_t *f, size_t first,
                         FILE *out) {
  const policy_category_t *category = f->rows[first].category;
  size_t shown = 0, most = r->brief ? BRIEF_ROWS : r->top, i = first;
  print_category(r, &f->rows[first], out);
  for (; i < f->count && f->rows[i].category == category && !f->rows[i].allowed; i++)
    if (shown++ < most) print_row(r, a, &f->rows[i], out);
  if (shown > most) fprintf(out, "      … %zu more\n", shown - most);
  return i;
}

static void print_allowed(const report_t *r, const audit_t *a, const findings_t *f, size_t first,
                          FILE *out) {
  for (size_t k = 0; k < a->policy->allowance_count; k++) {
    const policy_allowance_t *allowance = &a->policy->allowances[k];
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
              "\n%stoo often%s  %s: %" PRIu64 " calls were more than %" PRIu64
              " within %.3g s, the first after %.3f s\n",
              r->bold, r->plain, limit->category, state->exceeded, limit->calls,
              (double)limit->window_ns / 1e9, (double)reader_ns(a->reader, state->first) / 1e9);
  }
}

static int audit_section_text(const report_t *r, void *state, FILE *out) {
  const audit_t *a = state;
  findings_t f;
  int status = findings_make(&f, a, r->names);
  print_head(r, a, out);
  size_t i = 0;
  while (status == 0 && i < f.count && !f.rows[i].allowed)
    i = print_rows(r, a, &f, i, out);
  if (status == 0 && i < f.count) {
    fprintf(out, "\n%sallowed%s\n", r->bold, r->plain);
    print_allowed(r, a, &f, i, out);
  }
  if (a->policy) print_limits(r, a, out);
  if (status == 0) status = coverage_text(r, a, out);
  findings_free(&f);
  return status;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_object *of_row(const report_t *r, const audit_t *a, const finding_row_t *row) {
  char fingerprint[17];
  const record_thread_t *thread = reader_thread(r->reader, row->sighting->stream);
  json_object *o = json_object_new_object();
  snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, row->fingerprint);
  json_add_text(o, "category", row->category->id);
  json_add_text(o, "level", policy_level_word(row->category->level));
  json_add_text(o, "function", audit_function_name(a, row->sighting->function));
  json_add_text(o, "arguments", row->arguments);
  json_add_text(o, "owner", row->owner);
  if (row->site) json_add_text(o, "module", row->site->library);
  json_add_number(o, "calls", (int64_t)row->sighting->count);
  json_add_number(o, "first_ns", (int64_t)reader_ns(r->reader, row->sighting->first));
  json_add_number(o, "last_ns", (int64_t)reader_ns(r->reader, row->sighting->last));
  if (thread) json_add_number(o, "tid", thread->tid);
  if (row->allowed) json_add_text(o, "allowed", row->allowed->reason);
  if (row->too_early) json_add_text(o, "too_early", row->too_early);
  json_add_text(o, "fingerprint", fingerprint);
  json_object_object_add(o, "frames", report_frames_json(r, row->sighting->stack, NULL));
  return o;
}

static json_object *of_limits(const audit_t *a) {
  json_object *list = json_object_new_array();
  for (size_t i = 0; i < a->policy->limit_count; i++) {
    json_object *o = json_object_new_object();
    json_add_text(o, "category", a->policy->limits[i].category);
    json_add_number(o, "calls", (int64_t)a->policy->limits[i].calls);
    json_add_number(o, "window_ns", (int64_t)a->policy->limits[i].window_ns);
    json_add_number(o, "exceeded", (int64_t)a->limits[i].exceeded);
    json_object_array_add(list, o);
  }
  return list;
}

static json_object *of_missing(const audit_t *a) {
  json_object *list = json_object_new_array();
  for (uint32_t i = 0; i < a->flat->function_count; i++)
    if (!a->reached[i]) json_object_array_add(list, json_new_text(audit_function_name(a, i)));
  return list;
}

static json_object *audit_section_json(const report_t *r, void *state) {
  const audit_t *a = state;
  findings_t f;
  json_object *o = NULL;
  if (findings_make(&f, a, r->names) == 0) {
    json_object *rows = json_object_new_array();
    o = json_object_new_object();
    json_add_number(o, "calls", (int64_t)a->calls);
    json_add_number(o, "damaged", (int64_t)a->damaged);
    for (size_t i = 0; i < f.count; i++)
      json_object_array_add(rows, of_row(r, a, &f.rows[i]));
    json_object_object_add(o, "findings", rows);
    if (a->coverage.watched) json_object_object_add(o, "coverage", coverage_json(r, a));
    if (a->policy) {
      json_object_object_add(o, "limits", of_limits(a));
      json_object_object_add(o, "not_present", of_missing(a));
    }
  }
  findings_free(&f);
  return o;
}

const section_t section_audit = {.name = "audit",
                                 .option = "--audit",
                                 .mode = RECORD_AUDIT,
                                 .start = audit_section_start,
                                 .event = audit_section_event,
                                 .holds = audit_section_holds,
                                 .text = audit_section_text,
                                 .json = audit_section_json,
                                 .end = audit_section_end};
