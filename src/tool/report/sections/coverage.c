/* SPDX-License-Identifier: MIT */
#include "report/sections/coverage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wrap.h"
#include "report/findings.h"
#include "report/json.h"
#include "report/stacks/alike.h"
#include "sonde/status.h"

enum { BRIEF_ROWS = 3, WORDS_MAX = 2200 };

static const char *const class_words[COVERAGE_CLASSES] = {"",      "early",       "hooked",
                                                          "below", "unexplained", "own"};

/* No hook saw it. */
static bool is_unseen(const coverage_call_t *call) {
  return call->class == COVERAGE_BELOW || call->class == COVERAGE_UNEXPLAINED;
}

self_made_t coverage_self_made(const report_t *r, const audit_t *a) {
  self_made_t made = {0};
  for (size_t i = 0; i < a->coverage.count; i++) {
    const coverage_call_t *call = &a->coverage.calls[i];
    if (!finding_is_traced(r, call)) continue;
    made.calls += call->count;
    made.distinct++;
  }
  return made;
}

bool coverage_is_all(const report_t *r, const audit_t *a) {
  return !a->calls && !a->coverage.totals[COVERAGE_HOOKED] && coverage_self_made(r, a).calls;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Calls that say the same (findings_merge). */
typedef struct unseen {
  coverage_call_t call;
  char *words, *alike;               /* of the first one; ALIKE: without descriptors */
  bool varies;                       /* the others have other words */
  const policy_category_t *category; /* the most severe that matches; NULL: none */
} unseen_t;

static int by_severity(const void *left, const void *right) {
  const unseen_t *a = left, *b = right;
  int left_level = a->category ? (int)a->category->level : -1;
  int right_level = b->category ? (int)b->category->level : -1;
  if (left_level != right_level) return left_level > right_level ? -1 : 1;
  if (a->call.count != b->call.count) return a->call.count > b->call.count ? -1 : 1;
  return a->call.first < b->call.first ? -1 : a->call.first > b->call.first;
}

static void free_unseen(unseen_t *u) {
  free(u->words);
  free(u->alike);
}

static bool make_unseen(const audit_t *a, const coverage_call_t *call, unseen_t *out) {
  char words[WORDS_MAX], arguments[WORDS_MAX], alike[2 * WORDS_MAX];
  const policy_category_t *category = finding_category(a, call);
  audit_words_alike_of(call->call->name, a->machine, call->kinds, call->arguments,
                       call->arguments_size, arguments, sizeof arguments);
  snprintf(alike, sizeof alike, "%s(%s)", call->call->name, arguments);
  *out = (unseen_t){.call = *call,
                    .words = strdup(coverage_words(call, a->machine, words, sizeof words)),
                    .alike = strdup(alike),
                    .category = category};
  if (out->words && out->alike) return true;
  free_unseen(out);
  return false;
}

/* The row TO stands for ADDED as well, and takes its texts. */
static void merge_unseen(unseen_t *to, unseen_t *added) {
  to->call.count += added->call.count;
  if (added->call.class == COVERAGE_UNEXPLAINED) to->call.class = COVERAGE_UNEXPLAINED;
  call_results_add(&to->call.results, &added->call.results);
  to->varies |= strcmp(to->words, added->words) != 0;
  free_unseen(added);
}

static bool add_unseen(const report_t *r, const audit_t *a, const coverage_call_t *call,
                       alike_t *groups, unseen_t *rows, size_t *count) {
  size_t group;
  unseen_t added;
  if (!make_unseen(a, call, &added)) return false;
  if (!alike_add(groups, r, call->stack, added.alike, &group)) {
    free_unseen(&added);
    return false;
  }
  if (group < *count)
    merge_unseen(&rows[group], &added);
  else
    rows[(*count)++] = added;
  return true;
}

/* The program had no agent: each call was traced. */
static bool is_alone(const report_t *r) {
  return reader_header(r->reader)->mode & RECORD_FROM_OUTSIDE;
}

/* Without "hooks observed 0 %", which is no fault of the hooks. */
static void print_self_made(const report_t *r, const audit_t *a, FILE *out) {
  char early[24], own[24], below[24];
  const coverage_t *c = &a->coverage;
  uint64_t made = coverage_self_made(r, a).calls, others = coverage_possible(c) - made;
  fprintf(out, "\n%scoverage%s\n  system calls  %s made by the program itself", r->bold, r->plain,
          report_count(made, own));
  if (others) fprintf(out, ", %s by system libraries", report_count(others, below));
  if (c->totals[COVERAGE_EARLY])
    fprintf(out, ", %s before the agent started", report_count(c->totals[COVERAGE_EARLY], early));
  fputc('\n', out);
}

static void print_totals(const report_t *r, const audit_t *a, FILE *out) {
  const coverage_t *c = &a->coverage;
  char made[24], early[24], hooked[24], below[24], unexplained[24];
  if (is_alone(r)) {
    fprintf(out, "\n%ssystem calls%s\n  traced     %s of those that the policy's functions make\n",
            r->bold, r->plain, report_count(coverage_possible(c), made));
    return;
  }
  if (coverage_is_all(r, a)) {
    print_self_made(r, a, out);
    return;
  }
  fprintf(out, "\n%scoverage%s\n", r->bold, r->plain);
  wrap_format(
      out, (wrap_t){.indent = 16, .columns = r->columns},
      "  system calls  %s sensitive: %s before the agent started, %s observed by hooks, %s made "
      "below them, %s unexplained\n",
      report_count(coverage_possible(c) + c->totals[COVERAGE_EARLY], made),
      report_count(c->totals[COVERAGE_EARLY], early),
      report_count(c->totals[COVERAGE_HOOKED], hooked),
      report_count(c->totals[COVERAGE_BELOW], below),
      report_count(c->totals[COVERAGE_UNEXPLAINED], unexplained));
  fprintf(out, "  ratio         hooks observed %.1f %% of the calls since the agent started\n",
          100 * coverage_ratio(c));
}

static void print_limits(const coverage_t *c, FILE *out) {
  if (c->io_uring_ops)
    fprintf(out,
            "  io_uring      %" PRIu64 " rings and operations, whose opens, connections and sends "
            "cannot be observed\n",
            c->io_uring_ops);
  if (c->other_abi_calls)
    fprintf(out, "  other         %" PRIu64 " calls with another architecture's convention\n",
            c->other_abi_calls);
  if (c->unobserved_threads)
    fprintf(out, "  threads       the hooks of %" PRIu64 " threads could not be checked\n",
            c->unobserved_threads);
  if (c->detached)
    fprintf(out,
            "  detached      the program executed a file with more privileges, which cannot be "
            "observed\n");
  if (c->damaged)
    fprintf(out, "  damaged       %" PRIu64 " records cannot be decoded\n", c->damaged);
  if (!c->ended) fprintf(out, "  incomplete    the tracer did not finish; calls are missing\n");
}

static void print_unseen(const report_t *r, const unseen_t *u, FILE *out) {
  char count[24], result[160];
  const frame_name_t *site = frame_names_owner(r->names, u->call.stack);
  if (site && site->system) site = NULL;
  const char *style = u->category && u->category->match.count ? r->bold : r->dim;
  wrap_format(out, (wrap_t){.indent = 14, .columns = r->columns}, "  %8s ×  %s%s  %s%s%s%s%s%s%s%s",
              report_count(u->call.count, count), u->varies ? u->alike : u->words,
              audit_results_text(&u->call.results, AUDIT_INT_RESULT, result, sizeof result),
              r->bold, site ? site->library : "the system", r->plain, u->category ? "  " : "",
              u->category ? style : "", u->category ? u->category->id : "",
              u->category ? r->plain : "",
              u->call.class == COVERAGE_UNEXPLAINED ? "  (its stack is not complete)" : "");
  if (site && r->brief) report_site_text(r, site, out);
  if (!r->brief) report_stack_text(r, u->call.stack, out);
}

int coverage_text(const report_t *r, const audit_t *a, FILE *out) {
  const coverage_t *c = &a->coverage;
  if (!c->recorded) return 0;
  unseen_t *unseen = calloc(c->count + 1, sizeof *unseen);
  if (!unseen) return SONDE_ENOMEM;
  size_t count = 0, most = report_rows(r, BRIEF_ROWS);
  alike_t groups = {0};
  bool good = true;
  for (size_t i = 0; i < c->count && good; i++)
    if (is_unseen(&c->calls[i])) good = add_unseen(r, a, &c->calls[i], &groups, unseen, &count);
  alike_free(&groups);
  if (count) qsort(unseen, count, sizeof *unseen, by_severity);
  print_totals(r, a, out);
  print_limits(c, out);
  for (size_t i = 0; i < count && i < most; i++)
    print_unseen(r, &unseen[i], out);
  if (count > most) report_more(r, count - most, "distinct calls", out);
  for (size_t i = 0; i < count; i++)
    free_unseen(&unseen[i]);
  free(unseen);
  return good ? 0 : SONDE_ENOMEM;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

void coverage_results_json(const call_results_t *results, audit_result_t kind, json_object *row) {
  if (!results->succeeded && !results->failed) return;
  json_object *o = json_new_object(), *errors = json_new_array();
  json_add_count(o, "succeeded", results->succeeded);
  json_add_count(o, "failed", results->failed);
  if (results->succeeded && !results->varies && kind == AUDIT_INT_RESULT)
    json_add_number(o, "value", results->value);
  for (int i = 0; i < CALL_ERRORS_KEPT && results->errors[i].calls; i++) {
    json_object *error = json_new_object();
    const char *name = audit_error_name(results->errors[i].number, NULL);
    json_add_count(error, "errno", results->errors[i].number);
    if (name) json_add_text(error, "name", name);
    json_add_count(error, "calls", results->errors[i].calls);
    json_append(errors, error);
  }
  if (results->failed)
    json_add(o, "errors", errors);
  else
    json_object_put(errors);
  json_add(row, "results", o);
}

static json_object *call_json(const report_t *r, const audit_t *a, const coverage_call_t *call) {
  char words[WORDS_MAX];
  const policy_category_t *category = finding_category(a, call);
  json_object *o = json_new_object();
  json_add_text(o, "class", class_words[call->class]);
  json_add_text(o, "call", call->call->name);
  audit_words_of(call->call->name, a->machine, call->kinds, call->arguments, call->arguments_size,
                 words, sizeof words);
  json_add_text(o, "arguments", words);
  json_add_number(o, "calls", (int64_t)call->count);
  json_add_number(o, "first_ns", (int64_t)reader_ns(r->reader, call->first));
  json_add_number(o, "last_ns", (int64_t)reader_ns(r->reader, call->last));
  coverage_results_json(&call->results, AUDIT_INT_RESULT, o);
  if (call->function) json_add_text(o, "function", audit_function_name(a, call->function - 1));
  if (category) json_add_text(o, "category", category->id);
  if (call->stack) {
    const frame_name_t *site = frame_names_owner(r->names, call->stack);
    if (site && !site->system) json_add_text(o, "module", site->library);
    json_add(o, "frames", report_frames_json(r, call->stack, NULL));
  }
  return o;
}

json_object *coverage_json(const report_t *r, const audit_t *a) {
  const coverage_t *c = &a->coverage;
  json_object *o = json_new_object(), *calls = json_new_array();
  json_add_number(o, "possible", (int64_t)coverage_possible(c));
  for (int i = 1; i < COVERAGE_CLASSES; i++)
    json_add_number(o, class_words[i], (int64_t)c->totals[i]);
  json_add(o, "ratio", json_object_new_double(coverage_ratio(c)));
  json_add_number(o, "io_uring", (int64_t)c->io_uring_ops);
  json_add_number(o, "other_architecture", (int64_t)c->other_abi_calls);
  json_add_number(o, "unobserved_threads", (int64_t)c->unobserved_threads);
  json_add_flag(o, "detached", c->detached);
  json_add_flag(o, "complete", c->ended && !c->damaged);
  for (size_t i = 0; i < c->count; i++)
    json_append(calls, call_json(r, a, &c->calls[i]));
  json_add(o, "system_calls", calls);
  return o;
}
