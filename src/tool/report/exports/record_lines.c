/* SPDX-License-Identifier: MIT
 *
 * Most kinds have a layout: the keys of their fields in the order of docs/format.md. A key's first
 * character says what the field is:
 *
 *   $  text                @  ticks, printed as nanoseconds    #  an address
 *   *  a stack id          '  a character of proc(5)           =  a number + 1, 0 if there is none
 *   +  a stack id, 0 if there is none        -  left out       other: a number
 */
#include "report/exports/record_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/audit/coverage.h"
#include "analysis/usage.h"
#include "reader/body.h"
#include "report/json.h"

enum { FIELDS_MAX = 20, FRAMES_MAX = 1024, FROZEN = 256 };

typedef struct layout {
  uint8_t subtype;
  const char *event;
  const char *fields[FIELDS_MAX];
} layout_t;

/* The state of a thread that is frozen has FROZEN added. */
static const layout_t layouts[] = {
    {EXTENDED_SAMPLING, "sampling", {"sample_bytes"}},
    {EXTENDED_MODE, "mode", {"mode", "sample_bytes"}},
    {EXTENDED_SNAPSHOT, "snapshot", {"reason", "unknown_frees"}},
    {EXTENDED_MARKER, "marker", {"$name", "+stack"}},
    {EXTENDED_MAPS, "maps", {"first", "$lines"}},
    {EXTENDED_PROCESS,
     "process",
     {"pid", "parent", "start_ns", "end_ns", "cpu_ns", "$command", "$recording", "$not_recorded"}},
    {EXTENDED_CHILDREN, "children", {"cpu_ns", "children_cpu_ns"}},
    {EXTENDED_SEARCHED,
     "searched",
     {"result", "error", "searched_ns", "pause_ns", "copying_ns", "search_ns", "root_bytes",
      "block_bytes", "tries", "reallocs_under_way", "late", "roots_skipped", "threads",
      "unknown_threads", "running_threads", "live_blocks", "live_bytes", "unmapped"}},
    {EXTENDED_LEAKED, "leaked", {NULL}},
    {EXTENDED_STALL, "stall", {"number", "tid", "@began_ns", "threshold_ns", "$name"}},
    {EXTENDED_STALL_SAMPLE,
     "stall_sample",
     {"number",       "@sampled_ns",  "*stack",       "'state",     "=syscall",
      "#argument0",   "#argument1",   "#argument2",   "passed_ns",  "cpu_ns",
      "run_queue_ns", "minor_faults", "major_faults", "user_ticks", "system_ticks",
      "is_mutex",     "owner",        "#futex",       "$call",      "$descriptor"}},
    {EXTENDED_STALL_LOCK,
     "stall_lock",
     {"number", "tid", "owner", "#lock", "'owner_state", "cycle", "*stack"}},
    {EXTENDED_STALL_END,
     "stall_end",
     {"number", "@ended_ns", "how", "stopped_ns", "unwatched_ns", "run_queue_ns"}},
    {EXTENDED_LOOP, "loop", {"tid", "iterations"}},
    {EXTENDED_UNSAMPLED, "not_monitored", {"$what"}},
    {EXTENDED_CPU_EPISODE, "cpu_episode", {"tid", "period_ns", "cpu_ns", "$name"}},
    {EXTENDED_CPU_THREAD,
     "cpu_thread",
     {"tid", "cpu_ns", "run_queue_ns", "wakeups", "period_ns", "$name"}},
    {EXTENDED_CPU_PROCESS, "cpu_process", {"cpu_ns"}},
    {EXTENDED_THREAD_TIME,
     "thread_time",
     {"number", "tid", "cpu_ns", "sampled_ns", "period_ns", "$name"}},
    {EXTENDED_PROCESS_TIME,
     "process_time",
     {"cpu_ns", "threads", "unknown_ns", "waited_for_cpu_ns"}},
    {EXTENDED_USAGE, "usage", {NULL}},
    {EXTENDED_WALL,
     "wall",
     {"tid", "period_ns", "samples", "*stack", "'state", "=number", "$syscall", "=descriptor",
      "#futex", "is_mutex", "owner", "$what"}},
    {EXTENDED_WALL_THREAD,
     "wall_thread",
     {"tid", "period_ns", "cpu_ns", "run_queue_ns", "$name", "switches"}},
    {EXTENDED_COVERAGE,
     "coverage",
     {"io_uring_operations", "other_abi_calls", "unobserved_threads", "detached"}},
    {EXTENDED_AUDIT_RESULT, "audit_result", {"function", "=result", "errno"}},
    {EXTENDED_CRASH, "crash", {"signal", "code", "#address", "tid", "*stack"}},
    {EXTENDED_THREAD, "crash_thread", {"tid", "'state", "*stack", "$name"}}};

/* ---- fields ------------------------------------------------------------------------------- */

void record_lines_stack(const record_lines_t *l, uint32_t stack) {
  static const record_frame_t *frames[FRAMES_MAX];
  static const frame_name_t *names[FRAMES_MAX];
  int count = l->stacks ? reader_stack(l->reader, stack, frames, FRAMES_MAX) : -1;
  if (l->stacks) fprintf(l->out, ",\"frames\":[");
  for (int i = 0; i < count && i < FRAMES_MAX; i++)
    fprintf(l->out, "%s\"0x%" PRIx64 "\"", i ? "," : "", frames[i]->pc);
  if (l->stacks) fprintf(l->out, "]");
  if (!l->names) return;
  json_object *list = json_new_array();
  count = frame_names_of_stack(l->names, stack, names, FRAMES_MAX);
  for (int i = 0; i < count && i < FRAMES_MAX; i++)
    json_append(list, json_new_text(names[i]->function));
  fprintf(l->out, ",\"functions\":%s", json_print(list, JSON_STYLE));
  json_object_put(list);
}

/* Prints SIZE bytes; zeros between texts become spaces. */
static void put_bytes(const record_lines_t *l, const char *key, const uint8_t *bytes,
                      uint64_t size) {
  char *text = malloc(size + 1);
  if (!text) return;
  for (uint64_t i = 0; i < size; i++)
    text[i] = bytes[i] ? (char)bytes[i] : ' ';
  text[size] = 0;
  json_object *object = json_new_text(text);
  fprintf(l->out, ",\"%s\":%s", key, json_print(object, JSON_STYLE));
  json_object_put(object);
  free(text);
}

static void put_state(const record_lines_t *l, const char *key, uint64_t state) {
  char letter = (char)(state % FROZEN);
  if (letter > ' ' && letter < 127 && letter != '"' && letter != '\\')
    fprintf(l->out, ",\"%s\":\"%c\"", key, letter);
  if (state >= FROZEN) fprintf(l->out, ",\"frozen\":true");
}

static void put_number(const record_lines_t *l, const char *field, uint64_t value) {
  switch (*field) {
  case '-': break;
  case '@': fprintf(l->out, ",\"%s\":%" PRIu64, field + 1, reader_ns(l->reader, value)); break;
  case '#': fprintf(l->out, ",\"%s\":\"0x%" PRIx64 "\"", field + 1, value); break;
  case '\'': put_state(l, field + 1, value); break;
  case '=':
    if (value) fprintf(l->out, ",\"%s\":%" PRIu64, field + 1, value - 1);
    break;
  case '+':
    if (!value) break;
    __attribute__((fallthrough));
  case '*':
    fprintf(l->out, ",\"%s\":%" PRIu64, field + 1, value);
    record_lines_stack(l, (uint32_t)value);
    break;
  default: fprintf(l->out, ",\"%s\":%" PRIu64, field, value);
  }
}

/* Prints the fields that the body has. */
static void put_fields(const record_lines_t *l, const char *const *fields, body_t *b) {
  for (int i = 0; i < FIELDS_MAX && fields[i] && b->p < b->end; i++) {
    uint64_t size, value;
    if (*fields[i] == '$') {
      const uint8_t *text = body_string(b, &size);
      if (!b->truncated) put_bytes(l, fields[i] + 1, text, size);
    } else {
      value = body_number(b);
      if (!b->truncated) put_number(l, fields[i], value);
    }
  }
}

/* ---- the ends of some records ------------------------------------------------------------- */

static void put_usage(const record_lines_t *l, body_t *b) {
  while (b->p < b->end) {
    uint64_t field = body_number(b), value = body_number(b);
    if (b->truncated) return;
    if (field && field < USAGE_FIELDS)
      fprintf(l->out, ",\"%s\":%" PRIu64, usage_key((unsigned)field), value);
  }
}

static void put_leaked(const record_lines_t *l, body_t *b) {
  static const char *const fields[FIELDS_MAX] = {"blocks",         "bytes",       "indirect_blocks",
                                                 "indirect_bytes", "in_cycles",   "uncertain",
                                                 "#example",       "example_size"};
  fprintf(l->out, ",\"stacks\":[");
  for (const char *comma = ""; b->p < b->end && !b->truncated; comma = ",") {
    uint64_t stack = body_number(b);
    fprintf(l->out, "%s{\"stack\":%" PRIu64, comma, stack);
    record_lines_stack(l, (uint32_t)stack);
    put_fields(l, fields, b);
    fprintf(l->out, "}");
  }
  fprintf(l->out, "]");
}

static void put_causes(const record_lines_t *l, body_t *b) {
  static const char *const keys[] = {
#define CAUSE_KEY(name, value, key, text) [value] = key,
      NO_SAMPLE_TABLE(CAUSE_KEY)
#undef CAUSE_KEY
  };
  fprintf(l->out, ",\"without_samples_ns\":{");
  for (const char *comma = ""; b->p < b->end; comma = ",") {
    uint64_t cause = body_number(b), ns = body_number(b);
    if (b->truncated) break;
    if (cause < NO_SAMPLE_CAUSES)
      fprintf(l->out, "%s\"%s\":%" PRIu64, comma, keys[cause], ns);
    else
      fprintf(l->out, "%s\"%" PRIu64 "\":%" PRIu64, comma, cause, ns);
  }
  fprintf(l->out, "}");
}

static void put_crash(const record_lines_t *l, body_t *b) {
  static const char *const fields[FIELDS_MAX] = {
      "access",          "#stack_start", "#stack_end", "#mapping_start", "#mapping_end",
      "=mapping_access", "$message",     "$exception", "$exception_text"};
  enum { REGISTERS_MAX = 64 };
  if (b->p == b->end) return; /* of version 0 */
  uint64_t count = body_number(b);
  if (b->truncated || count > REGISTERS_MAX) return;
  fprintf(l->out, ",\"registers\":[");
  for (uint64_t i = 0; i < count; i++) {
    uint64_t value = body_number(b);
    fprintf(l->out, "%s\"0x%" PRIx64 "\"", i ? "," : "", value);
  }
  fprintf(l->out, "]");
  if (!b->truncated) put_fields(l, fields, b);
}

static void put_rest(const record_lines_t *l, uint8_t subtype, body_t *b) {
  if (b->truncated) return;
  if (subtype == EXTENDED_USAGE) put_usage(l, b);
  if (subtype == EXTENDED_LEAKED) put_leaked(l, b);
  if (subtype == EXTENDED_THREAD_TIME) put_causes(l, b);
  if (subtype == EXTENDED_CRASH) put_crash(l, b);
}

/* ---- records ------------------------------------------------------------------------------ */

static void begin(const record_lines_t *l, const record_event_t *e, const char *event) {
  const record_thread_t *t =
      e->stream != RECORDER_STREAM ? reader_thread(l->reader, e->stream) : NULL;
  fprintf(l->out, "{\"event\":\"%s\",\"time_ns\":%" PRIu64, event, reader_ns(l->reader, e->time));
  if (t) fprintf(l->out, ",\"tid\":%" PRIu32, t->tid);
}

static bool put_block(void *context, const record_block_t *b) {
  const record_lines_t *l = context;
  const record_thread_t *t = reader_thread(l->reader, b->stream);
  fprintf(l->out, "{\"event\":\"block\",\"allocated_ns\":%" PRIu64, reader_ns(l->reader, b->time));
  if (t) fprintf(l->out, ",\"tid\":%" PRIu32, t->tid);
  fprintf(l->out, ",\"address\":\"0x%" PRIx64 "\",\"size\":%" PRIu64 ",\"stack\":%" PRIu32,
          b->address, b->size, b->stack);
  record_lines_stack(l, b->stack);
  fprintf(l->out, "}\n");
  return true;
}

static void put_mapping(const record_lines_t *l, const record_event_t *e, body_t *b) {
  static const char *const calls[] = {"unknown", "mapped", "unmapped", "moved"};
  static const char *const fields[] = {"#address", "size",       "*stack", "#old",
                                       "old_size", "protection", "flags",  "offset"};
  enum { OLD = 3, OLD_SIZE = 4 };
  uint64_t call = body_number(b), size;
  begin(l, e, "mapping");
  fprintf(l->out, ",\"call\":\"%s\"", calls[call <= MAPPING_MOVED ? call : 0]);
  for (int i = 0; i < (int)(sizeof fields / sizeof *fields) && !b->truncated; i++) {
    uint64_t value = body_number(b);
    bool is_old = i == OLD || i == OLD_SIZE;
    if (!b->truncated && (!is_old || call == MAPPING_MOVED)) put_number(l, fields[i], value);
  }
  const uint8_t *name = body_string(b, &size);
  if (!b->truncated && size) put_bytes(l, "name", name, size);
  fprintf(l->out, "}\n");
}

static void put_pool(const record_lines_t *l, const record_event_t *e, body_t *b) {
  static const char *const fields[FIELDS_MAX] = {"#address", "size", "*stack"};
  begin(l, e, body_number(b) == POOL_ALLOCATED ? "pool" : "pool_free");
  put_fields(l, fields, b);
  fprintf(l->out, "}\n");
}

/* A record whose body this version cannot decode. */
static void put_unknown(const record_lines_t *l, const record_event_t *e) {
  begin(l, e, "unknown");
  fprintf(l->out, ",\"subtype\":%u,\"bytes\":%" PRIu32 "}\n", e->subtype, e->body_size);
}

static void put_audited(const record_lines_t *l, const record_event_t *e) {
  audit_entry_t call;
  char words[4096];
  if (!audit_decode(l->audit, e, &call)) {
    put_unknown(l, e);
    return;
  }
  begin(l, e, "audit");
  json_object *text = json_new_text(audit_words(l->audit, &call, words, sizeof words));
  fprintf(l->out, ",\"function\":\"%s\",\"arguments\":%s,\"stack\":%" PRIu32,
          audit_function_name(l->audit, call.function), json_print(text, JSON_STYLE), call.stack);
  json_object_put(text);
  record_lines_stack(l, call.stack);
  fprintf(l->out, "}\n");
}

static void put_syscall(const record_lines_t *l, const record_event_t *e, body_t *b) {
  static const char *const classes[COVERAGE_CLASSES] = {"unknown", "early",       "hooked",
                                                        "below",   "unexplained", "own"};
  static const char *const fields[FIELDS_MAX] = {"=function", "*stack", "count", "@first_ns",
                                                 "@last_ns"};
  uint64_t class = body_number(b), number = body_number(b), size;
  const sensitive_call_t *known = sensitive_call(number);
  begin(l, e, "syscall");
  fprintf(l->out, ",\"class\":\"%s\",\"number\":%" PRIu64,
          classes[class < COVERAGE_CLASSES ? class : 0], number);
  if (known) fprintf(l->out, ",\"name\":\"%s\"", known->name);
  put_fields(l, fields, b);
  const uint8_t *arguments = body_string(b, &size);
  if (!b->truncated && known) {
    char words[2048];
    uint8_t kinds[AUDIT_ARGUMENTS];
    call_results_t results = {0};
    sensitive_kinds(known, b->p < b->end ? (uint8_t)body_number(b) : 0, kinds);
    if (b->p < b->end) coverage_read_results(b, &results);
    audit_words_of(known->name, l->audit->machine, kinds, arguments, (uint32_t)size, words,
                   sizeof words);
    put_bytes(l, "arguments", (const uint8_t *)words, strlen(words));
    if (results.succeeded || results.failed)
      fprintf(l->out, ",\"succeeded\":%" PRIu64 ",\"failed\":%" PRIu64, results.succeeded,
              results.failed);
  }
  fprintf(l->out, "}\n");
}

static void put_layout(const record_lines_t *l, const record_event_t *e, const layout_t *layout,
                       body_t *b) {
  begin(l, e, layout->event);
  put_fields(l, layout->fields, b);
  put_rest(l, e->subtype, b);
  fprintf(l->out, "}\n");
}

void record_lines_extended(const record_lines_t *l, const record_event_t *e) {
  body_t b = {.p = e->body, .end = e->body + e->body_size};
  switch (e->subtype) {
  case EXTENDED_BLOCKS: (void)body_blocks(e, put_block, (void *)(uintptr_t)l); return;
  case EXTENDED_MAPPING: put_mapping(l, e, &b); return;
  case EXTENDED_POOL: put_pool(l, e, &b); return;
  case EXTENDED_AUDIT: put_audited(l, e); return;
  case EXTENDED_SYSCALL: put_syscall(l, e, &b); return;
  default: break;
  }
  for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
    if (layouts[i].subtype == e->subtype) {
      put_layout(l, e, &layouts[i], &b);
      return;
    }
  put_unknown(l, e);
}
