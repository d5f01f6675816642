/* SPDX-License-Identifier: MIT
 *
 * sonde leaks: lists unreachable blocks of a running program, or the references to one block; or
 * those that a recording has of the program's exit (record --leaks).
 *
 * Of a running program: its recorder copies the program (cli/linux/leaks_client.h). The recording
 * shows which blocks were live then; the copy searches its memory for references to them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "cli/linux/leaks_client.h"
#include "report/json.h"
#include "reader/merge.h"
#include "report/leaks/leaks.h"
#include "sonde/status.h"

enum { KEY_JSON = CLI_LONG_ONLY, KEY_TOP, KEY_MAX, KEY_FULL_NAMES };

static const cli_option_t options[] = {
    {KEY_TOP, "top", "N", "list at most N stacks (10)"},
    {KEY_MAX, "max", "SIZE", "exit 1 if more than SIZE is leaked: 0, 64K, 1M"},
    NAMING_FULL_NAMES_OPTION(KEY_FULL_NAMES),
    {KEY_JSON, "json", NULL, "as JSON (docs/json.md)"},
    NAMING_FILE_OPTIONS,
    {0}};

static const cli_usage_t usage = {
    .verb = "leaks",
    .arguments = "PID [ADDRESS] | FILE",
    .about = "Lists leaked blocks of the running program PID by the stack that allocated them.\n"
             "With FILE, a recording of 'sonde record --leaks', lists those that were leaked\n"
             "when the program exited. A block is leaked if no chain of pointers leads to it\n"
             "from a root (a variable, a stack, a register). With ADDRESS, shows what\n"
             "references that block. The program must be recorded with --malloc=live (or\n"
             "all). It is paused while sonde copies it; sonde searches the copy. Only of a\n"
             "process recorded with -p, sonde stops the threads with ptrace.",
    .options = options,
    .examples = {{"sonde leaks 1234", "list leaked blocks"},
                 {"sonde leaks batch.sonde", "those of a program that has ended"},
                 {"sonde leaks 1234 0x7f12a0001230", "show what references this block"},
                 {"sonde leaks 1234 --max 0", "exit 1 if anything is leaked"}}};

typedef struct request {
  naming_t naming;
  leaks_client_t client;
  /* 0: list leaks */
  uint64_t address;
  bool json, limited;
  uint64_t max_bytes;
  report_t report;
  leaks_t leaks;
  char path[64]; /* of the recording, in the recorder's /proc */
} request_t;

/* Sends the blocks that were live when the program was copied. */
static int collect(request_t *l) {
  replay_t replay;
  const replay_options_t window = {.to_ns = reader_ns(l->report.reader, l->leaks.exchange->time)};
  if (replay_run(&replay, l->report.reader, &window) < 0) return message_fail("out of memory");
  int status = leaks_log_is_complete(&replay) ? leaks_collect(&l->leaks, &replay) : SONDE_ENOTFOUND;
  l->leaks.exchange->late = leaks_has_unrecorded(&replay);
  replay_free(&replay);
  if (status == SONDE_ENOTFOUND)
    return message_fail(
        "the recording has lost events, so the live blocks are unknown; run 'sonde ctl %d "
        "malloc=live' and try again",
        (int)l->client.pid);
  if (status == 0) status = leaks_send(&l->leaks);
  if (status == SONDE_EFULL)
    return message_fail("%" PRIu64 " blocks do not fit in the program's address space",
                        l->leaks.count);
  return status < 0 ? message_fail("out of memory") : CLI_DONE;
}

/* ---- printing ----------------------------------------------------------------------------- */

/* The gate --max. */
static int compare(const request_t *l, const leaks_t *leaks) {
  if (!l->limited || leaks->total.bytes <= l->max_bytes) return CLI_DONE;
  char leaked[24], limit[24];
  message_note("%s leaked > %s (--max)", report_bytes((int64_t)leaks->total.bytes, leaked),
               report_bytes((int64_t)l->max_bytes, limit));
  return CLI_FINDING;
}

static int print(request_t *l) {
  const leaks_block_t *block = l->address ? leaks_find(&l->leaks, l->address) : NULL;
  report_t *r = &l->report;
  if (l->address && !block)
    return message_fail("no live block contains 0x%" PRIx64 "; 'sonde history' shows earlier ones",
                        l->address);
  if (l->json) {
    json_object *o = block ? leaks_block_json(r, &l->leaks, l->client.pid, block)
                           : leaks_json(r, &l->leaks, l->client.pid);
    printf("%s\n", json_print(o, JSON_STYLE));
    json_object_put(o);
  } else if (block) {
    leaks_block_text(r, &l->leaks, l->client.pid, block, stdout);
  } else {
    const char *program = reader_argument(r->reader, 0);
    printf("%s%s%s, process %d, %.3f s after the start\n", r->bold, program ? program : "?",
           r->plain, (int)l->client.pid,
           (double)reader_ns(r->reader, l->leaks.exchange->time) / 1e9);
    if (leaks_text(r, &l->leaks, stdout) != 0) return message_fail("out of memory");
  }
  return compare(l, &l->leaks);
}

static int search(request_t *l) {
  snprintf(l->path, sizeof l->path, "/proc/%d/fd/%d", (int)l->client.recorder,
           l->client.recording_fd);
  l->report.path = l->path;
  l->leaks.exchange = leaks_client_map(&l->client, &l->leaks.size);
  if (!l->leaks.exchange) return message_fail("cannot open the recorder's exchange: %s", l->path);
  if (!recording_open_report(&l->report)) return CLI_FAILED;
  int status = collect(l);
  if (status == CLI_DONE && !leaks_client_search(l->leaks.exchange, l->address))
    status = CLI_FAILED;
  if (status == CLI_DONE) {
    l->report.names = frame_names_new(l->report.reader, &l->naming.options);
    if (!l->report.names || leaks_receive(&l->leaks) < 0)
      status = message_fail("cannot read the search result");
    else {
      status = print(l);
      naming_note_missing(l->report.names);
    }
    frame_names_free(l->report.names);
  }
  leaks_free(&l->leaks);
  reader_close(l->report.reader);
  munmap(l->leaks.exchange, l->leaks.size);
  return status;
}

/* ---- of a recording ------------------------------------------------------------------------ */

static bool read_end(leaks_at_end_t *end, reader_t *reader) {
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  bool good = merge != NULL;
  while (good && (e = merge_next(merge)))
    good = leaks_read(end, e);
  merge_close(merge);
  return good;
}

static int print_end(request_t *l, const leaks_at_end_t *end) {
  report_t *r = &l->report;
  if (end->result == LEAKS_UNRECORDED)
    return message_fail("'%s' has no search for leaks; record with 'sonde record --leaks', or run "
                        "'sonde report --by leaked %s malloc' for blocks that were never freed",
                        r->path, r->path);
  if (l->limited && end->result != LEAKS_SEARCHED)
    return message_fail("'%s': the program was not searched for leaks", r->path);
  const char *program = reader_argument(r->reader, 0);
  if (l->json) {
    json_object *o = leaks_at_end_json(r, end);
    printf("%s\n", json_print(o, JSON_STYLE));
    json_object_put(o);
  } else {
    printf("%s%s%s, process %u\n", r->bold, program ? program : "?", r->plain,
           reader_header(r->reader)->pid);
    if (leaks_at_end_text(r, end, stdout) != 0) return message_fail("out of memory");
  }
  naming_note_missing(r->names);
  return compare(l, &end->leaks);
}

static int read_recording(request_t *l) {
  leaks_at_end_t end = {0};
  report_t *r = &l->report;
  if (!recording_open_report(r)) return CLI_FAILED;
  r->names = frame_names_new(r->reader, &l->naming.options);
  int status =
      r->names && read_end(&end, r->reader) ? print_end(l, &end) : message_fail("out of memory");
  leaks_at_end_free(&end);
  frame_names_free(r->names);
  reader_close(r->reader);
  return status;
}

int verb_leaks(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  request_t l = {0};
  const char *wrong;
  long pid, top = 10;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON: l.json = true; break;
    case KEY_TOP:
      if (!parse_number(parser.value, 1, 100000000, &top))
        return cli_wrong_use(&usage, "--top takes a number, at least 1");
      break;
    case KEY_MAX:
      l.limited = true;
      if (strcmp(parser.value, "0") && !parse_size(parser.value, &l.max_bytes))
        return cli_wrong_use(&usage, "--max takes a size such as 64K, or 0");
      break;
    case KEY_FULL_NAMES: l.report.full_names = true; break;
    default:
      if (naming_take(&l.naming, key, parser.value, &wrong) && wrong)
        return cli_wrong_use(&usage, "%s", wrong);
    }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1 || parser.rest_count > 2)
    return cli_wrong_use(&usage, "takes a process id and optionally the address of a block, or a "
                                 "recording");
  l.report.top = (uint32_t)top;
  if (!parse_number(parser.rest[0], 1, INT32_MAX, &pid)) {
    if (parser.rest_count == 2) return cli_wrong_use(&usage, "ADDRESS needs a running program");
    l.report.path = parser.rest[0];
    return read_recording(&l);
  }
  if (parser.rest_count == 2 && (!parse_address(parser.rest[1], &l.address) || !l.address))
    return cli_wrong_use(&usage, "'%s' is not an address", parser.rest[1]);
  if (!leaks_client_begin(&l.client, (pid_t)pid)) return CLI_FAILED;
  int status = search(&l);
  leaks_client_end(&l.client);
  return status;
}
