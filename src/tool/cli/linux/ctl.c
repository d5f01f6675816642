/* SPDX-License-Identifier: MIT
 *
 * sonde ctl: sends a command to the recorder of a program (recorder/control.h).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/message.h"
#include "cli/cli.h"
#include "recorder/control.h"
#include "cli/verbs.h"

enum { NOTICED_LOOKS = 50 }; /* for a second */

static const cli_part_t parts[] = {
    {.name = "status",
     .form = "status",
     .summary = "show what is recorded, how much, and what was lost",
     .about = "Prints the sensors of the recording, its file and size, how long it has run, and "
              "how many events and stacks were lost, one fact in a line.",
     .examples = {{"sonde ctl 1234 status", "all facts"},
                  {"sonde ctl 1234 status | grep lost", "whether anything is missing"}}},
    {.name = "malloc",
     .form = "malloc=MODE",
     .summary = "record all, malloc, vm, live, livevm, sample:BYTES or off",
     .about =
         "Switches what is recorded of allocations. The recording does not know the blocks that "
         "were allocated before. MODE is:\n"
         "  all           every allocation, free and mapping\n"
         "  malloc        every allocation and free\n"
         "  vm            mappings alone\n"
         "  live, livevm  what is still allocated, without history; livevm: also\n"
         "                what is still mapped\n"
         "  sample:BYTES  on average one block in BYTES\n"
         "  off           nothing",
     .examples = {{"sonde ctl 1234 malloc=live", "record live blocks, without history"},
                  {"sonde ctl 1234 malloc=sample:512K", "record a sample"},
                  {"sonde ctl 1234 malloc=off", "record no allocations"}}},
    {.name = "sample",
     .form = "sample=HZ",
     .summary = "sample running threads; off: stop",
     .about = "Captures the stack of each running thread HZ times in a second of its CPU time, or "
              "stops that with sample=off.",
     .examples = {{"sonde ctl 1234 sample=99", "99 times a second of CPU time"},
                  {"sonde ctl 1234 sample=off", "stop sampling"}}},
    {.name = "trace",
     .form = "trace=on|off",
     .summary = "record calls, see --trace in 'sonde help record'",
     .about = "Stops recording calls, or records them again: those of the functions that --trace "
              "selected, or of all functions that the compiler instrumented. trace=off restores "
              "the code of patched functions.",
     .examples = {{"sonde ctl 1234 trace=on", "record calls from now on"},
                  {"sonde ctl 1234 trace=off", "record no further calls"}}},
    {.name = "snapshot",
     .form = "snapshot",
     .summary = "write the live blocks, in the modes live and livevm",
     .about = "Writes all live blocks to the recording. 'sonde report --from --to' and 'sonde "
              "history' then know them at this time. In other modes the recording has every "
              "allocation already; a mapped region is written.",
     .examples = {{"sonde ctl 1234 snapshot", "write the live blocks now"}}},
    {.name = "mark",
     .form = "mark NAME",
     .summary = "add a marker with the current time",
     .about = "Adds a marker named NAME to the recording. 'sonde report --from NAME' and --to NAME "
              "take it as a time, and the page of 'sonde view' shows it.",
     .examples = {{"sonde ctl 1234 mark 'after warm-up'", "add a marker"},
                  {"sonde report --from 'after warm-up' run.sonde", "report what came later"}}},
    {.name = "attach",
     .form = "attach",
     .summary = "load the agent into a program that is recorded from outside",
     .about = "Loads the agent into a program that 'sonde record -p' records from outside. Then "
              "malloc=MODE works, and 'sonde leaks'.",
     .examples = {{"sonde ctl 1234 attach", "load the agent"},
                  {"sonde ctl 1234 malloc=live", "then record live blocks"}}},
    {.name = "detach",
     .form = "detach",
     .summary = "remove that agent; the recording goes on",
     .about = "Removes the agent that attach or 'sonde record -p' loaded. The recording continues "
              "from outside.",
     .examples = {{"sonde ctl 1234 detach", "remove the agent"}}},
    {.name = "stop",
     .form = "stop",
     .summary = "end the recording; the program continues",
     .about =
         "Ends the recording. The program continues, and 'sonde report' can read the file at once.",
     .examples = {{"sonde ctl 1234 stop", "end the recording"}}},
    {.name = "record",
     .form = "record OPTION…",
     .summary = "begin a recording, as 'sonde record -p PID' does",
     .about = "Begins a recording of a running program, as 'sonde record -p PID OPTION…' does. A "
              "program with libsonde-dormant.so preloaded then wakes.",
     .examples = {{"sonde ctl 1234 record --malloc -o run.sonde", "record allocations"},
                  {"sonde help record", "list the options"}}},
    {0}};

static const cli_usage_t usage = {
    .verb = "ctl",
    .arguments = "PID COMMAND",
    .words = "status malloc=all malloc=malloc malloc=vm malloc=live malloc=livevm malloc=off "
             "sample=99 sample=off trace=on trace=off snapshot mark attach detach stop record",
    .about = "Controls the recording of the program PID, which 'sonde record' started or observes.",
    .parts = parts,
    .parts_are = "commands",
    .before_part = "PID",
    .examples = {{"sonde ctl 1234 status", "show what is recorded"},
                 {"sonde ctl 1234 malloc=live", "record live blocks, without history"},
                 {"sonde ctl 1234 mark 'after warm-up'", "add a marker"}}};

static bool join(char *out, size_t size, char **words) {
  size_t n = 0;
  for (; *words; words++) {
    int added = snprintf(out + n, size - n, "%s%s", n ? " " : "", *words);
    if (added < 0 || (size_t)added >= size - n) return false;
    n += (size_t)added;
  }
  return !strchr(out, '\n');
}

/* "ctl PID record OPTION…" is "record -p PID OPTION…". */
static int record(int argc, char **argv) {
  char dash_p[] = "-p";
  char **words = calloc((size_t)argc + 1, sizeof *words);
  if (!words) return message_fail("out of memory");
  memcpy(words, argv, (size_t)argc * sizeof *words);
  words[0] = argv[2];
  words[2] = argv[1];
  words[1] = dash_p;
  message_set_verb("record");
  int status = verb_record(argc, words);
  free(words);
  return status;
}

static bool has_noticed(pid_t pid) {
  char *reply = NULL;
  bool failed = false;
  int status = control_request(pid, "status", &reply, &failed);
  bool noticed = status < 0 || failed || !strstr(reply, "\nnoticed no\n"); /* or it has ended */
  free(reply);
  return noticed;
}

/* The program reads these settings by itself. */
static void wait_until_noticed(pid_t pid, const char *command) {
  const struct timespec moment = {.tv_nsec = 20000000};
  if (strncmp(command, "trace=", 6) && strncmp(command, "sample=", 7)) return;
  for (int i = 0; i < NOTICED_LOOKS; i++) {
    if (has_noticed(pid)) return;
    nanosleep(&moment, NULL);
  }
  message_note("the program has not noticed yet; it does when one of its threads runs");
}

int verb_ctl(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[2], "record")) return record(argc, argv);
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
    return cli_wrong_use(&usage, "the command is too long, or has several lines");
  char *reply = NULL;
  bool failed = false;
  int status = control_request((pid_t)pid, line, &reply, &failed);
  if (status < 0) return control_print_error((pid_t)pid, status);
  if (failed)
    (void)message_fail("%s", reply);
  else
    fputs(reply, stdout);
  if (!failed) wait_until_noticed((pid_t)pid, line);
  free(reply);
  return failed ? CLI_FAILED : CLI_DONE;
}
