/* SPDX-License-Identifier: MIT
 *
 * sonde report: reads a recording.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/verbs.h"
#include "report/json.h"
#include "report/malloc.h"
#include "report/sample.h"
#include "sonde/status.h"

enum { KEY_JSON = CLI_LONG_ONLY, KEY_TOP, KEY_BY, KEY_FROM, KEY_TO };

static const cli_option_t options[] = {
    {KEY_BY, "by", "WHAT", "rank by peak (the default), leaked, allocated, temporary or growth"},
    {KEY_TOP, "top", "N", "show N functions, libraries and stacks (10)"},
    {KEY_FROM, "from", "SECONDS", "tell of the time from here on, counted from the start"},
    {KEY_TO, "to", "SECONDS", "tell of the time up to here"},
    {KEY_JSON, "json", NULL, "as JSON, see docs/json.md"},
    {0}};

static const cli_usage_t usage = {
    .verb = "report",
    .arguments = "FILE [malloc] [sample]",
    .about =
        "Tells what the recording FILE holds: where the CPU was, what was allocated, what was\n"
        "live at the peak, what was never freed, by function, library and stack.",
    .options = options,
    .examples = {{"sonde report run.sonde", "the summary"},
                 {"sonde report --by leaked run.sonde", "what was never freed"},
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

static void step(void *context, uint64_t done, uint64_t total) {
  cli_progress_t *progress = context;
  progress->total = total;
  cli_progress_step(progress, done);
}

typedef struct asked {
  const char *path;
  bool json, malloc, sample; /* which sections; neither: those that hold something */
  measure_t measure;
  long top;
  replay_options_t window;
} asked_t;

static int print_text(const asked_t *asked, const malloc_report_t *m, const sample_report_t *s) {
  int status = 0;
  report_head_text(m, stdout);
  bool all = !asked->malloc && !asked->sample;
  if (asked->sample || (all && s->samples->ticks)) status = report_sample_text(s, stdout);
  if (status == 0 && (asked->malloc || (all && m->replay->events)))
    status = report_malloc_text(m, stdout);
  if (all && !s->samples->ticks && !m->replay->events) printf("\nno event was recorded\n");
  return status;
}

static int print_json(const asked_t *asked, const malloc_report_t *m, const sample_report_t *s) {
  bool all = !asked->malloc && !asked->sample;
  json_object *o = json_object_new_object(), *part = NULL;
  report_head_json(m, o);
  bool good = true;
  if (asked->malloc || all) {
    good = (part = report_malloc_json(m)) != NULL;
    json_object_object_add(o, "malloc", part);
  }
  if (good && (asked->sample || all)) {
    good = (part = report_sample_json(s)) != NULL;
    json_object_object_add(o, "sample", part);
  }
  if (good) printf("%s\n", json_object_to_json_string_ext(o, JSON_STYLE));
  json_object_put(o);
  return good ? 0 : SONDE_ENOMEM;
}

static int print(const asked_t *asked, reader_t *reader, const replay_t *replay,
                 const samples_t *samples) {
  names_t *names = names_new(reader);
  const char *bold = cli_style(stdout, CLI_BOLD), *dim = cli_style(stdout, CLI_DIM),
             *plain = cli_style(stdout, CLI_PLAIN);
  malloc_report_t m = {.path = asked->path,
                       .reader = reader,
                       .replay = replay,
                       .names = names,
                       .measure = asked->measure,
                       .top = (uint32_t)asked->top,
                       .bold = bold,
                       .dim = dim,
                       .plain = plain};
  sample_report_t s = {.reader = reader,
                       .samples = samples,
                       .names = names,
                       .top = (uint32_t)asked->top,
                       .bold = bold,
                       .dim = dim,
                       .plain = plain};
  int status = !names        ? SONDE_ENOMEM
               : asked->json ? print_json(asked, &m, &s)
                             : print_text(asked, &m, &s);
  names_free(names);
  return status;
}

static int report(asked_t *asked) {
  reader_t *reader;
  char error[256] = "";
  if (reader_open(&reader, asked->path, error, sizeof error) < 0)
    return cli_fail("'%s': %s", asked->path, error);
  cli_progress_t progress;
  replay_t replay;
  samples_t samples = {0};
  cli_progress_start(&progress, "reading events", 0);
  asked->window.progress = step;
  asked->window.context = &progress;
  asked->window.sample = samples_add;
  asked->window.sample_context = &samples;
  int status = replay_run(&replay, reader, &asked->window);
  cli_progress_end(&progress);
  if (status == 0) {
    samples_rank(&samples);
    status = print(asked, reader, &replay, &samples);
    replay_free(&replay);
  }
  samples_free(&samples);
  reader_close(reader);
  return status == 0 ? CLI_DONE : cli_fail("there is no memory");
}

static bool choose_sections(asked_t *asked, char **sections) {
  for (; *sections; sections++)
    if (!strcmp(*sections, "malloc"))
      asked->malloc = true;
    else if (!strcmp(*sections, "sample"))
      asked->sample = true;
    else
      return false;
  return true;
}

int verb_report(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  asked_t asked = {.measure = MEASURE_PEAK, .top = 10};
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON: asked.json = true; break;
    case KEY_TOP:
      if (!cli_number(parser.value, 1, 100000000, &asked.top))
        return cli_wrong_use(&usage, "--top takes a number from 1 up");
      break;
    case KEY_BY:
      if (!parse_measure(parser.value, &asked.measure))
        return cli_wrong_use(&usage, "--by takes peak, leaked, allocated, temporary or growth");
      break;
    case KEY_FROM:
      if (!parse_seconds(parser.value, &asked.window.from_ns))
        return cli_wrong_use(&usage, "--from takes seconds");
      break;
    case KEY_TO:
      if (!parse_seconds(parser.value, &asked.window.to_ns))
        return cli_wrong_use(&usage, "--to takes seconds");
      break;
    }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1) return cli_wrong_use(&usage, "takes a recording");
  asked.path = parser.rest[0];
  if (!choose_sections(&asked, parser.rest + 1))
    return cli_wrong_use(&usage, "knows the sections malloc and sample");
  return report(&asked);
}
