/* SPDX-License-Identifier: MIT
 *
 * sonde why: says in at most five sentences what is wrong with a program.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "report/json.h"
#include "report/why/target.h"
#include "report/why/why.h"
#include "sonde/status.h"

enum { KEY_MARKDOWN = CLI_LONG_ONLY, KEY_JSON, KEY_PROGRAM, KEY_EXE };

static const cli_option_t options[] = {
    {KEY_MARKDOWN, "markdown", NULL, "print a Markdown list, for a pull request"},
    {KEY_JSON, "json", NULL, "print JSON (docs/json.md)"},
    RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "examine"),
    {KEY_EXE, "exe", "FILE", "of a core file: the program that dumped core"},
    NAMING_FILE_OPTIONS,
    {0}};

static const cli_usage_t usage = {
    .verb = "why",
    .arguments = "PID|FILE|CORE",
    .about = "Says what is wrong with a program, in at most five sentences, most important first: "
             "what, who, since when, how much, what to try. Reads a recording or a core file, or "
             "observes a running process for at most 5 seconds. A sentence that the data do not "
             "prove is omitted. With --json, the member 'healthy' is false if there is a fault.",
    .options = options,
    .examples = {{"sonde why run.sonde", "explain a recording"},
                 {"sonde why 1234", "explain why process 1234 hangs or is busy"},
                 {"sonde why core.1234", "explain a crash or a deadlock"},
                 {"sonde why --markdown run.sonde", "print a list for a pull request"}}};

typedef struct request {
  naming_t naming;
  bool json, markdown;
  const char *exe;
  report_t report;
  why_report_t why;
  cpu_time_t cpu_time;
  void *states[WHY_SECTIONS];
} request_t;

static int print(const why_report_t *why, bool json, bool markdown) {
  if (json) {
    json_object *o = why_json(why);
    printf("%s\n", json_print(o, JSON_STYLE));
    json_object_put(o);
  } else if (markdown) {
    why_markdown(why, stdout);
  } else {
    why_text(why, terminal_columns(stdout), stdout);
  }
  return CLI_DONE;
}

/* ---- recordings --------------------------------------------------------------------------- */

static bool on_event(void *context, const record_event_t *event) {
  request_t *q = context;
  for (int i = 0; i < WHY_SECTIONS; i++)
    if (!why_sections[i]->event(q->states[i], event)) return false;
  return cpu_time_add(&q->cpu_time, event) && why_add(&q->why.facts, event);
}

static bool start_sections(request_t *q) {
  for (int i = 0; i < WHY_SECTIONS; i++) {
    const report_section_t *s = why_sections[i];
    q->states[i] = s->start ? s->start(&q->report) : calloc(1, s->state_bytes);
    if (!q->states[i]) return false;
  }
  return true;
}

static void end_sections(request_t *q) {
  for (int i = 0; i < WHY_SECTIONS; i++) {
    if (q->states[i]) why_sections[i]->end(q->states[i]);
    if (why_sections[i]->state_bytes) free(q->states[i]);
  }
}

static int explain(request_t *q) {
  report_t *r = &q->report;
  replay_options_t window = {.other = on_event, .other_context = q};
  terminal_progress_t progress;
  replay_t replay;
  if (!start_sections(q)) return SONDE_ENOMEM;
  why_report_start(&q->why, r, &window);
  terminal_progress_start(&progress, "reading events", 0);
  window.progress = terminal_progress_update;
  window.progress_context = &progress;
  int status = replay_run(&replay, r->reader, &window);
  terminal_progress_end(&progress);
  if (status < 0) return status;
  r->replay = &replay;
  r->cpu_time = &q->cpu_time;
  r->names = frame_names_new(r->reader, r->naming);
  r->window = &window;
  bool good = r->names && why_report_finish(&q->why, r, q->states);
  if (good) (void)print(&q->why, q->json, q->markdown);
  if (good && !q->json) naming_note_missing(r->names);
  frame_names_free(r->names);
  replay_free(&replay);
  r->names = NULL;
  r->replay = NULL;
  r->window = NULL;
  return good ? 0 : SONDE_ENOMEM;
}

static int why_recording(request_t *q) {
  if (!recording_open_report(&q->report)) return CLI_FAILED;
  int status = explain(q);
  end_sections(q);
  reader_close(q->report.reader);
  why_report_free(&q->why);
  cpu_time_free(&q->cpu_time);
  return status < 0 ? message_fail("out of memory") : CLI_DONE;
}

static int why_outside(request_t *q, long pid) {
  char error[WHY_ERROR_MAX];
  const char *path = q->report.path;
  q->why.path = path;
  int status = why_target(&q->why, pid, path, q->exe, &q->naming.options, error)
                   ? print(&q->why, q->json, q->markdown)
                   : message_fail("%s", error);
  why_report_free(&q->why);
  return status;
}

/* A file is a file, even if its name is a number. */
static int explain_any(request_t *q) {
  long pid;
  const char *path = q->report.path;
  if (access(path, F_OK) < 0 && parse_number(path, 1, INT32_MAX, &pid)) return why_outside(q, pid);
  return why_is_core(path) ? why_outside(q, 0) : why_recording(q);
}

int verb_why(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t q = {0};
  const char *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON: q.json = true; break;
    case KEY_MARKDOWN: q.markdown = true; break;
    case KEY_EXE: q.exe = parser.value; break;
    default:
      if (naming_take(&q.naming, key, parser.value, &wrong)) {
        if (wrong) return cli_wrong_use(&usage, "%s", wrong);
      } else if (!recording_program(parser.value, &q.report.program))
        return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes a PID, a recording or a core");
  if (q.json && q.markdown)
    return cli_wrong_use(&usage, "--json and --markdown exclude each other");
  q.report.path = parser.rest[0];
  q.report.naming = &q.naming.options;
  return explain_any(&q);
}
