/* SPDX-License-Identifier: MIT
 *
 * sonde diff: compares two recordings; with --max-growth or audits, a gate for continuous
 * integration.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/samples.h"
#include "analysis/usage.h"
#include "cli/common/audit_recording.h"
#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/pager.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "report/diff.h"
#include "report/json.h"

enum { KEY_BY = CLI_LONG_ONLY, KEY_TOP, KEY_JSON, KEY_MAX_GROWTH, KEY_FULL_NAMES, KEY_MARKDOWN };

static const cli_option_t options[] = {
    {KEY_BY, "by", "WHAT:peak|leaked|allocated|temporary|sample|audit",
     "compare peak, leaked, allocated, temporary, sample (CPU time) or audit (exit 1 if there are "
     "new sensitive calls).\nDefault: audit if OLD is a baseline or both recordings have only an "
     "audit; else peak"},
    {KEY_MAX_GROWTH, "max-growth", "LIMIT",
     "exit 1 if the total grew by more than LIMIT: 5%, or 10M bytes; with --by temporary or "
     "sample, 5% or a number of calls or samples"},
    {KEY_TOP, "top", "N",
     "show N functions and stacks (default 10), or N new sensitive calls (default: all)"},
    NAMING_FULL_NAMES_OPTION(KEY_FULL_NAMES),
    {KEY_MARKDOWN, "markdown", NULL, "print a Markdown table, for a pull request"},
    {KEY_JSON, "json", NULL, "print JSON (docs/json.md)"},
    PAGER_OPTION,
    NAMING_FILE_OPTIONS,
    NAMING_APP_OPTIONS,
    {0}};

static const cli_usage_t usage = {
    .verb = "diff",
    .arguments = "OLD NEW",
    .about = "Shows what changed between two recordings of a program, by function and by stack. "
             "Stacks are compared by function names, so addresses and builds may differ. OLD "
             "may be a baseline written by 'sonde audit baseline'.",
    .options = options,
    .examples = {
        {"sonde diff before.sonde after.sonde", "what changed at the peak"},
        {"sonde diff --by leaked --max-growth 0 before.sonde after.sonde", "fail if leaks grew"},
        {"sonde diff --markdown before.sonde after.sonde", "print a table for a pull request"},
        {"sonde diff known.json new.sonde", "fail if a build makes new sensitive calls"}}};

/* One of the two recordings. */
typedef struct side {
  report_t report;
  replay_t replay;
  samples_t samples;
  usage_t usage;
} side_t;

typedef struct request {
  naming_t naming;
  measure_t measure;                                 /* MEASURE_COUNT: samples */
  bool json, markdown, gate, percent, audit, chosen; /* chosen: with --by */
  bool full_names;
  double limit;
  uint32_t top;
  size_t audit_rows; /* a gate names all new calls unless fewer are asked for */
} request_t;

static bool by_samples(const request_t *a) { return a->measure == MEASURE_COUNT; }
static bool in_bytes(const request_t *a) { return a->measure < MEASURE_TEMPORARY; }

static const char *name_of(const request_t *a) {
  return by_samples(a) ? "sample" : measure_name(a->measure);
}

/* ---- reading ------------------------------------------------------------------------------ */

static bool add_event(void *side, const record_event_t *e) {
  side_t *s = side;
  if (e->kind == EVENT_SAMPLE) return samples_add(&s->samples, e);
  return usage_add(&s->usage, s->report.reader, e);
}

static void close_side(side_t *s) {
  frame_names_free(s->report.names);
  replay_free(&s->replay);
  samples_free(&s->samples);
  usage_free(&s->usage);
  reader_close(s->report.reader);
}

static int open_side(side_t *s, const char *path) {
  const replay_options_t all = {.other = add_event, .other_context = s};
  s->report.path = path;
  if (!recording_open_report(&s->report)) return CLI_FAILED;
  if (replay_run(&s->replay, s->report.reader, &all) < 0 ||
      !(s->report.names = frame_names_new(s->report.reader, s->report.naming)))
    return message_fail("out of memory");
  return CLI_DONE;
}

static bool has_audit(const side_t *s) {
  size_t count;
  const sensor_record_t *others = reader_sensor_records(s->report.reader, &count);
  for (size_t i = 0; i < count; i++)
    if (others[i].type == TABLE_POLICY) return true;
  return false;
}

/* Without --by, compares audits if the recordings have nothing else: otherwise a gate would pass
 * because it compared other data. */
static bool compares_audits(const request_t *a, const side_t *sides) {
  if (a->chosen || a->gate || !has_audit(&sides[0]) || !has_audit(&sides[1])) return false;
  bool others = false;
  for (int i = 0; i < 2; i++)
    others |= sides[i].replay.stack_count || sides[i].samples.stack_count;
  if (others) message_note("both also have an audit; '--by audit' compares it");
  return !others;
}

static bool add_side(diff_t *d, const side_t *s, const request_t *a, bool old) {
  for (size_t i = 0; by_samples(a) && i < s->samples.stack_count; i++) {
    int64_t ticks = (int64_t)s->samples.stacks[i].ticks;
    if (!diff_add(d, &s->report, old, s->samples.stacks[i].stack, ticks, ticks)) return false;
  }
  for (size_t i = 0; !by_samples(a) && i < s->replay.stack_count; i++) {
    const stack_totals_t *t = &s->replay.stacks[i];
    counts_t tally = counts_of(t, a->measure);
    if (tally.bytes &&
        !diff_add(d, &s->report, old, t->stack, (int64_t)tally.bytes, (int64_t)tally.count))
      return false;
  }
  return true;
}

/* ---- text --------------------------------------------------------------------------------- */

static const char *amount(const request_t *a, int64_t value, char *text) {
  if (in_bytes(a)) return report_bytes(value, text);
  snprintf(text, 24, "%" PRId64, value);
  return text;
}

static const char *change_of(const request_t *a, int64_t change, char *text) {
  char plain[24];
  snprintf(text, 32, "%s%s", change > 0 ? "+" : "", amount(a, change, plain));
  return text;
}

static void print_row(const request_t *a, const diff_row_t *r) {
  char change[32], before[24], after[24];
  printf("  %11s  %10s  %10s  ", change_of(a, r->after - r->before, change),
         amount(a, r->before, before), amount(a, r->after, after));
}

/* The title and the headings of a table of rows. */
static void print_heading(const request_t *a, const report_t *r, const char *kind) {
  printf("\n%sby %s, in %s%s\n", r->bold, kind,
         by_samples(a) ? "samples of CPU time"
         : in_bytes(a) ? "bytes"
                       : "allocations",
         r->plain);
  printf("%s  %11s  %10s  %10s  %s%s\n", r->dim, "change", "old", "new", kind, r->plain);
}

/* What the numbers count. */
static const char *unit_of(const request_t *a) {
  return by_samples(a) ? " samples of CPU time" : in_bytes(a) ? "" : " allocations";
}

static void print_whole(const request_t *a, const diff_t *d) {
  char change[32], before[24], after[24];
  printf("%s: %s → %s%s, %s", name_of(a), amount(a, d->before, before), amount(a, d->after, after),
         unit_of(a), change_of(a, d->after - d->before, change));
  if (d->before) printf(" (%+.1f %%)", 100.0 * (double)(d->after - d->before) / (double)d->before);
  putchar('\n');
}

static const char *exe_of(const side_t *s) {
  const char *path = reader_argument(s->report.reader, 0),
             *slash = path ? strrchr(path, '/') : NULL;
  return slash ? slash + 1 : path ? path : "";
}

static double seconds_of(const side_t *s) {
  const record_header_t *h = reader_header(s->report.reader);
  return (double)(h->end_monotonic_ns - h->start_monotonic_ns) / 1e9;
}

static void print_side(const char *which, const side_t *s) {
  printf("%s  %s: ", which, s->report.path);
  report_command_text(&s->report, stdout);
  printf("     %.3f s", seconds_of(s));
  uint64_t peak = s->usage.series[USAGE_PEAK_RSS].peak;
  char text[24];
  if (peak) printf(", at most %s resident", report_bytes((int64_t)peak, text));
  putchar('\n');
}

/* The bytes of which one block is sampled, if the measure is about blocks. */
static uint64_t rate_of(const request_t *a, const side_t *s) {
  return by_samples(a) ? 0 : s->replay.sample_bytes;
}

/* The share of changes in stacks without names that a note reports. */
#define NAMELESS_NOTED 0.1

/* Why the numbers of the two may differ without a change of the program. */
static void print_notes(const request_t *a, const diff_t *d, const side_t *sides) {
  bool has[2];
  if (strcmp(exe_of(&sides[0]), exe_of(&sides[1])) != 0)
    printf("note the recordings are of different programs\n");
  for (int i = 0; i < 2; i++) {
    const side_t *s = &sides[i];
    has[i] = by_samples(a) ? s->samples.ticks != 0 : s->replay.events || s->replay.snapshots;
    if (!has[i])
      printf("note '%s' has no %s\n", s->report.path,
             by_samples(a) ? "samples of CPU time" : "allocations");
    if (reader_damage(s->report.reader)->dropped_chunks)
      printf("note '%s' has lost its oldest events (--limit)\n", s->report.path);
  }
  uint64_t old = rate_of(a, &sides[0]), new = rate_of(a, &sides[1]);
  if ((old || new) && has[0] && has[1])
    printf(!old || !new ? "note one recording has all blocks, the other estimates from samples\n"
           : old != new ? "note the recordings sampled blocks at different rates\n"
                        : "note all amounts are estimates from sampled blocks\n");
  bool live[2];
  for (int i = 0; i < 2; i++)
    live[i] = sides[i].replay.blocks_mode & RECORD_LIVE;
  if (!by_samples(a) && has[0] && has[1] && live[0] != live[1])
    printf("note one recording has only live blocks (--malloc=live), the other all events\n");
  double length = seconds_of(&sides[0]), other = seconds_of(&sides[1]);
  if ((length > 1.5 * other || other > 1.5 * length) && length + other > 1)
    printf("note the recordings differ in length; the numbers are not divided by it\n");
  if (diff_nameless(d) >= NAMELESS_NOTED)
    printf("note %.0f %% of the changes are in stacks with functions that have no name; these are "
           "compared by library\n",
           100 * diff_nameless(d));
}

static void print_text(const request_t *a, const diff_t *d, const diff_t *functions,
                       const side_t *sides) {
  const report_t *r = &sides[0].report;
  pager_start();
  print_side("old", &sides[0]);
  print_side("new", &sides[1]);
  print_notes(a, d, sides);
  putchar('\n');
  print_whole(a, d);
  if (!d->count) return;
  print_heading(a, r, "function");
  for (size_t i = 0; i < functions->count && i < a->top; i++) {
    char name[REPORT_NAME_MAX];
    const frame_name_t function = {.function = functions->rows[i].function, .known = true};
    print_row(a, &functions->rows[i]);
    printf("%s\n", report_name(r, &function, (int)r->columns - 39, name));
  }
  if (functions->count > a->top) report_more(r, functions->count - a->top, "functions", stdout);
  print_heading(a, r, "stack");
  for (size_t i = 0; i < d->count && i < a->top; i++) {
    const diff_row_t *row = &d->rows[i];
    print_row(a, row);
    printf("%s\n", !row->before ? "new" : !row->after ? "gone" : "changed");
    report_stack_text(&sides[!row->in_old].report, row->stack, stdout);
  }
  if (d->count > a->top) report_more(r, d->count - a->top, "stacks", stdout);
}

/* ---- Markdown ----------------------------------------------------------------------------- */

/* A function's name in a cell. In code, a | would end the cell and a ` the code. */
static void print_cell(const char *name) {
  printf("`");
  for (const char *c = name; *c; c++)
    printf(*c == '|' ? "\\|" : "%c", *c == '`' ? '\'' : *c);
  printf("`");
}

static void print_markdown(const request_t *a, const diff_t *d, const diff_t *functions,
                           const side_t *sides) {
  printf("**sonde:** ");
  print_whole(a, d);
  putchar('\n');
  print_notes(a, d, sides);
  if (!functions->count) return;
  printf("\n| change | old | new | function |\n|---:|---:|---:|---|\n");
  for (size_t i = 0; i < functions->count && i < a->top; i++) {
    const diff_row_t *r = &functions->rows[i];
    char change[32], before[24], after[24];
    printf("| %s | %s | %s | ", change_of(a, r->after - r->before, change),
           amount(a, r->before, before), amount(a, r->after, after));
    print_cell(r->function);
    printf(" |\n");
  }
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *row_json(const diff_row_t *r) {
  json_object *o = json_new_object();
  json_add_text(o, "function", r->function);
  json_add_number(o, "old", r->before);
  json_add_number(o, "new", r->after);
  json_add_number(o, "old_count", r->count_before);
  json_add_number(o, "new_count", r->count_after);
  return o;
}

static json_object *side_json(const request_t *a, const side_t *s) {
  json_object *o = json_new_object();
  const record_header_t *h = reader_header(s->report.reader);
  json_add_text(o, "file", s->report.path);
  report_command_json(&s->report, o);
  json_add_number(o, "duration_ns", (int64_t)(h->end_monotonic_ns - h->start_monotonic_ns));
  if (s->usage.series[USAGE_PEAK_RSS].peak)
    json_add_count(o, "peak_rss_bytes", s->usage.series[USAGE_PEAK_RSS].peak);
  if (rate_of(a, s)) json_add_number(o, "sample_bytes", (int64_t)rate_of(a, s));
  return o;
}

static void print_json(const request_t *a, const diff_t *d, const diff_t *functions,
                       const side_t *sides) {
  json_object *o = json_new_object(), *by_function = json_new_array(), *stacks = json_new_array();
  json_add_text(o, "by", name_of(a));
  json_add(o, "old_recording", side_json(a, &sides[0]));
  json_add(o, "new_recording", side_json(a, &sides[1]));
  json_add_number(o, "old", d->before);
  json_add_number(o, "new", d->after);
  json_add_number(o, "changed_stacks", (int64_t)d->count);
  for (size_t i = 0; i < functions->count && i < a->top; i++)
    json_append(by_function, row_json(&functions->rows[i]));
  for (size_t i = 0; i < d->count && i < a->top; i++) {
    json_object *row = row_json(&d->rows[i]);
    json_add(row, "frames",
             report_frames_json(&sides[!d->rows[i].in_old].report, d->rows[i].stack, NULL));
    json_append(stacks, row);
  }
  json_add(o, "functions", by_function);
  json_add(o, "stacks", stacks);
  printf("%s\n", json_print(o, JSON_STYLE));
  json_object_put(o);
}

/* ---- the verb ----------------------------------------------------------------------------- */

/* 5%, 10M, 0 */
static bool parse_limit(const char *text, request_t *out) {
  char *end;
  out->limit = strtod(text, &end);
  out->gate = true;
  if (end == text || !(out->limit >= 0 && out->limit < 1e18)) return false;
  out->percent = *end == '%';
  static const char units[] = "KMG";
  const char *unit = *end ? strchr(units, *end) : NULL;
  for (const char *u = units; unit && u <= unit; u++)
    out->limit *= 1024;
  if (out->percent || unit) end++;
  return !*end;
}

static int check_gate(const request_t *a, const diff_t *d) {
  char change[32], limit[32];
  int64_t grown = d->after - d->before;
  double allowed = a->percent ? a->limit / 100 * (double)d->before : a->limit;
  if (!a->gate || (double)grown <= allowed) return CLI_DONE;
  if (a->percent && d->before)
    message_note("%s grew by %.1f %% > %g %% (--max-growth)", name_of(a),
                 100.0 * (double)grown / (double)d->before, a->limit);
  else
    message_note("%s grew by %s > %s%s (--max-growth)", name_of(a), change_of(a, grown, change) + 1,
                 amount(a, (int64_t)allowed, limit), unit_of(a));
  return CLI_FINDING;
}

static int compare(const request_t *a, const side_t *sides) {
  diff_t d = {0}, functions = {0};
  int status = CLI_FAILED;
  if (add_side(&d, &sides[0], a, true) && add_side(&d, &sides[1], a, false)) {
    diff_finish(&d);
    if (diff_by_function(&d, &functions)) {
      if (a->json)
        print_json(a, &d, &functions, sides);
      else if (a->markdown)
        print_markdown(a, &d, &functions, sides);
      else
        print_text(a, &d, &functions, sides);
      status = check_gate(a, &d);
    }
  }
  if (status == CLI_FAILED) (void)message_fail("out of memory");
  diff_free(&functions);
  diff_free(&d);
  return status;
}

static bool parse_by(const char *text, measure_t *out) {
  for (*out = 0; *out < MEASURE_GROWTH; ++*out)
    if (!strcmp(text, measure_name(*out))) return true;
  *out = MEASURE_COUNT;
  return !strcmp(text, "sample");
}

static bool is_baseline(const char *path) {
  size_t n = strlen(path);
  return n > 5 && !strcmp(path + n - 5, ".json");
}

/* In Markdown, as text of a fixed width. */
static int compare_audits(const request_t *a, char **paths) {
  if (a->markdown) printf("**sonde:** sensitive calls\n\n```\n");
  int status =
      audit_recording_compare(paths[0], paths[1], &a->naming.options, a->audit_rows, a->json);
  if (a->markdown) printf("```\n");
  return status;
}

int verb_diff(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t request = {.measure = MEASURE_PEAK, .audit_rows = SIZE_MAX};
  const char *wrong;
  long top = 10;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON: request.json = true; break;
    case KEY_MARKDOWN: request.markdown = true; break;
    case PAGER_KEY_NONE: pager_disable(); break;
    case KEY_FULL_NAMES: request.full_names = true; break;
    case KEY_TOP:
      if (!parse_number(parser.value, 1, 100000000, &top))
        return cli_wrong_use(&usage, "--top takes a number from 1 up");
      request.audit_rows = (size_t)top;
      break;
    case KEY_BY:
      request.chosen = true;
      request.audit = !strcmp(parser.value, "audit");
      if (!request.audit && !parse_by(parser.value, &request.measure))
        return cli_wrong_use(&usage,
                             "--by takes peak, leaked, allocated, temporary, sample or audit");
      break;
    case KEY_MAX_GROWTH:
      if (!parse_limit(parser.value, &request))
        return cli_wrong_use(&usage, "--max-growth takes 5%%, 10M or a number");
      break;
    default:
      if (naming_take(&request.naming, key, parser.value, &wrong) && wrong)
        return cli_wrong_use(&usage, "%s", wrong);
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 2) return cli_wrong_use(&usage, "takes two recordings");
  if (request.json && request.markdown)
    return cli_wrong_use(&usage, "--json and --markdown exclude each other");
  request.audit |= is_baseline(parser.rest[0]);
  if (request.audit && request.gate)
    return cli_wrong_use(&usage,
                         "--max-growth is for amounts; a new sensitive call exits 1 anyway");
  if (request.audit) return compare_audits(&request, parser.rest);
  request.top = (uint32_t)top;
  const report_t both = {.full_names = request.full_names, .naming = &request.naming.options};
  side_t sides[2] = {{.report = both}, {.report = both}};
  int status = open_side(&sides[0], parser.rest[0]);
  if (status == CLI_DONE) status = open_side(&sides[1], parser.rest[1]);
  for (int i = 0; i < 2 && status == CLI_DONE; i++)
    if (request.measure == MEASURE_TEMPORARY && sides[i].replay.sample_bytes)
      status = message_fail("'%s' has sampled blocks, so temporary allocations are unknown; record "
                            "with '--malloc=all'",
                            parser.rest[i]);
  bool audits = status == CLI_DONE && compares_audits(&request, sides);
  if (status == CLI_DONE && !audits) status = compare(&request, sides);
  for (int i = 0; i < 2; i++) {
    if (sides[i].report.names) naming_note_missing(sides[i].report.names);
    close_side(&sides[i]);
  }
  return audits ? compare_audits(&request, parser.rest) : status;
}
