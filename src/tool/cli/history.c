/* SPDX-License-Identifier: MIT
 *
 * sonde history: prints what happened at an address, and from where. An address inside a block
 * belongs to the block. One pass over the recording.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/pager.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "reader/merge.h"
#include "reader/reader.h"
#include "report/frame_names.h"

enum { KEY_PROGRAM = CLI_LONG_ONLY, DEPTH_MAX = 4096 };

static const cli_option_t options[] = {RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "search"), {0}};

static const cli_usage_t usage = {
    .verb = "history",
    .arguments = "FILE ADDRESS",
    .about = "Prints every block of the recording FILE that contained ADDRESS: when and from where "
             "it was allocated, and when and from where it was freed.",
    .options = options,
    .examples = {
        {"sonde history run.sonde 0x7f12a0001230", "which code owned this address, and when"}}};

typedef struct search {
  const reader_t *reader;
  frame_names_t *names;
  uint64_t wanted;
  uint64_t block, size; /* the live block that contains it; size 0: none */
  uint64_t found;
} search_t;

static const char *word_of(const record_event_t *e) {
  switch (e->kind) {
  case EVENT_MALLOC: return "malloc";
  case EVENT_CALLOC: return "calloc";
  case EVENT_ALIGNED: return "aligned";
  case EVENT_REALLOC: return e->moment ? "realloc to" : "realloc from";
  default: return "free";
  }
}

static void print_stack(const search_t *s, uint32_t stack) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  int count = reader_program_stack(s->reader, stack, frames, DEPTH_MAX);
  if (count < 0) printf("    [the stack is not in the recording]\n");
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    int n = frame_names_of_frame(s->names, frames[i], &names);
    for (int k = 0; k < n; k++) {
      printf("    %s", names[k].function);
      if (names[k].file) printf("  %s:%" PRIu32, names[k].file, names[k].line);
      printf("%s\n", names[k].inlined ? "  (inlined)" : "");
    }
  }
}

static void print_event(search_t *s, const record_event_t *e, uint64_t address, uint64_t size) {
  const record_thread_t *t = reader_thread(s->reader, e->stream);
  s->found++;
  printf("%.6f s  %s 0x%" PRIx64, (double)reader_ns(s->reader, e->time) / 1e9, word_of(e), address);
  if (size) printf("  %" PRIu64 " bytes", size);
  if (t) printf("  thread %" PRIu32 " %s", t->tid, t->name);
  printf("  stack %" PRIu32 "\n", e->stack);
  print_stack(s, e->stack);
}

static void check_event(search_t *s, const record_event_t *e) {
  bool frees = e->kind == EVENT_FREE || (e->kind == EVENT_REALLOC && e->moment == 0);
  uint64_t address = e->kind == EVENT_REALLOC && !e->moment ? e->old : e->address;
  if (frees) {
    if (address != s->wanted && !(s->size && address == s->block)) return;
    print_event(s, e, address, address == s->block ? s->size : 0);
    s->size = 0;
  } else if (s->wanted - address < (e->size ? e->size : 1)) {
    print_event(s, e, address, e->size);
    s->block = address;
    s->size = e->size ? e->size : 1;
  }
}

int verb_history(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  uint32_t program = 0;
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (!recording_program(parser.value, &program))
      return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
  if (key < 0) return parser.status;
  search_t s = {0};
  if (parser.rest_count != 2) return cli_wrong_use(&usage, "takes a recording and an address");
  if (!parse_address(parser.rest[1], &s.wanted))
    return cli_wrong_use(&usage, "'%s' is not an address", parser.rest[1]);
  reader_t *reader = recording_open_events(parser.rest[0], program);
  if (!reader) return CLI_FAILED;
  pager_start();
  s.reader = reader;
  s.names = frame_names_new(reader);
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  while (s.names && merge && (e = merge_next(merge)))
    if (e->kind != EVENT_EXTENDED && e->kind != EVENT_SAMPLE) check_event(&s, e);
  bool good = s.names && merge;
  merge_close(merge);
  frame_names_free(s.names);
  reader_close(reader);
  if (!good) return message_fail("out of memory");
  if (!s.found) printf("no block contained 0x%" PRIx64 "\n", s.wanted);
  return CLI_DONE;
}
