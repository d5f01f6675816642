/* SPDX-License-Identifier: MIT
 *
 * sonde events: prints every event of a recording, in order, one JSON object a line.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/common/call_events.h"
#include "cli/common/naming.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "reader/merge.h"
#include "report/exports/record_lines.h"

enum { KEY_STACKS = CLI_LONG_ONLY, KEY_NAMES, KEY_TABLES, KEY_PROGRAM };

static const cli_option_t options[] = {
    {KEY_STACKS, "stacks", NULL, "add the stack of each event, as program counters"},
    {KEY_NAMES, "names", NULL, "add the stack of each event, as functions"},
    {KEY_TABLES, "tables", NULL,
     "print the definitions first: process, images, threads, frames, stack nodes and others"},
    RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "print"),
    NAMING_FILE_OPTIONS,
    NAMING_APP_OPTIONS,
    {0}};

static const cli_usage_t usage = {
    .verb = "events",
    .arguments = "FILE",
    .about = "Prints every event of the recording FILE in order of time, one JSON object a line. "
             "Times are in nanoseconds since the start of the recording.",
    .options = options,
    .examples = {{"sonde events run.sonde | head", "print the first events"},
                 {"sonde events --stacks run.sonde", "print events with frames"},
                 {"sonde events --names run.sonde", "print events with the functions of frames"},
                 {"sonde events --tables run.sonde", "print every record of the file"}}};

static const char *name_of_kind(uint8_t kind) {
  static const char *const names[] = {"none",   "malloc",  "free",     "realloc",
                                      "calloc", "aligned", "extended", "sample"};
  return kind < sizeof names / sizeof *names ? names[kind] : "other";
}

static void print_event(const record_lines_t *lines, const record_event_t *e) {
  const reader_t *reader = lines->reader;
  const record_thread_t *t = reader_thread(reader, e->stream);
  printf("{\"event\":\"%s\",\"time_ns\":%" PRIu64, name_of_kind(e->kind),
         reader_ns(reader, e->time));
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  if (e->kind == EVENT_SAMPLE) {
    printf(",\"missed\":%" PRIu64 ",\"stack\":%" PRIu32, e->size, e->stack);
    record_lines_stack(lines, e->stack);
    printf("}\n");
    return;
  }
  printf(",\"address\":\"0x%" PRIx64 "\"", e->address);
  if (e->kind == EVENT_REALLOC) printf(",\"old\":\"0x%" PRIx64 "\"", e->old);
  if (e->kind != EVENT_FREE) printf(",\"size\":%" PRIu64, e->size);
  printf(",\"stack\":%" PRIu32, e->stack);
  record_lines_stack(lines, e->stack);
  printf("}\n");
}

static bool print_all(const record_lines_t *lines, call_events_t *calls, merge_t *merge) {
  const record_event_t *e;
  if (!merge || !lines->audit || !calls) return false;
  while ((e = merge_next(merge))) {
    call_events_print(calls, (double)reader_ns(lines->reader, e->time));
    if (e->kind == EVENT_EXTENDED)
      record_lines_extended(lines, e);
    else if (!(e->kind == EVENT_REALLOC && e->moment == 0))
      print_event(lines, e);
  }
  call_events_print(calls, HUGE_VAL);
  return true;
}

static int print_recording(reader_t *reader, const frame_names_options_t *naming, bool stacks,
                           bool names, bool tables) {
  audit_t *audit = audit_new(reader);
  record_lines_t lines = {.reader = reader,
                          .audit = audit,
                          .names = names ? frame_names_new(reader, naming) : NULL,
                          .stacks = stacks,
                          .out = stdout};
  merge_t *merge = merge_open(reader);
  call_events_t *calls = call_events_open(reader);
  if (tables) record_lines_tables(&lines);
  bool good = (lines.names || !names) && print_all(&lines, calls, merge);
  if (lines.names) naming_note_missing(lines.names);
  call_events_close(calls);
  merge_close(merge);
  frame_names_free(lines.names);
  audit_free(audit);
  return good ? CLI_DONE : message_fail("out of memory");
}

int verb_events(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  bool stacks = false, names = false, tables = false;
  uint32_t program = 0;
  naming_t naming = {0};
  const char *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_STACKS: stacks = true; break;
    case KEY_NAMES: names = true; break;
    case KEY_TABLES: tables = true; break;
    case KEY_PROGRAM:
      if (recording_program(parser.value, &program)) break;
      return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
    default:
      if (naming_take(&naming, key, parser.value, &wrong) && wrong)
        return cli_wrong_use(&usage, "%s", wrong);
    }
  if (key < 0) return parser.status;
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes one recording");
  reader_t *reader = recording_open_events(parser.rest[0], program);
  if (!reader) return CLI_FAILED;
  int status = print_recording(reader, &naming.options, stacks, names, tables);
  recording_close(reader, parser.rest[0]);
  naming_free(&naming);
  return status;
}
