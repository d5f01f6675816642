/* SPDX-License-Identifier: MIT
 *
 * sonde stacks: prints the stacks of all threads of a running process or a core file.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/pager.h"
#include "report/stacks/goroutines.h"
#include "report/stacks/stacks.h"
#include "report/stacks/tail_frames.h"
#include "cli/verbs.h"
#include "target/target.h"

enum {
  KEY_CORE = CLI_LONG_ONLY,
  KEY_EXE,
  KEY_TID,
  KEY_DEPTH,
  KEY_NO_LINES,
  KEY_NATIVE,
  KEY_ASYNC,
  KEY_ZERO_TOUCH,
  KEY_FULL_NAMES,
  KEY_JSON,
};

static const cli_option_t options[] = {
    {KEY_CORE, "core", "FILE", "read a core file instead of a running process"},
    {KEY_EXE, "exe", "FILE", "with --core: the program that dumped core"},
    {KEY_TID, "tid", "TID", "only this thread"},
    {KEY_DEPTH, "depth", "N", "at most N innermost frames per thread"},
    {KEY_NO_LINES, "no-lines", NULL, "only functions: no files, lines or inlined functions"},
    NAMING_FILE_OPTIONS,
    NAMING_APP_OPTIONS,
    {KEY_NATIVE, "native", NULL,
     "also the native frames of an interpreter, and goroutines of Go's runtime"},
    {KEY_ASYNC, "async", NULL,
     "show the callers of Swift's async functions instead of their executor"},
    {KEY_ZERO_TOUCH, "zero-touch", NULL, "stop no thread: running threads have no frames"},
    NAMING_FULL_NAMES_OPTION(KEY_FULL_NAMES),
    {KEY_JSON, "json", NULL, "as JSON (docs/json.md)"},
    PAGER_OPTION,
    {0}};

static const cli_usage_t usage = {
    .verb = "stacks",
    .arguments = "PID",
    .about = "Prints the current stack of every thread of a process. Threads that wait in a\n"
             "system call are read without a stop; running threads are stopped for some\n"
             "microseconds.",
    .options = options,
    .examples = {{"sonde stacks 1234", "all threads of process 1234"},
                 {"sonde stacks --zero-touch 1234", "without stopping any thread"},
                 {"sonde stacks --json 1234 | jq '.threads[].wait'", "as JSON, for other programs"},
                 {"sonde stacks --core core.1234", "all threads of a core file"}}};

typedef struct request {
  stacks_options_t capture;
  stack_symbolizer_options_t names;
  const char *core, *exe;
  bool json, native, async, full_names;
  naming_t naming;
  long pid;
} request_t;

static bool take_option(request_t *request, int key, const char *value) {
  long number;
  switch (key) {
  case KEY_CORE: request->core = value; break;
  case KEY_EXE: request->exe = value; break;
  case KEY_NO_LINES: request->names.no_lines = true; break;
  case KEY_NATIVE: request->native = true; break;
  case KEY_ASYNC: request->async = true; break;
  case KEY_ZERO_TOUCH: request->capture.touch = TOUCH_NONE; break;
  case KEY_FULL_NAMES: request->full_names = true; break;
  case KEY_JSON: request->json = true; break;
  case PAGER_KEY_NONE: pager_disable(); break;
  case KEY_TID:
    if (!parse_number(value, 1, INT32_MAX, &number)) return false;
    request->capture.tid = (pid_t)number;
    break;
  case KEY_DEPTH:
    if (!parse_number(value, 1, 1 << 20, &number)) return false;
    request->capture.depth = (uint32_t)number;
    break;
  }
  return true;
}

/* Parses the command line. Returns an exit status, or -1 to continue. */
static int read_request(int argc, char **argv, request_t *request) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  const char *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (naming_take(&request->naming, key, parser.value, &wrong)) {
      if (wrong) return cli_wrong_use(&usage, "%s", wrong);
    } else if (!take_option(request, key, parser.value))
      return cli_wrong_use(&usage, "'%s' is not a number in the range of that option",
                           parser.value);
  if (key < 0) return parser.status;
  if (request->core) {
    if (parser.rest_count > 0) return cli_wrong_use(&usage, "give a PID or --core, not both");
    return -1;
  }
  if (request->exe) return cli_wrong_use(&usage, "--exe needs --core");
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes one PID (or --core FILE)");
  if (!parse_number(parser.rest[0], 1, INT32_MAX, &request->pid))
    return cli_wrong_use(&usage, "'%s' is not a process id (`pgrep -a NAME` finds one by name)",
                         parser.rest[0]);
  return -1;
}

static int show(target_t *target, const request_t *request) {
  stack_symbolizer_options_t names = request->names;
  names.system = request->naming.options.system;
  names.debug_dirs = request->naming.options.debug_dirs;
  names.sysroots = request->naming.options.sysroots;
  stack_symbolizer_t *symbolizer = stack_symbolizer_new(target, &names);
  if (!symbolizer) return message_fail("out of memory");
  stacks_view_t view = {.target = target,
                        .symbolizer = symbolizer,
                        .app_only = request->naming.options.app_only,
                        .native = request->native,
                        .full_names = request->full_names};
  goroutines_t goroutines = {0};
  if (!request->capture.tid)
    goroutines_read(&goroutines, target, symbolizer, request->capture.depth);
  if (goroutines.is_go) view.goroutines = &goroutines;
  if (!request->names.no_lines) view.tail_frames = tail_frames_new(target, symbolizer);
  if (request->json) {
    stacks_json(stdout, &view);
  } else {
    pager_start();
    stacks_text(stdout, &view);
  }
  tail_frames_free(view.tail_frames);
  goroutines_free(&goroutines);
  stack_symbolizer_free(symbolizer);
  return CLI_DONE;
}

static int run(request_t *request) {
  problem_t problem = {{0}};
  int status;
  if (request->pid == getpid()) return message_fail("sonde cannot read its own stacks");
  target_t *target = request->core ? target_open_core(request->core, request->exe,
                                                      request->naming.options.sysroots, &problem)
                                   : target_open_process((pid_t)request->pid, &problem);
  if (!target) return message_fail("%s", problem.text);
  target->follows_async = request->async;
  if (stacks_capture(target, &request->capture, &problem))
    status = show(target, request);
  else
    status = message_fail("%s", problem.text);
  target_close(target);
  return status;
}

int verb_stacks(int argc, char **argv) {
  request_t request = {.capture = {.depth = STACKS_DEPTH_DEFAULT, .interpreted = true}};
  request.names.progress = terminal_index_progress;
  int status = read_request(argc, argv, &request);
  if (status < 0) status = run(&request);
  naming_free(&request.naming);
  return status;
}
