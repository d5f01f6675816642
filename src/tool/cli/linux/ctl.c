/* SPDX-License-Identifier: MIT
 *
 * sonde ctl: talks to a program that runs under sonde record.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "recorder/control.h"
#include "cli/verbs.h"

static const cli_usage_t usage = {
    .verb = "ctl",
    .arguments = "PID COMMAND",
    .about =
        "Talks to a program that runs under 'sonde record'; PID is the program's. Commands:\n"
        "  status         what is recorded, how much, what was lost\n"
        "  malloc=MODE    from now on: all, malloc, vm, live, livevm, sample:BYTES or off\n"
        "  sample=HZ      where threads use the CPU; off ends it. Takes effect when the\n"
        "                 program next allocates or starts a thread\n"
        "  trace=on|off   calls of functions that were compiled for it, see 'sonde help record'\n"
        "  snapshot       writes what is live now, in the modes live and livevm\n"
        "  mark NAME      gives this moment a name\n"
        "  stop           ends the recording; the program goes on",
    .examples = {{"sonde ctl 1234 status", "what is on"},
                 {"sonde ctl 1234 malloc=live", "from now on what is live, without history"},
                 {"sonde ctl 1234 mark 'after warm-up'", "names this moment"}}};

static bool join(char *out, size_t size, char **words) {
  size_t n = 0;
  for (; *words; words++) {
    int added = snprintf(out + n, size - n, "%s%s", n ? " " : "", *words);
    if (added < 0 || (size_t)added >= size - n) return false;
    n += (size_t)added;
  }
  return !strchr(out, '\n');
}

int verb_ctl(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  int key;
  while ((key = cli_next(&parser)) > 0) {
  }
  if (key < 0) return parser.status;
  long pid;
  char line[CONTROL_LINE_MAX - 1];
  if (parser.rest_count < 2) return cli_wrong_use(&usage, "takes a process and a command");
  if (!parse_number(parser.rest[0], 1, INT32_MAX, &pid))
    return cli_wrong_use(&usage, "'%s' is not a process id", parser.rest[0]);
  if (!join(line, sizeof line, parser.rest + 1))
    return cli_wrong_use(&usage, "the command is too long, or of several lines");
  char *answer = NULL;
  bool failed = false;
  int status = control_request((pid_t)pid, line, &answer, &failed);
  if (status < 0) return control_print_error((pid_t)pid, status);
  if (failed)
    (void)message_fail("%s", answer);
  else
    fputs(answer, stdout);
  free(answer);
  return failed ? CLI_FAILED : CLI_DONE;
}
