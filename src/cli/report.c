/* SPDX-License-Identifier: MIT
 *
 * sonde report: reads a recording.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/verbs.h"
#include "report/malloc.h"

enum { KEY_JSON = CLI_LONG_ONLY, KEY_TOP, KEY_BY, KEY_FROM, KEY_TO };

static const cli_option_t options[] = {
    {KEY_BY, "by", "WHAT",
     "rank by peak (the default), leaked, allocated, temporary or growth"},
    {KEY_TOP, "top", "N", "show N functions, libraries and stacks (10)"},
    {KEY_FROM, "from", "SECONDS", "tell of the time from here on, counted from the start"},
    {KEY_TO, "to", "SECONDS", "tell of the time up to here"},
    {KEY_JSON, "json", NULL, "as JSON, see docs/json.md"},
    {0}};

static const cli_usage_t usage = {
    .verb = "report",
    .arguments = "FILE [malloc]",
    .about = "Tells what the recording FILE holds: what was allocated, what was live at the peak,\n"
             "what was never freed, by function, library and stack.",
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

static int report(const char *path, bool json, measure_t measure, long top,
                  replay_options_t *window) {
  reader_t *reader;
  char error[256] = "";
  if (reader_open(&reader, path, error, sizeof error) < 0) return cli_fail("'%s': %s", path, error);
  cli_progress_t progress;
  replay_t replay;
  cli_progress_start(&progress, "reading events", 0);
  window->progress = step;
  window->context = &progress;
  int status = replay_run(&replay, reader, window);
  cli_progress_end(&progress);
  names_t *names = status == 0 ? names_new(reader) : NULL;
  malloc_report_t r = {.path = path,
                       .reader = reader,
                       .replay = &replay,
                       .names = names,
                       .measure = measure,
                       .top = (uint32_t)top,
                       .bold = cli_style(stdout, CLI_BOLD),
                       .dim = cli_style(stdout, CLI_DIM),
                       .plain = cli_style(stdout, CLI_PLAIN)};
  if (names) status = json ? report_malloc_json(&r, stdout) : report_malloc_text(&r, stdout);
  bool good = status == 0 && names;
  names_free(names);
  if (status == 0) replay_free(&replay);
  reader_close(reader);
  return good ? CLI_DONE : cli_fail("there is no memory");
}

int verb_report(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  bool json = false;
  measure_t measure = MEASURE_PEAK;
  replay_options_t window = {0};
  long top = 10;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON:
      json = true;
      break;
    case KEY_TOP:
      if (!cli_number(parser.value, 1, 100000000, &top))
        return cli_wrong_use(&usage, "--top takes a number from 1 up");
      break;
    case KEY_BY:
      if (!parse_measure(parser.value, &measure))
        return cli_wrong_use(&usage, "--by takes peak, leaked, allocated, temporary or growth");
      break;
    case KEY_FROM:
      if (!parse_seconds(parser.value, &window.from_ns))
        return cli_wrong_use(&usage, "--from takes seconds");
      break;
    case KEY_TO:
      if (!parse_seconds(parser.value, &window.to_ns))
        return cli_wrong_use(&usage, "--to takes seconds");
      break;
    }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1 || parser.rest_count > 2)
    return cli_wrong_use(&usage, "takes one recording");
  if (parser.rest_count == 2 && strcmp(parser.rest[1], "malloc"))
    return cli_wrong_use(&usage, "no section '%s'", parser.rest[1]);
  return report(parser.rest[0], json, measure, top, &window);
}
