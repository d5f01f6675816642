/* SPDX-License-Identifier: MIT */
#include "store/session_facts.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/audit/audit.h"
#include "analysis/cpu_time.h"
#include "analysis/crash.h"
#include "analysis/crash_blocks.h"
#include "analysis/malloc/replay.h"
#include "analysis/samples.h"
#include "analysis/stalls.h"
#include "analysis/summary/summary.h"
#include "analysis/trace.h"
#include "analysis/wall.h"
#include "base/portions.h"
#include "report/crash.h"
#include "report/findings.h"
#include "sonde/status.h"

typedef struct collector {
  reader_t *reader;
  const char *path;
  content_t *content;
  fact_list_t *facts;
  samples_t samples;
  stalls_t stalls;
  wall_t wall;
  crash_t crash;
  cpu_time_t cpu_time;
  audit_t *audit;
  replay_t replay;
  uint64_t events;
} collector_t;

/* ---- the pass ----------------------------------------------------------------------------- */

static bool add_event(void *context, const record_event_t *e) {
  collector_t *k = context;
  k->events++;
  if (e->kind == EVENT_SAMPLE) return samples_add(&k->samples, e);
  return cpu_time_add(&k->cpu_time, e) && stalls_add(&k->stalls, e) && wall_add(&k->wall, e) &&
         crash_add(&k->crash, e) && audit_add(k->audit, e);
}

static bool add_fact(collector_t *k, uint32_t stack, fact_t fact) {
  return content_stack(k->content, stack, &fact.stack) && fact_list_add(k->facts, &fact);
}

/* The same with a cause. */
static bool add_caused(collector_t *k, uint32_t stack, fact_t fact, content_cause_t cause) {
  cause.measure = fact.measure;
  return content_cause(k->content, &cause, &fact.cause) && add_fact(k, stack, fact);
}

/* ---- measures ----------------------------------------------------------------------------- */

/* The CPU time of all samples, as the kernel counts it, is divided among them. */
static bool add_samples(collector_t *k) {
  const samples_t *s = &k->samples;
  portions_t times = {.amount = cpu_time_sum(&k->cpu_time).sampled_ns, .counts = s->ticks};
  for (size_t i = 0; i < s->stack_count; i++) {
    const sample_stack_t *stack = &s->stacks[i];
    const fact_t fact = {.measure = MEASURED_samples,
                         .count = stack->ticks,
                         .amount = portions_next(&times, stack->ticks)};
    if (!add_fact(k, stack->stack, fact)) return false;
  }
  return true;
}

static int by_stack(const void *left, const void *right) {
  const stall_sample_t *a = left, *b = right;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* The stack that represents most of the stall's time; 0: none. Reorders the samples. */
static uint32_t main_stack(stall_t *stall) {
  uint32_t stack = 0;
  uint64_t most = 0, sum = 0;
  if (stall->sample_count)
    qsort(stall->samples, stall->sample_count, sizeof *stall->samples, by_stack);
  for (size_t i = 0; i < stall->sample_count; i++) {
    const stall_sample_t *s = &stall->samples[i];
    sum = i && s->stack == s[-1].stack ? sum + s->weight_ns : s->weight_ns;
    if (!s->stack || (stack && sum <= most)) continue;
    stack = s->stack;
    most = sum;
  }
  return stack;
}

static bool add_stalls(collector_t *k) {
  stalls_finish(&k->stalls, k->reader);
  for (size_t i = 0; i < k->stalls.count; i++) {
    stall_t *s = &k->stalls.items[i];
    const fact_t fact = {
        .measure = MEASURED_stalls, .count = 1, .amount = s->length_ns, .extras = {s->length_ns}};
    const content_cause_t cause = {
        .name = stall_label_key(s->label), .category = "", .owner = "", .level = ""};
    if (!add_caused(k, main_stack(s), fact, cause)) return false;
  }
  return true;
}

/* Places of blocked threads; those on a CPU are samples. */
static bool add_waits(collector_t *k) {
  if (!k->wall.recorded) return true;
  if (!wall_rank(&k->wall)) return false;
  for (size_t i = 0; i < k->wall.places.count; i++) {
    const wall_place_t *p = &k->wall.places.items[i];
    if (!p->call) continue;
    const fact_t fact = {.measure = MEASURED_waits, .count = p->samples, .amount = p->ns};
    const content_cause_t cause = {.name = p->call, .category = "", .owner = "", .level = ""};
    if (!add_caused(k, p->stack, fact, cause)) return false;
  }
  return true;
}

static bool add_blocks(collector_t *k) {
  for (size_t i = 0; i < k->replay.stack_count; i++) {
    const stack_totals_t *s = &k->replay.stacks[i];
    const fact_t allocated = {.measure = MEASURED_allocations,
                              .count = s->allocated.count,
                              .amount = s->allocated.bytes,
                              .extras = {s->at_peak.bytes, s->temporary}};
    const fact_t leaked = {
        .measure = MEASURED_leaks, .count = s->live.count, .amount = s->live.bytes};
    if ((allocated.count || allocated.extras[0]) && !add_fact(k, s->stack, allocated)) return false;
    if (leaked.count && !add_fact(k, s->stack, leaked)) return false;
  }
  return true;
}

/* The path of a node of the call tree, innermost first. */
static int path_of(const collector_t *k, const trace_t *trace, uint32_t node,
                   const record_frame_t **frames, int max) {
  int count = 0;
  for (; node && count < max; node = trace->nodes[node].parent) {
    const record_frame_t *f = reader_frame(k->reader, trace->nodes[node].frame);
    if (f) frames[count++] = f;
  }
  return count;
}

static bool add_call_path(collector_t *k, const trace_t *trace, uint32_t node) {
  enum { DEPTH_MAX = 4096 };
  static const record_frame_t *frames[DEPTH_MAX];
  const trace_times_t *t = &trace->nodes[node].times;
  fact_t fact = {.measure = MEASURED_calls,
                 .count = t->calls,
                 .amount = (uint64_t)t->self_ns,
                 .extras = {(uint64_t)t->total_ns, (uint64_t)t->max_ns}};
  int count = path_of(k, trace, node, frames, DEPTH_MAX);
  return content_frames(k->content, frames, count, &fact.stack) && fact_list_add(k->facts, &fact);
}

static bool add_calls(collector_t *k) {
  if (!calls_bytes(k->reader)) return true;
  trace_t trace;
  const trace_filter_t filter = {.net = true};
  if (trace_run(&trace, k->reader, &filter) < 0) return false;
  bool good = true;
  k->events += trace.calls;
  for (uint32_t node = 1; good && node < trace.node_count; node++)
    good = !trace.nodes[node].times.calls || add_call_path(k, &trace, node);
  trace_free(&trace);
  return good;
}

/* ---- what needs names --------------------------------------------------------------------- */

static const char *verdict_of(const finding_row_t *row) {
  if (row->too_early) return "too-early";
  return row->allowed ? "allowed" : policy_level_word(row->category->level);
}

/* Arguments stay out of the store. */
static bool add_findings(collector_t *k, const findings_t *found) {
  for (size_t i = 0; i < found->count; i++) {
    const finding_row_t *row = &found->rows[i];
    const fact_t fact = {.measure = MEASURED_audit, .count = 1, .amount = row->sighting->count};
    const content_cause_t cause = {.name = finding_function(row),
                                   .category = row->category->id,
                                   .owner = row->owner,
                                   .level = verdict_of(row)};
    if (!add_caused(k, row->sighting->stack, fact, cause)) return false;
  }
  return true;
}

static bool add_audit(collector_t *k, const report_t *report) {
  audited_program_t program = {.report = *report, .audit = k->audit};
  const audited_t audited = {.programs = &program, .count = 1};
  findings_t found;
  bool good = findings_make(&found, &audited, false) == 0 && add_findings(k, &found);
  findings_free(&found);
  return good;
}

static bool add_crash(collector_t *k, const report_t *report) {
  crash_pointers_t pointers;
  if (!k->crash.number) return true;
  if (crash_pointers_find(k->reader, &k->crash, &pointers) < 0) return false;
  const fact_t fact = {.measure = MEASURED_crashes, .count = 1, .amount = 1};
  const content_cause_t cause = {
      .name = crash_kind_key(report_crash_kind(report, &k->crash, &pointers)),
      .category = report_signal_name(k->crash.number),
      .owner = "",
      .level = ""};
  return add_caused(k, k->crash.crashed.stack, fact, cause);
}

static bool add_named(collector_t *k) {
  if (!k->crash.number && !audit_has_data(k->audit)) return true;
  const report_t report = {.path = k->path,
                           .reader = k->reader,
                           .replay = &k->replay,
                           .names = frame_names_new(k->reader, NULL)};
  bool good = report.names && add_audit(k, &report) && add_crash(k, &report);
  frame_names_free(report.names);
  return good;
}

/* ---- all ---------------------------------------------------------------------------------- */

/* What a session did not record is unknown, not zero. Every session records crashes. */
static uint64_t measured_by(const collector_t *k) {
  static const uint32_t modes[STORE_MEASURES] = {[MEASURED_samples] = RECORD_SAMPLES,
                                                 [MEASURED_stalls] = RECORD_STALLS,
                                                 [MEASURED_allocations] = RECORD_ANY_BLOCKS,
                                                 [MEASURED_leaks] = RECORD_ANY_BLOCKS,
                                                 [MEASURED_calls] = RECORD_CALLS,
                                                 [MEASURED_audit] = RECORD_AUDIT};
  uint64_t measured = 1u << MEASURED_crashes | (uint64_t)k->wall.recorded << MEASURED_waits;
  uint32_t mode = reader_header(k->reader)->mode;
  for (int i = 0; i < STORE_MEASURES; i++)
    if (mode & modes[i]) measured |= 1u << i;
  for (size_t i = 0; i < k->facts->list.count; i++)
    measured |= 1u << k->facts->list.items[i].measure;
  const uint64_t summarized =
      1u << MEASURED_samples | 1u << MEASURED_allocations | 1u << MEASURED_leaks;
  return is_summary(k->reader) ? measured & summarized : measured;
}

static void set_sums(const collector_t *k, session_sums_t *sums) {
  *sums = (session_sums_t){.events = k->events + k->replay.events,
                           .threads = cpu_time_threads(&k->cpu_time, k->reader),
                           .cpu_ns = cpu_time_sum(&k->cpu_time).cpu_ns,
                           .peak_bytes = k->replay.at_peak.bytes,
                           .measured = measured_by(k)};
}

static void end(collector_t *k) {
  samples_free(&k->samples);
  stalls_free(&k->stalls);
  wall_free(&k->wall);
  crash_free(&k->crash);
  cpu_time_free(&k->cpu_time);
  audit_free(k->audit);
}

int session_collect(reader_t *reader, const char *path, content_t *content, fact_list_t *facts,
                    session_sums_t *sums) {
  collector_t k = {.reader = reader,
                   .path = path,
                   .content = content,
                   .facts = facts,
                   .wall = {.reader = reader},
                   .audit = audit_new(reader)};
  const replay_options_t options = {.other = add_event, .other_context = &k};
  int status = k.audit ? replay_run(&k.replay, reader, &options) : SONDE_ENOMEM;
  if (status == 0) {
    bool good = add_samples(&k) && add_stalls(&k) && add_waits(&k) && add_blocks(&k) &&
                add_calls(&k) && add_named(&k);
    if (!good) status = SONDE_EIO;
    set_sums(&k, sums);
    replay_free(&k.replay);
  }
  end(&k);
  return status;
}
