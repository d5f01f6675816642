/* SPDX-License-Identifier: MIT
 *
 * sonde report: prints a summary or sections of a recording.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/markers.h"
#include "analysis/summary/summary.h"
#include "base/wrap.h"
#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/pager.h"
#include "cli/common/recording.h"
#include "cli/common/sections.h"
#include "cli/report_parts.h"
#include "cli/verbs.h"
#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"

enum { KEY_JSON = CLI_LONG_ONLY, KEY_TOP, KEY_BY, KEY_FROM, KEY_TO, KEY_TREE, KEY_MAX };
enum {
  KEY_LEAST = CLI_LONG_ONLY + 64,
  KEY_DEPTH,
  KEY_FUNCTION,
  KEY_SIZE,
  KEY_THREAD,
  KEY_NET,
  KEY_PROGRAM,
  KEY_ALL,
  KEY_FULL_NAMES
};

/* A summary has at most this many lines; its lists have at most BRIEF_ROWS rows, and fewer if it
 * would not fit otherwise. */
enum { SCREEN_LINES = 40, SCREEN_COLUMNS = 80, BRIEF_ROWS = 5 };

#define SECTION_WORD(name) " " #name
#define SECTION_WORDS      REPORT_SECTIONS(SECTION_WORD) /* " stalls sample malloc" */

static const cli_option_t options[] = {
    CLI_GROUP("all sections"),
    {KEY_BY, "by", "WHAT:total|self|peak|leaked|allocated|temporary|growth",
     "rank functions by total (with callees) or self time; rank allocations by peak (default), "
     "leaked, allocated, temporary, growth"},
    {KEY_TOP, "top", "N", "show N functions, libraries and stacks (default 10)"},
    {KEY_TREE, "tree", "[DIRECTION:top-down|bottom-up]",
     "print a call tree: top-down (callees, the default) or bottom-up (callers)"},
    {KEY_ALL, "all", NULL, "show all rows and all frames; in trees also branches below 1 %"},
    {KEY_FROM, "from", "TIME", "report from here: seconds since the start, or a marker"},
    {KEY_TO, "to", "TIME", "report up to here"},
    {KEY_PROGRAM, "program", "N",
     "the program to report if the process called exec: 1 is the first. Default: the last; for the "
     "audit, all"},
    {KEY_FULL_NAMES, "full-names", NULL,
     "print whole C++ and Rust names; by default they are shortened to the width of the terminal, "
     "or to COLUMNS"},
    {KEY_JSON, "json", NULL, "print JSON (docs/json.md)"},
    PAGER_OPTION,
    CLI_GROUP("names"),
    NAMING_FILE_OPTIONS,
    NAMING_APP_OPTIONS,
    CLI_GROUP("the section stalls"),
    {KEY_MAX, "max", "DURATION", "exit 1 if a stall was longer: 500ms, 2s"},
    CLI_GROUP("the section trace"),
    {KEY_LEAST, "least", "DURATION", "skip shorter calls: 10us, 1.5ms"},
    {KEY_DEPTH, "depth", "N", "skip calls deeper than N"},
    {KEY_FUNCTION, "function", "PATTERN", "only functions that match: 'parse_*'"},
    {KEY_SIZE, "size", "BYTES", "skip functions smaller than BYTES"},
    {KEY_THREAD, "thread", "TID", "only this thread"},
    {KEY_NET, "net", NULL, "subtract the overhead of tracing"},
    {0}};

static const cli_usage_t usage = {
    .verb = "report",
    .arguments = "FILE [SECTION…]",
    .words = SECTION_WORDS,
    .parts = report_parts,
    .parts_are = "sections",
    .before_part = "FILE",
    .about = "Prints what the recording FILE contains: CPU time, allocations, live blocks at the "
             "peak, leaks, durations of calls. Without a SECTION it prints a summary. A section "
             "prints everything: by function, library, thread, size and stack.",
    .options = options,
    .examples = {
        {"sonde report run.sonde", "print the summary"},
        {"sonde report run.sonde malloc", "print everything about allocations"},
        {"sonde report --by leaked run.sonde malloc", "show what was never freed"},
        {"sonde report run.sonde stalls --max 500ms", "a gate: exit 1 if a stall was longer"},
        {"sonde report run.sonde waits", "show who waited for which lock (record with --wall)"},
        {"sonde report --least 1ms run.sonde trace", "show calls of at least a millisecond"},
        {"sonde report --tree=bottom-up run.sonde sample", "show the callers of hot functions"},
        {"sonde report --by growth --from 10 --to 60 run.sonde",
         "show what grew between second 10 and 60"}}};

static bool parse_by(const char *text, report_t *r) {
  if (!strcmp(text, "total") || !strcmp(text, "self")) {
    r->functions_by = *text == 't' ? FUNCTIONS_BY_TOTAL : FUNCTIONS_BY_SELF;
    return true;
  }
  for (measure_t m = 0; m < MEASURE_COUNT; m++)
    if (!strcmp(text, measure_name(m))) {
      r->measure = m;
      return true;
    }
  return false;
}

static bool parse_seconds(const char *text, uint64_t *out_ns) {
  char *end;
  double seconds = strtod(text, &end);
  if (end == text || *end || !(seconds >= 0 && seconds < 1e9)) return false;
  *out_ns = (uint64_t)(seconds * 1e9);
  return true;
}

/* Reads an option for traced calls. Returns the error, or NULL. */
static const char *take_trace_option(report_t *r, int key, const char *value) {
  long number;
  switch (key) {
  case KEY_LEAST:
    return parse_duration(value, &r->calls.min_ns) ? NULL : "--least takes a duration such as 10us";
  case KEY_DEPTH:
    if (!parse_number(value, 1, 1000000, &number)) return "--depth takes a number from 1 up";
    r->calls.max_depth = (uint32_t)number;
    return NULL;
  case KEY_THREAD:
    if (!parse_number(value, 1, INT32_MAX, &number)) return "--thread takes a thread id";
    r->calls.tid = (uint64_t)number;
    return NULL;
  case KEY_FUNCTION: r->functions = value; return NULL;
  case KEY_SIZE:
    if (!parse_number(value, 1, INT32_MAX, &number)) return "--size takes a number of bytes";
    r->least_bytes = (uint64_t)number;
    return NULL;
  case KEY_NET: r->calls.net = true; return NULL;
  default: return NULL;
  }
}

static bool parse_tree(const char *text, tree_direction_t *out) {
  *out = !text || !strcmp(text, "top-down") ? TREE_TOP_DOWN : TREE_BOTTOM_UP;
  return !text || !strcmp(text, "top-down") || !strcmp(text, "bottom-up");
}

/* ---- sections ----------------------------------------------------------------------------- */

typedef struct request {
  naming_t naming;
  bool json;
  uint64_t exceeded_ns; /* the longest stall, if a gate failed */
  sections_t sections;
  report_t report;
  const char *from, *to, *by; /* options as they were given; NULL: not given */
  replay_options_t window;
  unsigned omitted; /* of `minor` */
} request_t;

/* What a summary leaves out, in this order, until it fits on a screen. */
static const char *const minor[] = {"vm", "usage", "audit", "malloc", "wall"};
enum { MINOR_COUNT = sizeof minor / sizeof *minor };

static bool is_omitted(const request_t *request, int i) {
  for (unsigned k = 0; k < request->omitted; k++)
    if (!strcmp(sections_all[i]->name, minor[k])) return true;
  return false;
}

/* Returns the first word that is no section, or NULL. */
static const char *choose_sections(sections_t *sections, char **words) {
  for (; *words; words++) {
    int i = 0;
    while (i < SECTIONS_COUNT && strcmp(*words, sections_all[i]->name))
      i++;
    if (i == SECTIONS_COUNT) return *words;
    sections->named[i] = sections->any_named = true;
  }
  return NULL;
}

/* ---- printing ----------------------------------------------------------------------------- */

static int print_section(const request_t *request, int i, FILE *out) {
  const report_t *r = &request->report;
  const report_section_t *section = sections_all[i];
  if (sections_was_recorded(&request->sections, i))
    return section->text(r, request->sections.states[i], out);
  fprintf(out, "\n%s%s%s\n", r->bold, section->name, r->plain);
  if (is_summary(r->reader))
    fprintf(out, "  not in a summary; use the original recording\n");
  else
    fprintf(out, "  not recorded; record with 'sonde record %s'\n", section->option);
  return 0;
}

/* Images without names, each once: the functions in them are shown as addresses. */
static void print_unnamed(const report_t *r, FILE *out) {
  size_t place = 0;
  const char *reason;
  const record_image_t *image;
  char id[FRAME_NAMES_ID_MAX];
  for (bool first = true; (image = frame_names_unnamed(r->names, &place, &reason)); first = false) {
    if (first) fprintf(out, "\n%saddresses without names%s\n", r->bold, r->plain);
    fprintf(out, "  %s: %s\n", image->path, reason);
    if (image->build_id_size)
      fprintf(out, "    build-id %s; '--debug-dir DIR' searches its files in DIR\n",
              frame_names_build_id(image, id));
  }
}

/* Adds the names of the sections that the recording has to TEXT, of SIZE bytes: of all, or of those
 * that are left out. Returns the new length. */
static int add_sections(const request_t *request, bool all, char *text, int n, int size) {
  report_t whole = request->report; /* a summary leaves some sections out */
  whole.brief = false;
  for (int i = 0; i < SECTIONS_COUNT && n < size; i++)
    if ((all || is_omitted(request, i)) &&
        sections_all[i]->has_data(&whole, request->sections.states[i]))
      n += snprintf(text + n, (size_t)(size - n), " %s", sections_all[i]->name);
  return n;
}

/* The sections that the recording has, which a summary shortens. */
static void print_more(const request_t *request, FILE *out) {
  const report_t *r = &request->report;
  char text[512];
  const int size = sizeof text;
  int n = snprintf(text, sizeof text, "more: sonde report FILE SECTION; sections:");
  n = add_sections(request, true, text, n, size);
  if (request->omitted && n < size) {
    n += snprintf(text + n, (size_t)(size - n), "; left out here:");
    if (n < size) (void)add_sections(request, false, text, n, size);
  }
  fprintf(out, "\n%s", r->dim);
  (void)wrap_print(out, text, (wrap_t){0, 0, SCREEN_COLUMNS, WRAP_ALL_LINES});
  fputs(r->plain, out);
}

static int print_sections(const request_t *request, bool *printed, FILE *out) {
  const report_t *r = &request->report;
  const sections_t *all = &request->sections;
  int status = 0;
  *printed = false;
  report_head_text(r, out);
  if (all->has_why) why_head_text(&all->why, r, out);
  for (int i = 0; i < SECTIONS_COUNT && status == 0; i++) {
    bool has_data = !is_omitted(request, i) && sections_all[i]->has_data(r, all->states[i]);
    if (!(all->named[i] || (!all->any_named && has_data))) continue;
    status = print_section(request, i, out);
    *printed = true;
  }
  if (!*printed && !request->omitted) fprintf(out, "\nno events were recorded\n");
  return status;
}

static void print_end(const request_t *request, bool printed, FILE *out) {
  if ((printed || request->omitted) && request->report.brief) print_more(request, out);
}

static int print_all(const request_t *request, FILE *out) {
  bool printed;
  int status = print_sections(request, &printed, out);
  print_unnamed(&request->report, out);
  print_end(request, printed, out);
  return status;
}

static int count_lines(const char *text) {
  int lines = 0;
  for (; (text = strchr(text, '\n')); text++)
    lines++;
  return lines;
}

/* Prints the summary, with lists of at most ROWS rows and without OMITTED of the minor sections, if
 * it fits on a screen or nothing else can be omitted. Returns 1 if it does not fit. No section is
 * omitted for a long list of images without names. */
static int print_summary(request_t *request, uint32_t rows, unsigned omitted) {
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (!out) return SONDE_ENOMEM;
  request->report.brief_rows = rows;
  request->omitted = omitted;
  bool printed;
  int status = print_sections(request, &printed, out);
  if (fflush(out) != 0) status = SONDE_ENOMEM;
  int lines = status == 0 ? count_lines(text) : 0;
  print_unnamed(&request->report, out);
  if (fflush(out) != 0) status = SONDE_ENOMEM;
  int unnamed = status == 0 ? count_lines(text) - lines : 0;
  print_end(request, printed, out);
  if (fclose(out) != 0) status = SONDE_ENOMEM;
  lines = status == 0 ? count_lines(text) - (rows > 1 ? 0 : unnamed) : 0;
  bool fits = status == 0 && lines <= SCREEN_LINES;
  if (status == 0 && omitted < MINOR_COUNT && !fits) status = 1;
  if (status == 0) fputs(text, stdout);
  free(text);
  return status;
}

static int print_text(request_t *request) {
  int status = 1;
  pager_start();
  request->report.brief_rows = BRIEF_ROWS;
  if (!request->report.brief || request->report.top_given) return print_all(request, stdout);
  for (uint32_t rows = BRIEF_ROWS; status == 1 && rows > 0; rows--)
    status = print_summary(request, rows, 0);
  for (unsigned omitted = 1; status == 1 && omitted <= MINOR_COUNT; omitted++)
    status = print_summary(request, 1, omitted);
  return status;
}

static int print_json(request_t *request) {
  json_object *o = sections_json(&request->sections);
  if (!o) return SONDE_ENOMEM;
  printf("%s\n", json_print(o, JSON_STYLE));
  json_object_put(o);
  return 0;
}

/* Whether section I is reported and was recorded. */
static bool is_reported(const sections_t *all, int i) {
  return (all->named[i] || !all->any_named) && sections_was_recorded(all, i);
}

/* Prints an error and returns false if --by would rank nothing. */
static bool ranks_something(const request_t *request) {
  const report_t *r = &request->report;
  const sections_t *all = &request->sections;
  const char *by = request->by;
  bool by_time = by && (!strcmp(by, "total") || !strcmp(by, "self"));
  bool by_history = by && (!strcmp(by, "allocated") || !strcmp(by, "temporary"));
  if (by_time && !is_reported(all, SECTIONS_sample) && !is_reported(all, SECTIONS_wall) &&
      !is_reported(all, SECTIONS_trace))
    (void)message_fail("--by %s ranks the sections sample, wall and trace, and '%s' reports none "
                       "of them; record with 'sonde record --sample'",
                       by, r->path);
  else if (by && !by_time && all->any_named && !all->named[SECTIONS_malloc])
    (void)message_fail("--by %s ranks the section malloc: 'sonde report --by %s %s malloc'", by, by,
                       r->path);
  else if (by && !by_time && !(all->replay.modes & RECORD_ANY_BLOCKS) &&
           !section_malloc.has_data(r, all->states[SECTIONS_malloc]))
    (void)message_fail("--by %s ranks allocations, and '%s' has none; record each with 'sonde "
                       "record --malloc'",
                       by, r->path);
  else if (by_history && all->replay.snapshots && !all->replay.events)
    (void)message_fail("--by %s needs each allocation, and '%s' has only those that were live; "
                       "record with 'sonde record --malloc=all'",
                       by, r->path);
  else
    return true;
  return false;
}

/* A SONDE_E…, or the exit status of the verb. */
static int make_report(request_t *request) {
  sections_t *all = &request->sections;
  all->report = &request->report;
  int status = sections_run(all, &request->window);
  if (status == 0 && !ranks_something(request)) {
    sections_free(all);
    return CLI_FAILED;
  }
  if (status == 0) status = request->json ? print_json(request) : print_text(request);
  sections_free(all);
  return status;
}

/* Reads seconds or the name of a marker, which sets *MARKER; TEXT may be NULL. On failure prints an
 * error and returns false. */
static bool find_time(const report_t *r, const char *text, uint64_t *ns, const char **marker) {
  if (!text || parse_seconds(text, ns)) return true;
  *marker = text;
  int status = marker_find(r->reader, text, ns);
  if (status == SONDE_ENOMEM)
    (void)message_fail("out of memory");
  else if (status < 0)
    (void)message_fail("'%s' is neither a number of seconds nor a marker of '%s'", text, r->path);
  return status == 0;
}

/* Prints an error and returns false if stalls were not recorded: the gate must not pass then. */
static bool has_stalls(const report_t *r) {
  if (is_summary(r->reader))
    (void)message_fail(
        "'%s' is a summary, which has no stalls; use --max with the original recording", r->path);
  else if (!(reader_header(r->reader)->mode & RECORD_STALLS))
    (void)message_fail(
        "'%s' has no stalls to compare with --max; record with 'sonde record --stall'", r->path);
  else
    return true;
  return false;
}

static int report(request_t *request) {
  report_t *r = &request->report;
  if (!recording_open_report(r)) return CLI_FAILED;
  replay_options_t *w = &request->window;
  if (!find_time(r, request->from, &w->from_ns, &w->from_marker) ||
      !find_time(r, request->to, &w->to_ns, &w->to_marker)) {
    reader_close(r->reader);
    return CLI_FAILED;
  }
  if (r->stall_limit_ns && !has_stalls(r)) {
    reader_close(r->reader);
    return CLI_FAILED;
  }
  r->window = &request->window;
  r->brief = !request->sections.any_named && !r->tree && !request->json;
  int status = make_report(request);
  reader_close(r->reader);
  if (status == CLI_FAILED) return CLI_FAILED;
  if (status != 0) return message_fail("out of memory");
  if (!request->exceeded_ns) return CLI_DONE;
  char longest[24], limit[24];
  message_note("the longest stall took %s > %s (--max)",
               report_duration((double)request->exceeded_ns, longest),
               report_duration((double)r->stall_limit_ns, limit));
  return CLI_FINDING;
}

/* WORDS: the recording and the names of sections. */
static int report_sections(request_t *request, char **words) {
  request->report.path = words[0];
  request->report.naming = &request->naming.options;
  request->report.exceeded_ns = &request->exceeded_ns;
  const char *unknown = choose_sections(&request->sections, words + 1);
  if (unknown && access(unknown, F_OK) == 0)
    return cli_wrong_use(&usage,
                         "takes one recording; report '%s' by itself, or compare two recordings "
                         "with 'sonde diff'",
                         unknown);
  if (unknown)
    return cli_wrong_use(&usage, "no section '%s'; the sections are" SECTION_WORDS, unknown);
  int status = report(request);
  naming_free(&request->naming);
  return status;
}

int verb_report(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t request = {.report = {.measure = MEASURE_PEAK, .has_all = true}};
  long top = 10;
  double limit_ns;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON: request.json = true; break;
    case KEY_ALL:
      request.report.all = request.report.top_given = true;
      top = UINT32_MAX;
      break;
    case PAGER_KEY_NONE: pager_disable(); break;
    case KEY_FULL_NAMES: request.report.full_names = true; break;
    case KEY_TOP:
      if (!parse_number(parser.value, 1, 100000000, &top))
        return cli_wrong_use(&usage, "--top takes a number from 1 up");
      request.report.top_given = true;
      break;
    case KEY_BY:
      if (!parse_by(parser.value, &request.report))
        return cli_wrong_use(
            &usage, "--by takes total, self, peak, leaked, allocated, temporary or growth");
      request.by = parser.value;
      break;
    case KEY_TREE:
      if (!parse_tree(parser.value, &request.report.tree))
        return cli_wrong_use(&usage, "--tree takes top-down or bottom-up");
      break;
    case KEY_MAX:
      if (!parse_duration(parser.value, &limit_ns) || limit_ns < 1)
        return cli_wrong_use(&usage, "--max takes a duration such as 500ms or 2s");
      request.report.stall_limit_ns = (uint64_t)limit_ns;
      break;
    case KEY_PROGRAM:
      if (!recording_program(parser.value, &request.report.program))
        return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
      break;
    case KEY_FROM: request.from = parser.value; break;
    case KEY_TO: request.to = parser.value; break;
    default: {
      const char *wrong;
      if (!naming_take(&request.naming, key, parser.value, &wrong))
        wrong = take_trace_option(&request.report, key, parser.value);
      if (wrong) return cli_wrong_use(&usage, "%s", wrong);
    }
    }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1) return cli_wrong_use(&usage, "takes a recording");
  request.report.top = (uint32_t)top;
  return report_sections(&request, parser.rest);
}
