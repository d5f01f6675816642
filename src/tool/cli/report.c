/* SPDX-License-Identifier: MIT
 *
 * sonde report: reads a recording.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/markers.h"
#include "analysis/summary/summary.h"
#include "cli/cli.h"
#include "cli/common/recording.h"
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
  KEY_PROGRAM
};

static const cli_option_t options[] = {
    {KEY_BY, "by", "WHAT", "rank by peak (the default), leaked, allocated, temporary or growth"},
    {KEY_TOP, "top", "N", "show N functions, libraries and stacks (10)"},
    {KEY_TREE, "tree", "[DIRECTION]",
     "a call tree in place of lists: top-down (from a thread's first\nfunction to what it calls) "
     "or "
     "bottom-up (to the callers)"},
    {KEY_FROM, "from", "MOMENT",
     "tell of the time from here on: seconds since the start, or the\nname of a mark"},
    {KEY_TO, "to", "MOMENT", "tell of the time up to here"},
    {KEY_PROGRAM, "program", "N",
     "of a process that ran several programs in turn (exec): tell of this\none, 1 is the first, "
     "in place of the last; the audit is else of all"},
    {KEY_MAX, "max", "TIME", "exit 1 when a stall was longer: 500ms, 2s"},
    {KEY_LEAST, "least", "DURATION",
     "traced calls: pass over those shorter than this: 10us, 1.5ms"},
    {KEY_DEPTH, "depth", "N", "traced calls: pass over those inside more than N - 1 others"},
    {KEY_FUNCTION, "function", "PATTERN",
     "traced calls: only of functions with such a name: 'parse_*'"},
    {KEY_SIZE, "size", "BYTES",
     "traced calls: pass over functions known to have less code than this"},
    {KEY_THREAD, "thread", "TID", "traced calls: only of this thread"},
    {KEY_NET, "net", NULL, "traced calls: take off the time that tracing took itself"},
    {KEY_JSON, "json", NULL, "as JSON, see docs/json.md"},
    {0}};

static const cli_usage_t usage = {
    .verb = "report",
    .arguments = "FILE [SECTION…]",
    .about =
        "Tells what the recording FILE holds: where the CPU was, what was allocated, what was\n"
        "live at the peak, what was never freed, how long calls took. A section named shows all of "
        "it: by function,\n"
        "library, thread, size and stack.",
    .options = options,
    .examples = {
        {"sonde report run.sonde", "the summary"},
        {"sonde report run.sonde malloc", "all about allocations"},
        {"sonde report --by leaked run.sonde malloc", "what was never freed"},
        {"sonde report run.sonde stalls --max 500ms", "a gate: exit 1 when a stall was longer"},
        {"sonde report run.sonde waits", "with --wall: who waited for which lock, and on whom"},
        {"sonde report --least 1ms run.sonde trace", "calls that took a millisecond"},
        {"sonde report --tree=bottom-up run.sonde sample", "who calls what uses the CPU"},
        {"sonde report --by growth --from 10 --to 60 run.sonde",
         "what grew between these seconds"}}};

static bool parse_measure(const char *text, measure_t *out) {
  for (measure_t m = 0; m < MEASURE_COUNT; m++)
    if (!strcmp(text, measure_name(m))) {
      *out = m;
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

/* An option about traced calls; what is wrong with its value, or NULL. */
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

typedef struct shown {
  const report_section_t *section;
  void *state;
  bool asked; /* by name */
} shown_t;

static const report_section_t *const sections[] = {
#define SECTION_ENTRY(name) &section_##name,
    REPORT_SECTIONS(SECTION_ENTRY)
#undef SECTION_ENTRY
};
enum { SECTIONS = sizeof sections / sizeof *sections };

#define SECTION_WORD(name) " " #name
#define SECTION_WORDS      REPORT_SECTIONS(SECTION_WORD) /* " stalls sample malloc" */

typedef struct asked {
  bool json, any; /* sections were named */
  bool exceeded;  /* a gate was */
  shown_t shown[SECTIONS];
  report_t report;
  const char *from, *to;
  replay_options_t window;
} asked_t;

static bool choose_sections(asked_t *asked, char **words) {
  for (int i = 0; i < SECTIONS; i++)
    asked->shown[i].section = sections[i];
  for (; *words; words++) {
    int i = 0;
    while (i < SECTIONS && strcmp(*words, sections[i]->name))
      i++;
    if (i == SECTIONS) return false;
    asked->shown[i].asked = asked->any = true;
  }
  return true;
}

/* An event of the pass that is no allocation, for every section that takes part. */
static bool hand_out(void *context, const record_event_t *event) {
  asked_t *asked = context;
  for (int i = 0; i < SECTIONS; i++) {
    shown_t *s = &asked->shown[i];
    if (s->section->event && (s->asked || !asked->any) && !s->section->event(s->state, event))
      return false;
  }
  return true;
}

static int start_sections(asked_t *asked) {
  for (int i = 0; i < SECTIONS; i++) {
    shown_t *s = &asked->shown[i];
    const report_section_t *section = s->section;
    if (section->state_bytes) s->state = calloc(1, section->state_bytes);
    if (section->start) s->state = section->start(&asked->report);
    if ((section->state_bytes || section->start) && !s->state) return SONDE_ENOMEM;
  }
  return 0;
}

static void end_sections(asked_t *asked) {
  for (int i = 0; i < SECTIONS; i++) {
    const shown_t *s = &asked->shown[i];
    if (s->state) s->section->end(s->state);
    if (s->section->state_bytes) free(s->state);
  }
}

/* ---- printing ----------------------------------------------------------------------------- */

/* Zeros would say that it was looked for, and not found. */
static bool was_looked_for(const asked_t *asked, const shown_t *s) {
  const report_section_t *section = s->section;
  const reader_t *reader = asked->report.reader;
  if (section->holds(&asked->report, s->state)) return true;
  if (is_summary(reader)) return false;
  return !section->option || reader_header(reader)->mode & section->mode;
}

static int print_section(const asked_t *asked, const shown_t *s) {
  const report_t *r = &asked->report;
  if (was_looked_for(asked, s)) return s->section->text(r, s->state, stdout);
  printf("\n%s%s%s\n", r->bold, s->section->name, r->plain);
  if (is_summary(r->reader))
    printf("  the summary holds nothing of it; ask the recording that it was made of\n");
  else
    printf("  nothing was recorded of it; 'sonde record %s' does\n", s->section->option);
  return 0;
}

static int print_text(asked_t *asked) {
  const report_t *r = &asked->report;
  bool said = false;
  int status = 0;
  report_head_text(r, stdout);
  for (int i = 0; i < SECTIONS && status == 0; i++) {
    shown_t *s = &asked->shown[i];
    if (!(s->asked || (!asked->any && s->section->holds(r, s->state)))) continue;
    status = print_section(asked, s);
    said = true;
  }
  if (!said) printf("\nno event was recorded\n");
  if (said && r->brief)
    printf("\n%smore: name a section:" SECTION_WORDS "; add --tree, or --by leaked%s\n", r->dim,
           r->plain);
  return status;
}

static int print_json(asked_t *asked) {
  json_object *o = json_object_new_object();
  int status = 0;
  report_head_json(&asked->report, o);
  for (int i = 0; i < SECTIONS && status == 0; i++) {
    shown_t *s = &asked->shown[i];
    bool kept = !is_summary(asked->report.reader) && s->asked; /* sonde ctl may have switched it */
    if ((asked->any && !s->asked) || !(kept || was_looked_for(asked, s))) continue;
    json_object *part = s->section->json(&asked->report, s->state);
    json_object_object_add(o, s->section->name, part);
    if (!part) status = SONDE_ENOMEM;
  }
  if (status == 0) printf("%s\n", json_object_to_json_string_ext(o, JSON_STYLE));
  json_object_put(o);
  return status;
}

static int make_report(asked_t *asked) {
  report_t *r = &asked->report;
  terminal_progress_t progress;
  replay_t replay;
  int status = start_sections(asked);
  terminal_progress_start(&progress, "reading events", 0);
  asked->window.progress = terminal_progress_update;
  asked->window.progress_context = &progress;
  asked->window.other = hand_out;
  asked->window.other_context = asked;
  if (status == 0) status = replay_run(&replay, r->reader, &asked->window);
  terminal_progress_end(&progress);
  if (status == 0) {
    r->replay = &replay;
    r->names = frame_names_new(r->reader);
    status = !r->names ? SONDE_ENOMEM : asked->json ? print_json(asked) : print_text(asked);
    frame_names_free(r->names);
    replay_free(&replay);
  }
  end_sections(asked);
  return status;
}

/* TEXT is seconds or the name of a mark, which *MARK then is; NULL: nothing was said. False, having
 * said why, when it is neither. */
static bool find_moment(const report_t *r, const char *text, uint64_t *ns, const char **mark) {
  if (!text || parse_seconds(text, ns)) return true;
  *mark = text;
  int status = marker_find(r->reader, text, ns);
  if (status == SONDE_ENOMEM)
    (void)message_fail("there is no memory");
  else if (status < 0)
    (void)message_fail("'%s' is neither a number of seconds nor a mark of '%s'", text, r->path);
  return status == 0;
}

/* A gate must not be passed because nobody looked. Says why on failure. */
static bool keeps_stalls(const report_t *r) {
  if (is_summary(r->reader))
    (void)message_fail(
        "'%s' is a summary, which keeps no stalls: ask --max of the recording that it "
        "was made of",
        r->path);
  else if (!(reader_header(r->reader)->mode & RECORD_STALLS))
    (void)message_fail(
        "'%s' holds no stalls, so --max tells nothing; 'sonde record --stall' records "
        "them",
        r->path);
  else
    return true;
  return false;
}

static int report(asked_t *asked) {
  report_t *r = &asked->report;
  if (!recording_open_report(r)) return CLI_FAILED;
  replay_options_t *w = &asked->window;
  if (!find_moment(r, asked->from, &w->from_ns, &w->from_marker) ||
      !find_moment(r, asked->to, &w->to_ns, &w->to_marker)) {
    reader_close(r->reader);
    return CLI_FAILED;
  }
  if (r->stall_limit_ns && !keeps_stalls(r)) {
    reader_close(r->reader);
    return CLI_FAILED;
  }
  r->window = &asked->window;
  r->brief = !asked->any && !r->tree;
  int status = make_report(asked);
  reader_close(r->reader);
  if (status != 0) return message_fail("there is no memory");
  return asked->exceeded ? CLI_FINDING : CLI_DONE;
}

int verb_report(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  asked_t asked = {.report = {.measure = MEASURE_PEAK}};
  long top = 10;
  double limit_ns;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON: asked.json = true; break;
    case KEY_TOP:
      if (!parse_number(parser.value, 1, 100000000, &top))
        return cli_wrong_use(&usage, "--top takes a number from 1 up");
      break;
    case KEY_BY:
      if (!parse_measure(parser.value, &asked.report.measure))
        return cli_wrong_use(&usage, "--by takes peak, leaked, allocated, temporary or growth");
      break;
    case KEY_TREE:
      if (!parse_tree(parser.value, &asked.report.tree))
        return cli_wrong_use(&usage, "--tree takes top-down or bottom-up");
      break;
    case KEY_MAX:
      if (!parse_duration(parser.value, &limit_ns) || limit_ns < 1)
        return cli_wrong_use(&usage, "--max takes a time such as 500ms or 2s");
      asked.report.stall_limit_ns = (uint64_t)limit_ns;
      break;
    case KEY_PROGRAM:
      if (!recording_program(parser.value, &asked.report.program))
        return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
      break;
    case KEY_FROM: asked.from = parser.value; break;
    case KEY_TO: asked.to = parser.value; break;
    default: {
      const char *wrong = take_trace_option(&asked.report, key, parser.value);
      if (wrong) return cli_wrong_use(&usage, "%s", wrong);
    }
    }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1) return cli_wrong_use(&usage, "takes a recording");
  asked.report.path = parser.rest[0];
  asked.report.exceeded = &asked.exceeded;
  asked.report.top = (uint32_t)top;
  if (!choose_sections(&asked, parser.rest + 1))
    return cli_wrong_use(&usage, "the sections are" SECTION_WORDS);
  return report(&asked);
}
