/* SPDX-License-Identifier: MIT
 *
 * Section `crash`: the signal that ended the program, its cause, the registers and what they point
 * to, and the last stack of every thread.
 */
#include "base/wrap.h"
#include "report/crash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/json.h"
#include "report/sections/analyses.h"
#include "report/report.h"
#include "sonde/status.h"
#include "symbol/short_name.h"

static void end(void *state) { crash_free(state); }

static bool add_event(void *state, const record_event_t *e) { return crash_add(state, e); }

const crash_t *section_crash_record(const void *state) { return state; }

static bool has_data(const report_t *r, void *state) {
  (void)r;
  return ((const crash_t *)state)->number != 0;
}

/* ---- text --------------------------------------------------------------------------------- */

/* Three columns of at most 80 characters. */
static void print_registers(const report_t *r, const crash_t *c, FILE *out) {
  enum { COLUMNS = 3 };
  uint32_t machine = reader_header(r->reader)->machine, count = c->register_count;
  if (!count) return;
  fprintf(out, "  registers\n");
  uint32_t lines = (count + COLUMNS - 1) / COLUMNS;
  for (uint32_t line = 0; line < lines; line++) {
    for (uint32_t i = line; i < count; i += lines)
      fprintf(out, "    %4s %016" PRIx64, crash_register_name(machine, i), c->registers[i]);
    fputc('\n', out);
  }
}

/* At most 80 columns, or the terminal's. */
static void print_wrapped(const report_t *r, const char *text, FILE *out) {
  enum { USUAL = 80 };
  fputs("  ", out);
  wrap_print(out, text,
             (wrap_t){2, 4, r->columns && r->columns < USUAL ? r->columns : USUAL, WRAP_ALL_LINES});
}

/* An equal pointer was before it. */
static bool is_repeated(const crash_pointers_t *pointers, uint32_t i) {
  for (uint32_t k = 0; k < i; k++)
    if (pointers->items[k].value == pointers->items[i].value) return true;
  return false;
}

/* The line of the signal tells that the address is a null pointer. */
static void print_pointers(const report_t *r, const crash_t *c, const crash_pointers_t *pointers,
                           FILE *out) {
  char text[CRASH_TEXT_BYTES];
  for (uint32_t i = 0; i < pointers->count; i++) {
    const crash_pointer_t *p = &pointers->items[i];
    bool shown = p->is_telling || (!r->brief && p->place == CRASH_PLACE_LIVE);
    if (!shown || p->place == CRASH_PLACE_NULL || is_repeated(pointers, i)) continue;
    if (*report_crash_pointer(r, c, p, text)) print_wrapped(r, text, out);
  }
}

static void print_others(const report_t *r, const crash_t *c, FILE *out) {
  if (r->brief && c->count)
    fprintf(out, "  %zu other threads; 'sonde report FILE crash' shows them\n", c->count);
  for (size_t i = 0; !r->brief && i < c->count; i++) {
    const crash_thread_t *t = &c->others[i];
    fprintf(out, "  thread %" PRIu64 " %s (%c)\n", t->tid, plain_text(t->name),
            t->state ? t->state : '?');
    report_stack_text(r, t->stack, out);
  }
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const crash_t *c = state;
  char text[CRASH_TEXT_BYTES];
  crash_pointers_t pointers;
  fprintf(out, "\n%scrash%s\n", r->bold, r->plain);
  if (!c->number) {
    fprintf(out, "  none recorded\n");
    return 0;
  }
  if (crash_pointers_find(r->reader, c, &pointers) < 0) return SONDE_ENOMEM;
  print_wrapped(r, report_crash_cause(r, c, &pointers, text), out);
  fprintf(out, "  %.6f s after the start, in thread %" PRIu64 "\n",
          (double)reader_ns(r->reader, c->time) / 1e9, c->crashed.tid);
  print_pointers(r, c, &pointers, out);
  report_stack_text(r, c->crashed.stack, out);
  if (!r->brief) print_registers(r, c, out);
  print_others(r, c, out);
  return 0;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_object *thread_json(const report_t *r, const crash_thread_t *t) {
  bool complete = false;
  json_object *o = json_new_object();
  json_add_count(o, "tid", t->tid);
  if (t->name[0]) json_add(o, "name", json_new_text(t->name));
  if (t->state) json_add(o, "state", json_object_new_string_len(&t->state, 1));
  json_add(o, "frames", report_frames_json(r, t->stack, &complete));
  json_add_flag(o, "complete", complete);
  return o;
}

static void add_block_json(const report_t *r, const crash_block_t *b, json_object *o) {
  const record_thread_t *t = reader_thread(r->reader, b->freed_stream);
  json_add_address(o, "start", b->start);
  json_add_count(o, "size", b->size);
  json_add_count(o, "allocated_ns", reader_ns(r->reader, b->allocated_time));
  json_add(o, "allocated_by", report_frames_json(r, b->allocated_stack, NULL));
  if (b->is_sampled) json_add_flag(o, "sampled", true);
  if (!b->freed_time) return;
  json_add_count(o, "freed_ns", reader_ns(r->reader, b->freed_time));
  if (t) json_add_count(o, "freed_tid", t->tid);
  json_add(o, "freed_by", report_frames_json(r, b->freed_stack, NULL));
}

static void add_named_block(const report_t *r, const crash_block_t *b, const char *key,
                            json_object *o) {
  if (!b->start) return;
  json_object *block = json_new_object();
  add_block_json(r, b, block);
  json_add(o, key, block);
}

static json_object *pointer_json(const report_t *r, const crash_t *c, const crash_pointer_t *p) {
  static const char *const places[] = {"unknown", "null",        "live",         "freed",
                                       "behind",  "stack_guard", "stack",        "unloaded_image",
                                       "image",   "unmapped",    "not_canonical"};
  char text[CRASH_TEXT_BYTES];
  json_object *o = json_new_object();
  json_add_text(o, "name", p->name);
  json_add_address(o, "value", p->value);
  json_add_text(o, "place", places[p->place]);
  json_add_text(o, "text", report_crash_pointer(r, c, p, text));
  json_add_flag(o, "telling", p->is_telling);
  if (p->place != CRASH_PLACE_STACK && p->place != CRASH_PLACE_NOT_CANONICAL)
    json_add_count(o, "offset", p->offset);
  if (p->damage) json_add_text(o, "damage", p->damage == CRASH_DAMAGE_BEFORE ? "before" : "behind");
  if (p->image) json_add_text(o, "module", p->image->path);
  add_named_block(r, &p->block, "block", o);
  add_named_block(r, &p->below, "below", o);
  return o;
}

static void add_registers_json(const report_t *r, const crash_t *c, json_object *o) {
  uint32_t machine = reader_header(r->reader)->machine;
  json_object *registers = json_new_object();
  for (uint32_t i = 0; i < c->register_count; i++)
    if (*crash_register_name(machine, i))
      json_add_address(registers, crash_register_name(machine, i), c->registers[i]);
  json_add(o, "registers", registers);
}

static void add_details_json(const report_t *r, const crash_t *c, const crash_pointers_t *pointers,
                             json_object *o) {
  static const char *const accesses[] = {"", "read", "write", "execute"};
  char text[CRASH_TEXT_BYTES];
  json_object *list = json_new_array();
  json_add_text(o, "kind", crash_kind_key(report_crash_kind(r, c, pointers)));
  json_add_text(o, "cause", report_crash_cause(r, c, pointers, text));
  if (c->access) json_add_text(o, "access", accesses[c->access]);
  if (c->message && *c->message) json_add_text(o, "message", c->message);
  if (c->exception && *c->exception) json_add_text(o, "exception", c->exception);
  if (c->what && *c->what) json_add_text(o, "what", c->what);
  if (c->register_count) add_registers_json(r, c, o);
  for (uint32_t i = 0; i < pointers->count; i++)
    if (pointers->items[i].place != CRASH_PLACE_UNKNOWN)
      json_append(list, pointer_json(r, c, &pointers->items[i]));
  json_add(o, "pointers", list);
}

static json_object *make_json(const report_t *r, void *state) {
  const crash_t *c = state;
  crash_pointers_t pointers;
  if (crash_pointers_find(r->reader, c, &pointers) < 0) return NULL;
  json_object *o = json_new_object(), *threads = json_new_array();
  if (c->number) {
    json_add_count(o, "signal", c->number);
    json_add(o, "code", json_object_new_int(c->code));
    if (c->has_address) json_add_address(o, "address", c->address);
    json_add_count(o, "time_ns", reader_ns(r->reader, c->time));
    add_details_json(r, c, &pointers, o);
    json_append(threads, thread_json(r, &c->crashed));
  }
  for (size_t i = 0; i < c->count; i++)
    json_append(threads, thread_json(r, &c->others[i]));
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
