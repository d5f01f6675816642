/* SPDX-License-Identifier: MIT
 *
 * sonde view: makes one HTML page of a recording and opens it in the browser. report/exports/page/
 * writes the page; its programs are in page/. With --with, another viewer shows the recording.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/output.h"
#include "cli/cli.h"
#include "cli/common/browser.h"
#include "cli/common/export_timeline.h"
#include "cli/common/naming.h"
#include "cli/common/recording.h"
#include "cli/common/timeline.h"
#include "cli/common/viewer.h"
#include "cli/verbs.h"
#include "report/exports/page/document.h"

enum { KEY_PROGRAM = CLI_LONG_ONLY, KEY_WITH, KEY_NO_SOURCE };

static const cli_option_t options[] = {
    {'o', "output", "FILE", "only write the page to FILE; do not open it"},
    {KEY_WITH, "with", "VIEWER:" VIEWER_WORDS,
     "show the recording in this viewer. firefox is profiler.firefox.com and speedscope is "
     "speedscope.app: the browser loads the file from this machine, until Ctrl-C. heaptrack and "
     "kcachegrind are started. With -o the file is kept as FILE"},
    {KEY_NO_SOURCE, "no-source", NULL, "leave the source text out of the page"},
    RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "show"),
    CLI_GROUP("names"),
    NAMING_FILE_OPTIONS,
    NAMING_RULE_OPTIONS,
    {0}};

static const cli_usage_t usage = {
    .verb = "view",
    .arguments = "FILE | OLD NEW",
    .about =
        "Opens the recording FILE as a page in the browser: a time line of all threads, flame "
        "graphs, tables of functions, allocations, waits, stalls and calls. The page is one "
        "file, which needs no network and no server. Without -o it is written to the folder "
        "for temporary files. Without a display only its path is printed. With two recordings, "
        "the page is that of NEW, and also shows what changed since OLD.",
    .options = options,
    .examples = {{"sonde view run.sonde", "open the page"},
                 {"sonde view run.sonde -o run.html", "write the page, to send it to others"},
                 {"sonde view old.sonde new.sonde", "show what changed"},
                 {"sonde view --with firefox run.sonde", "show it in the Firefox Profiler"}}};

typedef struct request {
  const char *output; /* of -o; NULL: a temporary file, which is opened */
  naming_t naming;
  uint32_t program;
  bool no_source;
  const viewer_t *viewer; /* of --with, or NULL */
  const char *paths[2];   /* the recording, and the one to compare with or NULL */
  report_t reports[2];
  timeline_t timelines[2];
} request_t;

static bool open_recording(request_t *q, int i) {
  report_t *r = &q->reports[i];
  r->path = q->paths[i];
  r->program = q->program;
  r->naming = &q->naming.options;
  return recording_open_report(r);
}

static int no_memory(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return message_fail("out of memory");
  return message_fail("out of memory: 'ulimit -v' limits sonde to %llu MB; raise the limit",
                      (unsigned long long)limit.rlim_cur / 1000000);
}

static int make_page(request_t *q, const char *path) {
  output_t output;
  page_source_t sources[2];
  for (int i = 0; i < 2 && q->paths[i]; i++) {
    if (!open_recording(q, i)) return CLI_FAILED;
    if (timeline_run(&q->timelines[i], &q->reports[i], &sources[i]) < 0) return no_memory();
  }
  sources[0].has_sources = !q->no_source;
  FILE *out = output_open_stream(&output, path, !q->output, 0600);
  if (!out) return CLI_FAILED;
  int status =
      page_write(&sources[0], q->paths[1] ? &sources[1] : NULL, out) < 0 ? no_memory() : CLI_DONE;
  return output_close_stream(&output, out, status);
}

/* "/tmp/sonde-run.1234.html" for "run.sonde". */
static void default_path(const char *recording, char *out, size_t size) {
  const char *folder = getenv("TMPDIR"), *slash = strrchr(recording, '/');
  static const char kept[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
  char name[64];
  size_t n = 0;
  for (const char *p = slash ? slash + 1 : recording; *p && n < sizeof name - 1; p++)
    name[n++] = strchr(kept, *p) ? *p : '_';
  name[n] = 0;
  if (n > 6 && !strcmp(name + n - 6, ".sonde")) name[n - 6] = 0;
  snprintf(out, size, "%s/sonde-%s.%ld.html", folder && *folder ? folder : "/tmp", name,
           (long)getpid());
}

/* ---- other viewers ------------------------------------------------------------------------- */

static int write_file(void *context, const char *path) {
  request_t *q = context;
  output_t output;
  if (!open_recording(q, 0)) return CLI_FAILED;
  FILE *out = output_open_stream(&output, path, !q->output, 0600);
  if (!out) return CLI_FAILED;
  return output_close_stream(&output, out, export_timeline(&q->reports[0], q->viewer->format, out));
}

static int view_with(request_t *q) {
  int status = viewer_show(q->viewer, q->output, write_file, q);
  if (q->reports[0].reader) reader_close(q->reports[0].reader);
  return status;
}

/* ---- the page ------------------------------------------------------------------------------ */

static int view(request_t *q) {
  char path[PATH_MAX];
  if (!page_is_built())
    return message_fail("this sonde was built without the page: run './run setup' in its source "
                        "folder and build it again. 'sonde report' prints the same figures");
  if (q->output)
    snprintf(path, sizeof path, "%s", q->output);
  else
    default_path(q->paths[0], path, sizeof path);
  int status = make_page(q, path);
  for (int i = 0; i < 2; i++) {
    timeline_free(&q->timelines[i]);
    if (q->reports[i].reader) reader_close(q->reports[i].reader);
  }
  if (status != CLI_DONE) return status;
  if (!q->output && !browser_open(path))
    message_note("no browser can be opened here; the page is in the file below");
  printf("%s\n", path);
  return CLI_DONE;
}

int verb_view(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  static request_t request; /* the curves of the heap are large for a stack */
  const char *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case 'o': request.output = parser.value; break;
    case KEY_WITH:
      request.viewer = viewer_named(parser.value);
      if (request.viewer) break;
      return cli_wrong_use(&usage,
                           "the viewers are firefox, speedscope, heaptrack and "
                           "kcachegrind, not '%s'",
                           parser.value);
    case KEY_NO_SOURCE: request.no_source = true; break;
    case KEY_PROGRAM:
      if (!recording_program(parser.value, &request.program))
        return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
      break;
    default:
      if (naming_take(&request.naming, key, parser.value, &wrong) && wrong)
        return cli_wrong_use(&usage, "%s", wrong);
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 1 && parser.rest_count != 2)
    return cli_wrong_use(&usage, "takes one recording, or two to compare");
  if (request.viewer && parser.rest_count == 2)
    return cli_wrong_use(&usage, "--with takes one recording; only the page compares two");
  if (request.output && strlen(request.output) >= PATH_MAX)
    return message_fail("the name of the page is too long");
  request.paths[0] = parser.rest[parser.rest_count - 1];
  request.paths[1] = parser.rest_count == 2 ? parser.rest[0] : NULL;
  for (int i = 0; i < 2 && request.paths[i]; i++)
    if (recording_is_output(request.paths[i], request.output)) return CLI_FAILED;
  int status = request.viewer ? view_with(&request) : view(&request);
  naming_free(&request.naming);
  return status;
}
