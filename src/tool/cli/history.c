/* SPDX-License-Identifier: MIT
 *
 * sonde history: prints what happened at an address, and from where; or the frames of a stack id,
 * and what happened there. An address inside a block belongs to the block. One pass over the
 * recording.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/naming.h"
#include "cli/common/pager.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "analysis/crash.h"
#include "analysis/summary/summary.h"
#include "reader/body.h"
#include "reader/merge.h"
#include "reader/reader.h"
#include "report/report.h"

enum { KEY_PROGRAM = CLI_LONG_ONLY, DEPTH_MAX = 4096 };

static const cli_option_t options[] = {RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "search"),
                                       PAGER_OPTION,
                                       NAMING_FILE_OPTIONS,
                                       NAMING_APP_OPTIONS,
                                       {0}};

static const cli_usage_t usage = {
    .verb = "history",
    .arguments = "FILE ADDRESS|stack:ID",
    .about = "Prints every block of the recording FILE that contained ADDRESS: when and from where "
             "it was allocated, and when and from where it was freed.\n"
             "With stack:ID, prints the frames of that stack, and how often what was recorded "
             "there. 'sonde events' and other reports print stack ids.",
    .options = options,
    .examples = {
        {"sonde history run.sonde 0x7f12a0001230", "which code owned this address, and when"},
        {"sonde history run.sonde stack:1712", "the frames of a stack id, and its events"}}};

typedef struct search {
  reader_t *reader;
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
  int count = frame_names_frames(s->names, stack, frames, DEPTH_MAX);
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

/* ---- a stack ------------------------------------------------------------------------------ */

enum { KINDS = EVENT_SAMPLE + 1 };

/* What was recorded with one stack. */
typedef struct stack_events {
  uint64_t counts[KINDS]; /* by event_kind_t; EVENT_EXTENDED: mappings and audited calls */
  uint64_t bytes;         /* allocated */
  uint64_t first, last;   /* ticks */
  crash_t crash;
} stack_events_t;

/* The stack of an extended record that begins with it, after COUNT numbers; 0: none. */
static uint32_t stack_after(const record_event_t *e, int count) {
  uint64_t n[4] = {0};
  return body_numbers(e, n, count + 1) && n[count] <= UINT32_MAX ? (uint32_t)n[count] : 0;
}

static uint32_t stack_of(const record_event_t *e) {
  if (e->kind != EVENT_EXTENDED) return e->stack;
  switch (e->subtype) {
  case EXTENDED_MAPPING:
  case EXTENDED_POOL:
  case EXTENDED_WALL: return stack_after(e, 3);
  case EXTENDED_STALL_SAMPLE: return stack_after(e, 2);
  case EXTENDED_AUDIT: return stack_after(e, 1);
  default: return 0;
  }
}

static void count_event(stack_events_t *s, const record_event_t *e) {
  bool any = false;
  for (int i = 0; i < KINDS; i++)
    any |= s->counts[i] != 0;
  if (!any) s->first = e->time;
  s->last = e->time;
  s->counts[e->kind]++;
  if (e->kind != EVENT_SAMPLE && e->kind != EVENT_EXTENDED) s->bytes += e->size;
}

/* The last stacks of threads when the program crashed. */
static bool print_crash(const stack_events_t *found, uint32_t stack) {
  const crash_t *c = &found->crash;
  bool any = c->number && c->crashed.stack == stack;
  if (any) printf("thread %" PRIu64 " crashed here\n", c->crashed.tid);
  for (size_t i = 0; i < c->count; i++) {
    if (c->others[i].stack != stack) continue;
    printf("thread %" PRIu64 " was here when the program crashed\n", c->others[i].tid);
    any = true;
  }
  return any;
}

static void print_counts(const search_t *s, const stack_events_t *found, uint32_t stack) {
  static const char *const words[KINDS] = {"",       "malloc",  "free",          "realloc",
                                           "calloc", "aligned", "other records", "samples"};
  const char *comma = "";
  char count[24], bytes[24];
  bool is_of_crash = print_crash(found, stack);
  for (int i = 0; i < KINDS; i++)
    if (found->counts[i]) {
      printf("%s%s %s", comma, report_count(found->counts[i], count), words[i]);
      comma = ", ";
    }
  if (!*comma) {
    if (!is_of_crash) printf("no event has this stack\n");
    return;
  }
  if (found->bytes) printf(", %s allocated", report_bytes((int64_t)found->bytes, bytes));
  printf("; from %.6f s to %.6f s\n", (double)reader_ns(s->reader, found->first) / 1e9,
         (double)reader_ns(s->reader, found->last) / 1e9);
}

static bool find_stack(search_t *s, uint32_t stack, stack_events_t *found) {
  const record_event_t *e;
  merge_t *merge = merge_open(s->reader);
  bool good = merge != NULL;
  while (good && (e = merge_next(merge))) {
    if (!(e->kind == EVENT_REALLOC && !e->moment) && stack_of(e) == stack) count_event(found, e);
    good = crash_add(&found->crash, e);
  }
  merge_close(merge);
  return good;
}

static int print_stack_events(search_t *s, uint32_t stack) {
  stack_events_t found = {0};
  const record_frame_t *frame;
  if (reader_stack(s->reader, stack, &frame, 1) < 0)
    return message_fail("no stack %" PRIu32 " in the recording", stack);
  if (!is_summary(s->reader) && !find_stack(s, stack, &found)) {
    crash_free(&found.crash);
    return message_fail("out of memory");
  }
  printf("stack %" PRIu32 "\n", stack);
  print_stack(s, stack);
  if (!is_summary(s->reader)) print_counts(s, &found, stack);
  crash_free(&found.crash);
  return CLI_DONE;
}

/* "stack:ID" */
static bool parse_stack(const char *text, uint32_t *out) {
  static const char prefix[] = "stack:";
  long number;
  if (strncmp(text, prefix, sizeof prefix - 1)) return false;
  if (!parse_number(text + sizeof prefix - 1, 1, UINT32_MAX, &number)) return false;
  *out = (uint32_t)number;
  return true;
}

/* ---- the verb ----------------------------------------------------------------------------- */

static int print_address(search_t *s) {
  merge_t *merge = merge_open(s->reader);
  const record_event_t *e;
  while (merge && (e = merge_next(merge)))
    if (e->kind != EVENT_EXTENDED && e->kind != EVENT_SAMPLE) check_event(s, e);
  merge_close(merge);
  if (!merge) return message_fail("out of memory");
  if (!s->found) printf("no block contained 0x%" PRIx64 "\n", s->wanted);
  return CLI_DONE;
}

int verb_history(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  uint32_t program = 0;
  naming_t naming = {0};
  const char *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (naming_take(&naming, key, parser.value, &wrong)) {
      if (wrong) return cli_wrong_use(&usage, "%s", wrong);
    } else if (key == PAGER_KEY_NONE) {
      pager_disable();
    } else if (!recording_program(parser.value, &program))
      return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
  if (key < 0) return parser.status;
  search_t s = {0};
  uint32_t stack = 0;
  if (parser.rest_count != 2)
    return cli_wrong_use(&usage, "takes a recording, and an address or stack:ID");
  bool by_stack = parse_stack(parser.rest[1], &stack);
  if (!by_stack && !parse_address(parser.rest[1], &s.wanted))
    return cli_wrong_use(&usage, "'%s' is neither an address nor stack:ID", parser.rest[1]);
  s.reader = by_stack ? recording_open_program(parser.rest[0], program)
                      : recording_open_events(parser.rest[0], program);
  if (!s.reader) return CLI_FAILED;
  pager_start();
  s.names = frame_names_new(s.reader, &naming.options);
  int status = !s.names   ? message_fail("out of memory")
               : by_stack ? print_stack_events(&s, stack)
                          : print_address(&s);
  if (s.names) naming_note_missing(s.names);
  frame_names_free(s.names);
  naming_free(&naming);
  reader_close(s.reader);
  return status;
}
