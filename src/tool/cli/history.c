/* SPDX-License-Identifier: MIT
 *
 * sonde history: prints what happened at an address, and from where; or the frames of a stack id,
 * and what happened there. An address inside a block belongs to the block. One pass over the
 * recording.
 */
#include <inttypes.h>
#include <limits.h>
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

enum { KEY_PROGRAM = CLI_LONG_ONLY, KEY_FULL_NAMES, DEPTH_MAX = 4096, INDENT = 4 };

static const cli_option_t options[] = {RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "search"),
                                       NAMING_FULL_NAMES_OPTION(KEY_FULL_NAMES),
                                       PAGER_OPTION,
                                       NAMING_FILE_OPTIONS,
                                       NAMING_APP_OPTIONS,
                                       {0}};

static const cli_usage_t usage = {
    .verb = "history",
    .arguments = "FILE ADDRESS|STACK",
    .about =
        "Prints every block of the recording FILE that contained ADDRESS: when and from where "
        "it was allocated, and when and from where it was freed.\n"
        "With the id of a stack, prints its frames, and the number of events of each kind that "
        "have it. 'sonde events' and reports print ids. A decimal number is an id (1712, "
        "stack:1712); an address begins with 0x.",
    .options = options,
    .examples = {
        {"sonde history run.sonde 0x7f12a0001230", "which code owned this address, and when"},
        {"sonde history run.sonde 1712", "the frames of a stack id, and its events"}}};

typedef struct search {
  reader_t *reader;
  frame_names_t *names;
  report_t style; /* the width of lines */
  uint64_t wanted;
  uint64_t block, size; /* the live block that contains it; size 0: none */
  uint64_t block_time;  /* of a block of a snapshot */
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

static void print_function(const search_t *s, const frame_name_t *name) {
  char text[REPORT_NAME_MAX], place[PATH_MAX + 32] = "";
  const char *inlined = name->inlined ? "  (inlined)" : "";
  if (name->file) report_place(&s->style, name, place, sizeof place);
  int room = (int)s->style.columns - INDENT - (int)strlen(place) - (int)strlen(inlined);
  printf("%*s%s%s%s\n", INDENT, "", report_name(&s->style, name, room, text), place, inlined);
}

static void print_stack(const search_t *s, uint32_t stack) {
  const record_frame_t *frames[DEPTH_MAX];
  const frame_name_t *names;
  int count = frame_names_frames(s->names, stack, frames, DEPTH_MAX);
  if (count < 0) printf("    [the stack is not in the recording]\n");
  for (int i = 0; i < count && i < DEPTH_MAX; i++) {
    int n = frame_names_of_frame(s->names, frames[i], &names);
    for (int k = 0; k < n; k++)
      print_function(s, &names[k]);
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

/* A block of a snapshot, which a recording of live blocks has instead of events. */
typedef struct listed_block {
  search_t *search;
  uint64_t time; /* of the snapshot */
} listed_block_t;

/* A block that several snapshots list is printed once. */
static bool check_block(void *context, const record_block_t *b) {
  const listed_block_t *listed = context;
  search_t *s = listed->search;
  if (s->wanted - b->address >= (b->size ? b->size : 1)) return true;
  if (s->found && s->block == b->address && s->block_time == b->time) return true;
  const record_event_t e = {
      .kind = EVENT_MALLOC, .time = b->time, .stream = b->stream, .stack = b->stack};
  print_event(s, &e, b->address, b->size);
  printf("%.6f s  still allocated\n", (double)reader_ns(s->reader, listed->time) / 1e9);
  s->block = b->address;
  s->block_time = b->time;
  return true;
}

static void check_extended(search_t *s, const record_event_t *e) {
  listed_block_t listed = {s, e->time};
  if (e->subtype == EXTENDED_BLOCKS) (void)body_blocks(e, check_block, &listed);
}

/* ---- a stack ------------------------------------------------------------------------------ */

enum { KINDS = EVENT_SAMPLE + 1, NUMBERS_MAX = 8, LEAKED_NUMBERS = 9, ONE = NUMBERS_MAX };

/* Extended records with a stack: the places of the stack, and of how many events they stand for,
 * among the numbers of the body. */
typedef struct stack_place {
  uint8_t subtype, stack, weight;
  const char *word;
} stack_place_t;

static const stack_place_t places[] = {
    {EXTENDED_MAPPING, 3, ONE, "calls for mappings"},
    {EXTENDED_POOL, 3, ONE, "pool blocks"},
    {EXTENDED_WALL, 3, 2, "wall samples"},
    {EXTENDED_STALL_SAMPLE, 2, ONE, "stall samples"},
    {EXTENDED_STALL_LOCK, 6, ONE, "locks that a stall waited for"},
    {EXTENDED_AUDIT, 1, ONE, "audited calls"},
    {EXTENDED_SYSCALL, 3, 4, "system calls"},
    {EXTENDED_MARKER, 0, ONE, "markers"}};
enum { PLACES = sizeof places / sizeof *places };

/* What was recorded with one stack. */
typedef struct stack_events {
  uint32_t stack;
  uint64_t counts[KINDS]; /* by event_kind_t; without EVENT_EXTENDED */
  uint64_t extended[PLACES];
  uint64_t bytes;       /* allocated */
  uint64_t first, last; /* ticks */
  uint64_t live, live_bytes, leaked, leaked_bytes;
  bool any;
  crash_t crash;
} stack_events_t;

static void note_time(stack_events_t *s, const record_event_t *e) {
  if (!s->any) s->first = e->time;
  s->any = true;
  s->last = e->time;
}

/* The stack of a marker follows its name. */
static bool is_at(const stack_events_t *s, const stack_place_t *place, const record_event_t *e,
                  uint64_t *weight) {
  uint64_t n[NUMBERS_MAX + 1] = {[ONE] = 1}, size;
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  if (e->subtype == EXTENDED_MARKER) (void)body_string(&b, &size);
  int last = place->weight < ONE && place->weight > place->stack ? place->weight : place->stack;
  for (int i = 0; i <= last; i++)
    n[i] = body_number(&b);
  *weight = n[place->weight];
  return !b.truncated && n[place->stack] == s->stack;
}

/* The blocks of the last snapshot. */
static bool add_block(void *context, const record_block_t *block) {
  stack_events_t *s = context;
  if (block->stack != s->stack) return true;
  s->live++;
  s->live_bytes += block->size;
  return true;
}

static void add_leaked(stack_events_t *s, const record_event_t *e) {
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  while (b.p < b.end && !b.truncated) {
    uint64_t n[LEAKED_NUMBERS];
    for (int i = 0; i < LEAKED_NUMBERS; i++)
      n[i] = body_number(&b);
    if (b.truncated || n[0] != s->stack) continue;
    s->leaked += n[1];
    s->leaked_bytes += n[2];
  }
}

static void add_extended(stack_events_t *s, const record_event_t *e) {
  uint64_t weight;
  if (e->subtype == EXTENDED_SNAPSHOT) s->live = s->live_bytes = 0;
  if (e->subtype == EXTENDED_BLOCKS) (void)body_blocks(e, add_block, s);
  if (e->subtype == EXTENDED_LEAKED) add_leaked(s, e);
  for (int i = 0; i < PLACES; i++)
    if (places[i].subtype == e->subtype && is_at(s, &places[i], e, &weight)) {
      s->extended[i] += weight;
      note_time(s, e);
    }
}

static void add_event(stack_events_t *s, const record_event_t *e) {
  if (e->kind == EVENT_EXTENDED) {
    add_extended(s, e);
  } else if (e->stack == s->stack && e->kind < KINDS) {
    note_time(s, e);
    s->counts[e->kind]++;
    if (e->kind != EVENT_SAMPLE) s->bytes += e->size;
  }
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

static void print_count(const char **comma, uint64_t value, const char *word) {
  char text[24];
  if (value) printf("%s%s %s", *comma, report_count(value, text), word);
  if (value) *comma = ", ";
}

/* BYTES in COUNT blocks that are WHAT. */
static bool print_blocks(uint64_t count, uint64_t bytes, const char *what) {
  char text[24], size[24];
  if (count)
    printf("%s in %s block%s %s\n", report_bytes((int64_t)bytes, size), report_count(count, text),
           report_plural(count), what);
  return count;
}

static void print_counts(const search_t *s, const stack_events_t *found) {
  static const char *const words[KINDS] = {"",       "malloc",  "free", "realloc",
                                           "calloc", "aligned", "",     "samples"};
  const char *comma = "";
  char bytes[24];
  bool any = print_crash(found, found->stack);
  any |= print_blocks(found->live, found->live_bytes, "live in the last snapshot");
  any |= print_blocks(found->leaked, found->leaked_bytes, "leaked");
  for (int i = 0; i < KINDS; i++)
    print_count(&comma, found->counts[i], words[i]);
  for (int i = 0; i < PLACES; i++)
    print_count(&comma, found->extended[i], places[i].word);
  if (!found->any) {
    if (!any) printf("no event has this stack\n");
    return;
  }
  if (found->bytes) printf(", %s allocated", report_bytes((int64_t)found->bytes, bytes));
  printf("; from %.6f s to %.6f s\n", (double)reader_ns(s->reader, found->first) / 1e9,
         (double)reader_ns(s->reader, found->last) / 1e9);
}

static bool find_stack(search_t *s, stack_events_t *found) {
  const record_event_t *e;
  merge_t *merge = merge_open(s->reader);
  bool good = merge != NULL;
  while (good && (e = merge_next(merge))) {
    if (!(e->kind == EVENT_REALLOC && !e->moment)) add_event(found, e);
    good = crash_add(&found->crash, e);
  }
  merge_close(merge);
  return good;
}

static int print_stack_events(search_t *s, uint32_t stack) {
  stack_events_t found = {.stack = stack};
  const record_frame_t *frame;
  if (reader_stack(s->reader, stack, &frame, 1) < 0)
    return message_fail("no stack %" PRIu32 " in the recording", stack);
  if (!is_summary(s->reader) && !find_stack(s, &found)) {
    crash_free(&found.crash);
    return message_fail("out of memory");
  }
  printf("stack %" PRIu32 "\n", stack);
  print_stack(s, stack);
  if (!is_summary(s->reader)) print_counts(s, &found);
  crash_free(&found.crash);
  return CLI_DONE;
}

/* An id as reports and events print it: 12, stack:12, stack 12. Addresses begin with 0x, have a
 * letter, or are larger than an id. */
static bool parse_stack(char **words, int count, uint32_t *out) {
  static const char prefix[] = "stack:";
  const char *id = words[count - 1];
  long number;
  if (count > 1 && strcmp(words[0], "stack") != 0) return false;
  if (count == 1 && !strncmp(id, prefix, sizeof prefix - 1)) id += sizeof prefix - 1;
  if (!parse_number(id, 1, UINT32_MAX, &number)) return false;
  *out = (uint32_t)number;
  return true;
}

/* ---- the verb ----------------------------------------------------------------------------- */

static int print_address(search_t *s) {
  merge_t *merge = merge_open(s->reader);
  const record_event_t *e;
  while (merge && (e = merge_next(merge)))
    if (e->kind == EVENT_EXTENDED)
      check_extended(s, e);
    else if (e->kind != EVENT_SAMPLE)
      check_event(s, e);
  merge_close(merge);
  if (!merge) return message_fail("out of memory");
  if (!s->found) printf("no block contained 0x%" PRIx64 "\n", s->wanted);
  return CLI_DONE;
}

int verb_history(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  uint32_t program = 0;
  naming_t naming = {0};
  search_t s = {0};
  const char *wrong;
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (naming_take(&naming, key, parser.value, &wrong)) {
      if (wrong) return cli_wrong_use(&usage, "%s", wrong);
    } else if (key == PAGER_KEY_NONE) {
      pager_disable();
    } else if (key == KEY_FULL_NAMES) {
      s.style.full_names = true;
    } else if (!recording_program(parser.value, &program))
      return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
  if (key < 0) return parser.status;
  uint32_t stack = 0;
  if (parser.rest_count < 2 || parser.rest_count > 3)
    return cli_wrong_use(&usage, "takes a recording, and an address or the id of a stack");
  bool by_stack = parse_stack(parser.rest + 1, parser.rest_count - 1, &stack);
  if (!by_stack && (parser.rest_count > 2 || !parse_address(parser.rest[1], &s.wanted)))
    return cli_wrong_use(&usage,
                         "'%s' is neither an address (0x7f12a0001230) nor a stack id (1712)",
                         parser.rest[parser.rest_count - 1]);
  s.reader = by_stack ? recording_open_program(parser.rest[0], program)
                      : recording_open_events(parser.rest[0], program);
  if (!s.reader) return CLI_FAILED;
  s.style.columns = s.style.full_names ? 0 : terminal_columns(stdout);
  pager_start();
  s.names = frame_names_new(s.reader, &naming.options);
  int status = !s.names   ? message_fail("out of memory")
               : by_stack ? print_stack_events(&s, stack)
                          : print_address(&s);
  if (s.names) naming_note_missing(s.names);
  frame_names_free(s.names);
  naming_free(&naming);
  recording_close(s.reader, parser.rest[0]);
  return status;
}
