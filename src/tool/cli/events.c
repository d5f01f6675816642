/* SPDX-License-Identifier: MIT
 *
 * sonde events: prints every event of a recording, in order, one JSON object a line.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/audit/audit.h"
#include "analysis/usage.h"
#include "analysis/wall.h"
#include "cli/cli.h"
#include "cli/common/call_events.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "reader/body.h"
#include "reader/merge.h"
#include "reader/reader.h"
#include "report/json.h"
#include "sonde/stack.h"

enum { KEY_STACKS = CLI_LONG_ONLY, KEY_PROGRAM, FRAMES_MAX = 1024 };

static const cli_option_t options[] = {
    {KEY_STACKS, "stacks", NULL, "add the stack of each event, as program counters"},
    RECORDING_PROGRAM_OPTION(KEY_PROGRAM, "print"),
    {0}};

static const cli_usage_t usage = {
    .verb = "events",
    .arguments = "FILE",
    .about = "Prints every event of the recording FILE in order of time, one JSON object a line. "
             "Times are in nanoseconds since the start of the recording.",
    .options = options,
    .examples = {{"sonde events run.sonde | head", "print the first events"},
                 {"sonde events --stacks run.sonde", "print events with frames"}}};

static const char *name_of_kind(uint8_t kind) {
  static const char *const names[] = {"none",   "malloc",  "free",     "realloc",
                                      "calloc", "aligned", "extended", "sample"};
  return kind < sizeof names / sizeof *names ? names[kind] : "other";
}

static void print_stack(const reader_t *reader, uint32_t stack) {
  static const record_frame_t *frames[FRAMES_MAX];
  int count = reader_stack(reader, stack, frames, FRAMES_MAX);
  printf(",\"frames\":[");
  for (int i = 0; i < count && i < FRAMES_MAX; i++)
    printf("%s\"0x%" PRIx64 "\"", i ? "," : "", frames[i]->pc);
  printf("]");
}

static void print_event(const reader_t *reader, const record_event_t *e, bool stacks) {
  const record_thread_t *t = reader_thread(reader, e->stream);
  printf("{\"event\":\"%s\",\"time_ns\":%" PRIu64, name_of_kind(e->kind),
         reader_ns(reader, e->time));
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  if (e->kind == EVENT_SAMPLE) {
    printf(",\"missed\":%" PRIu64 ",\"stack\":%" PRIu32, e->size, e->stack);
    if (stacks) print_stack(reader, e->stack);
    printf("}\n");
    return;
  }
  printf(",\"address\":\"0x%" PRIx64 "\"", e->address);
  if (e->kind == EVENT_REALLOC) printf(",\"old\":\"0x%" PRIx64 "\"", e->old);
  if (e->kind != EVENT_FREE) printf(",\"size\":%" PRIu64, e->size);
  printf(",\"stack\":%" PRIu32, e->stack);
  if (stacks) print_stack(reader, e->stack);
  printf("}\n");
}

static bool print_block(void *context, const record_block_t *b) {
  const reader_t *reader = context;
  const record_thread_t *t = reader_thread(reader, b->stream);
  printf("{\"event\":\"block\",\"allocated_ns\":%" PRIu64, reader_ns(reader, b->time));
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  printf(",\"address\":\"0x%" PRIx64 "\",\"size\":%" PRIu64 ",\"stack\":%" PRIu32 "}\n", b->address,
         b->size, b->stack);
  return true;
}

static void print_marker(const reader_t *reader, const record_event_t *e) {
  const char *name;
  size_t size = body_text(e, &name);
  const record_thread_t *t = e->stream != RECORDER_STREAM ? reader_thread(reader, e->stream) : NULL;
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  json_object *text = json_object_new_string_len(name, (int)size);
  printf(",\"name\":%s}\n", json_print(text, JSON_C_TO_STRING_NOSLASHESCAPE));
  json_object_put(text);
}

static void print_mapping(const reader_t *reader, const record_event_t *e, bool stacks) {
  static const char *const calls[] = {"", "mapped", "unmapped", "moved"};
  const record_thread_t *t = reader_thread(reader, e->stream);
  uint64_t n[9] = {0};
  if (!body_numbers(e, n, 9) || n[0] > MAPPING_MOVED) return;
  printf("{\"event\":\"mapping\",\"time_ns\":%" PRIu64, reader_ns(reader, e->time));
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  printf(",\"call\":\"%s\",\"address\":\"0x%" PRIx64 "\",\"size\":%" PRIu64 ",\"stack\":%" PRIu64,
         calls[n[0]], n[1], n[2], n[3]);
  if (n[0] == MAPPING_MOVED) printf(",\"old\":\"0x%" PRIx64 "\",\"old_size\":%" PRIu64, n[4], n[5]);
  const char *name;
  size_t size = body_text_after(e, 9, &name);
  if (size) {
    char copy[512];
    snprintf(copy, sizeof copy, "%.*s", (int)size, name);
    json_object *text = json_new_text(copy);
    printf(",\"name\":%s", json_print(text, JSON_STYLE));
    json_object_put(text);
  }
  if (stacks) print_stack(reader, (uint32_t)n[3]);
  printf("}\n");
}

static void print_pool(const reader_t *reader, const record_event_t *e, bool stacks) {
  const record_thread_t *t = reader_thread(reader, e->stream);
  uint64_t n[4] = {0};
  if (!body_numbers(e, n, 4)) return;
  printf("{\"event\":\"%s\",\"time_ns\":%" PRIu64, n[0] == POOL_ALLOCATED ? "pool" : "pool_free",
         reader_ns(reader, e->time));
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  printf(",\"address\":\"0x%" PRIx64 "\",\"size\":%" PRIu64 ",\"stack\":%" PRIu64, n[1], n[2],
         n[3]);
  if (stacks) print_stack(reader, (uint32_t)n[3]);
  printf("}\n");
}

static void print_audited(const audit_t *audit, const record_event_t *e, bool stacks) {
  audit_entry_t call;
  char words[4096];
  const record_thread_t *t = reader_thread(audit->reader, e->stream);
  if (!audit_decode(audit, e, &call)) return;
  json_object *text = json_new_text(audit_words(audit, &call, words, sizeof words));
  printf("{\"event\":\"audit\",\"time_ns\":%" PRIu64, reader_ns(audit->reader, e->time));
  if (t) printf(",\"tid\":%" PRIu32, t->tid);
  printf(",\"function\":\"%s\",\"arguments\":%s,\"stack\":%" PRIu32,
         audit_function_name(audit, call.function), json_print(text, JSON_STYLE), call.stack);
  json_object_put(text);
  if (stacks) print_stack(audit->reader, call.stack);
  printf("}\n");
}

/* Records of the recorder's monitors, and of a crash: the names of their first numbers. "-": left
 * out; "…_ns" of ticks begins with '@'. */
typedef struct layout {
  uint8_t subtype;
  const char *name;
  const char *fields[5];
} layout_t;

static const layout_t layouts[] = {
    {EXTENDED_STALL, "stall", {"number", "tid", "@began_ns", "threshold_ns"}},
    {EXTENDED_STALL_SAMPLE, "stall_sample", {"number", "-", "stack"}},
    {EXTENDED_STALL_END, "stall_end", {"number"}},
    {EXTENDED_CRASH, "crash", {"signal", "code", "-", "tid", "stack"}},
    {EXTENDED_THREAD, "crash_thread", {"tid", "-", "stack"}}};

static void print_layout(const reader_t *reader, const record_event_t *e, const layout_t *l,
                         bool stacks) {
  enum { FIELDS = sizeof l->fields / sizeof *l->fields };
  uint64_t n[FIELDS] = {0};
  int count = 0;
  while (count < FIELDS && l->fields[count])
    count++;
  if (!body_numbers(e, n, count)) return;
  printf("{\"event\":\"%s\",\"time_ns\":%" PRIu64, l->name, reader_ns(reader, e->time));
  for (int i = 0; i < count; i++) {
    const char *field = l->fields[i];
    if (*field == '@')
      printf(",\"%s\":%" PRIu64, field + 1, reader_ns(reader, n[i]));
    else if (*field != '-')
      printf(",\"%s\":%" PRIu64, field, n[i]);
    if (stacks && !strcmp(field, "stack")) print_stack(reader, (uint32_t)n[i]);
  }
  printf("}\n");
}

static void print_wall(const reader_t *reader, const record_event_t *e, bool stacks) {
  body_t b = {e->body, e->body + e->body_size, false};
  wall_period_t p = wall_period(&b);
  char call[64];
  if (b.truncated) return;
  snprintf(call, sizeof call, "%.*s", (int)p.call_size, (const char *)p.call);
  json_object *text = json_new_text(call);
  printf("{\"event\":\"wall\",\"time_ns\":%" PRIu64 ",\"tid\":%" PRIu32 ",\"period_ns\":%" PRIu64
         ",\"samples\":%" PRIu64 ",\"syscall\":%s,\"stack\":%" PRIu32,
         reader_ns(reader, e->time), p.tid, p.ns, p.samples, json_print(text, JSON_STYLE), p.stack);
  json_object_put(text);
  if (stacks) print_stack(reader, p.stack);
  printf("}\n");
}

static void print_usage(const reader_t *reader, const record_event_t *e) {
  body_t b = {e->body, e->body + e->body_size, false};
  printf("{\"event\":\"usage\",\"time_ns\":%" PRIu64, reader_ns(reader, e->time));
  while (b.p < b.end) {
    uint64_t field = body_number(&b), value = body_number(&b);
    if (b.truncated) break;
    if (field && field < USAGE_FIELDS)
      printf(",\"%s\":%" PRIu64, usage_key((unsigned)field), value);
  }
  printf("}\n");
}

static void print_extended(reader_t *reader, const record_event_t *e, bool stacks) {
  uint64_t n[2] = {0};
  uint64_t ns = reader_ns(reader, e->time);
  if (e->subtype == EXTENDED_BLOCKS) {
    body_blocks(e, print_block, reader);
    return;
  }
  if (e->subtype == EXTENDED_POOL) {
    print_pool(reader, e, stacks);
    return;
  }
  if (e->subtype == EXTENDED_MAPPING) {
    print_mapping(reader, e, stacks);
    return;
  }
  if (e->subtype == EXTENDED_WALL) {
    print_wall(reader, e, stacks);
    return;
  }
  if (e->subtype == EXTENDED_USAGE) {
    print_usage(reader, e);
    return;
  }
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (layouts[i].subtype == e->subtype) print_layout(reader, e, &layouts[i], stacks);
  const char *name = e->subtype == EXTENDED_MODE       ? "mode"
                     : e->subtype == EXTENDED_SNAPSHOT ? "snapshot"
                     : e->subtype == EXTENDED_MARKER   ? "marker"
                                                       : NULL;
  if (!name) return;
  printf("{\"event\":\"%s\",\"time_ns\":%" PRIu64, name, ns);
  if (e->subtype == EXTENDED_MARKER) {
    print_marker(reader, e);
    return;
  }
  body_numbers(e, n, 2);
  printf(e->subtype == EXTENDED_MODE ? ",\"mode\":%" PRIu64 ",\"sample_bytes\":%" PRIu64 "}\n"
                                     : ",\"reason\":%" PRIu64 ",\"unknown_frees\":%" PRIu64 "}\n",
         n[0], n[1]);
}

int verb_events(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  bool stacks = false;
  uint32_t program = 0;
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (key == KEY_STACKS)
      stacks = true;
    else if (!recording_program(parser.value, &program))
      return cli_wrong_use(&usage, RECORDING_PROGRAM_WRONG);
  if (key < 0) return parser.status;
  if (parser.rest_count != 1) return cli_wrong_use(&usage, "takes one recording");
  reader_t *reader = recording_open_events(parser.rest[0], program);
  if (!reader) return CLI_FAILED;
  merge_t *merge = merge_open(reader);
  audit_t *audit = audit_new(reader);
  call_events_t *calls = call_events_open(reader);
  const record_event_t *e;
  bool read = merge && audit && calls;
  while (read && (e = merge_next(merge))) {
    call_events_print(calls, (double)reader_ns(reader, e->time));
    if (e->kind == EVENT_EXTENDED && e->subtype == EXTENDED_AUDIT)
      print_audited(audit, e, stacks);
    else if (e->kind == EVENT_EXTENDED)
      print_extended(reader, e, stacks);
    else if (!(e->kind == EVENT_REALLOC && e->moment == 0))
      print_event(reader, e, stacks);
  }
  if (read) call_events_print(calls, HUGE_VAL);
  call_events_close(calls);
  merge_close(merge);
  audit_free(audit);
  reader_close(reader);
  return read ? CLI_DONE : message_fail("out of memory");
}
