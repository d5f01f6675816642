/* SPDX-License-Identifier: MIT
 *
 * sonde top: parses the options and shows the live view (top/top.h).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/verbs.h"
#include "top/top.h"

enum { KEY_ONCE = CLI_LONG_ONLY };

#define DELAY_WRONG "--delay takes seconds from 0.1 to 60"

static const cli_option_t options[] = {
    {'d', "delay", "SECONDS", "time between two frames (1)"},
    {'n', "frames", "N", "print N frames as text instead of the live view"},
    {KEY_ONCE, "once", NULL, "the same as -n 1"},
    {'o', "output", "FILE",
     "with COMMAND: keep the recording, with the sensors of\n"
     "'sonde record'"},
    {0}};

static const cli_usage_t usage = {
    .verb = "top",
    .arguments = "PID | -- COMMAND…",
    .about = "Shows the threads of a program with their states, CPU time and waits, and the\n"
             "functions that used the CPU in the last 10 s. The key ? lists the keys. top\n"
             "reads the process PID from outside and needs no agent. It starts COMMAND with\n"
             "the agent, and then shows live heap and allocations, too. COMMAND reads from\n"
             "/dev/null, its output appears when top ends, and quitting top ends it.\n"
             "\n"
             "If standard output is no terminal, top prints one frame.",
    .options = options,
    .examples = {{"sonde top 1234", "the live view of process 1234"},
                 {"sonde top -- ./server --port 80", "starts a program, with allocations"},
                 {"sonde top --once 1234", "one frame as text"},
                 {"sonde top -n 60 -d 10 1234 >log", "a frame every 10 s, 10 minutes long"}}};

static bool parse_delay(const char *text, uint64_t *ns) {
  char *end;
  double seconds = strtod(text, &end);
  if (end == text || *end || !(seconds >= 0.1 && seconds <= 60)) return false;
  *ns = (uint64_t)(seconds * 1e9);
  return true;
}

/* Sets the program from the other arguments. Returns an exit status, or -1 to continue. */
static int parse_program(const cli_parser_t *parser, bool is_command, top_options_t *out) {
  long pid;
  if (is_command) {
    out->command = parser->rest;
    return -1;
  }
  if (out->output) return cli_wrong_use(&usage, "--output needs a command after --");
  if (parser->rest_count != 1) return cli_wrong_use(&usage, "takes one PID, or -- and a command");
  if (!parse_number(parser->rest[0], 1, INT32_MAX, &pid))
    return cli_wrong_use(&usage,
                         "'%s' is not a process id (`pgrep -a NAME` finds one by name); "
                         "a command follows --",
                         parser->rest[0]);
  if (pid == getpid()) return message_fail("sonde cannot watch itself");
  out->pid = (pid_t)pid;
  return -1;
}

int verb_top(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  top_options_t o = {.period_ns = 1000000000u};
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case 'd':
      if (!parse_delay(parser.value, &o.period_ns)) return cli_wrong_use(&usage, DELAY_WRONG);
      break;
    case 'n':
      if (!parse_number(parser.value, 1, 1000000, &o.frames))
        return cli_wrong_use(&usage, "--frames takes a number from 1 to 1000000");
      break;
    case KEY_ONCE: o.frames = 1; break;
    case 'o': o.output = parser.value; break;
    }
  if (key < 0) return parser.status;
  bool is_command = parser.rest_count > 0 && strcmp(parser.rest[-1], "--") == 0;
  int status = parse_program(&parser, is_command, &o);
  return status < 0 ? top_show(&o) : status;
}
