/* SPDX-License-Identifier: MIT
 *
 * Section `crash`: the signal that ended the program, and the last stack of every thread.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"
#include "reader/body.h"

enum { THREADS_MAX = 4096 };

typedef struct last_thread {
  uint64_t tid;
  uint32_t stack;
  char state, name[32];
} last_thread_t;

typedef struct crash {
  uint64_t time, number, code, address;
  last_thread_t crashed;
  last_thread_t *items; /* the other threads */
  size_t count, capacity;
} crash_t;

static void end(void *state) { free(((crash_t *)state)->items); }

static bool add_thread(crash_t *c, const record_event_t *e) {
  uint64_t n[3];
  if (c->count == THREADS_MAX || !body_numbers(e, n, 3)) return true;
  last_thread_t *t = ARRAY_ADD(*c);
  if (!t) return false;
  const char *name;
  size_t size = body_text_after(e, 3, &name);
  *t = (last_thread_t){.tid = n[0], .stack = (uint32_t)n[2], .state = (char)n[1]};
  snprintf(t->name, sizeof t->name, "%.*s", (int)size, name);
  return true;
}

static bool add_event(void *state, const record_event_t *e) {
  crash_t *c = state;
  uint64_t n[5];
  if (e->kind != EVENT_EXTENDED) return true;
  if (e->subtype == EXTENDED_THREAD) return add_thread(c, e);
  if (e->subtype != EXTENDED_CRASH || !body_numbers(e, n, 5)) return true;
  c->time = e->time;
  c->number = n[0];
  c->code = n[1];
  c->address = n[2];
  c->crashed = (last_thread_t){.tid = n[3], .stack = (uint32_t)n[4], .state = 'R'};
  return true;
}

/* Faults have an address, which may be 0; signals from kill(2), and general protection faults
 * (SI_KERNEL), have none. */
static bool has_address(const crash_t *c) {
  enum { FIRST_OTHER_CODE = 0x80 };
  bool fault = c->number == SIGSEGV || c->number == SIGBUS || c->number == SIGILL ||
               c->number == SIGFPE || c->number == SIGTRAP;
  return fault && (int32_t)c->code > 0 && c->code < FIRST_OTHER_CODE;
}

static bool has_data(const report_t *r, void *state) {
  (void)r;
  return ((const crash_t *)state)->number != 0;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const crash_t *c = state;
  fprintf(out, "\n%scrash%s\n", r->bold, r->plain);
  if (!c->number) {
    fprintf(out, "  none recorded\n");
    return 0;
  }
  fprintf(out, "  %s", report_signal_name(c->number));
  if (has_address(c)) fprintf(out, " at address 0x%" PRIx64, c->address);
  fprintf(out, ", %.6f s after the start, in thread %" PRIu64 "\n",
          (double)reader_ns(r->reader, c->time) / 1e9, c->crashed.tid);
  report_stack_text(r, c->crashed.stack, out);
  if (r->brief) {
    if (c->count)
      fprintf(out, "  %zu other threads; 'sonde report FILE crash' shows them\n", c->count);
    return 0;
  }
  for (size_t i = 0; i < c->count; i++) {
    const last_thread_t *t = &c->items[i];
    fprintf(out, "  thread %" PRIu64 " %s (%c)\n", t->tid, t->name, t->state ? t->state : '?');
    report_stack_text(r, t->stack, out);
  }
  return 0;
}

static json_object *thread_json(const report_t *r, const last_thread_t *t) {
  bool complete = false;
  json_object *o = json_new_object();
  json_add_count(o, "tid", t->tid);
  if (t->name[0]) json_add(o, "name", json_new_text(t->name));
  if (t->state) json_add(o, "state", json_object_new_string_len(&t->state, 1));
  json_add(o, "frames", report_frames_json(r, t->stack, &complete));
  json_add_flag(o, "complete", complete);
  return o;
}

static json_object *make_json(const report_t *r, void *state) {
  const crash_t *c = state;
  json_object *o = json_new_object(), *threads = json_new_array();
  if (c->number) {
    json_add_count(o, "signal", c->number);
    json_add(o, "code", json_object_new_int((int)(uint32_t)c->code));
    if (has_address(c)) json_add_address(o, "address", c->address);
    json_add_count(o, "time_ns", reader_ns(r->reader, c->time));
    json_append(threads, thread_json(r, &c->crashed));
  }
  for (size_t i = 0; i < c->count; i++)
    json_append(threads, thread_json(r, &c->items[i]));
  json_add(o, "threads", threads);
  return o;
}

const report_section_t section_crash = {.name = "crash",
                                        .state_bytes = sizeof(crash_t),
                                        .event = add_event,
                                        .has_data = has_data,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
