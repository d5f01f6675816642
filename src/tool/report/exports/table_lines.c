/* SPDX-License-Identifier: MIT
 *
 * The definitions of a recording, a line each, with the key "table".
 */
#include <inttypes.h>
#include <string.h>

#include "reader/body.h"
#include "reader/calls.h"
#include "report/exports/record_lines.h"
#include "report/json.h"

static void put_line(const record_lines_t *l, json_object *o) {
  fprintf(l->out, "%s\n", json_print(o, JSON_STYLE));
  json_object_put(o);
}

static json_object *new_line(const char *table) {
  json_object *o = json_new_object();
  json_add_text(o, "table", table);
  return o;
}

/* Adds a text of SIZE bytes, in which zeros end a part. */
static void add_bytes(json_object *o, const char *key, const uint8_t *bytes, uint64_t size) {
  char *text = malloc(size + 1);
  if (!text) return;
  for (uint64_t i = 0; i < size; i++)
    text[i] = bytes[i] ? (char)bytes[i] : '\n';
  text[size] = 0;
  json_add_text(o, key, text);
  free(text);
}

static void put_process(const record_lines_t *l) {
  json_object *o = new_line("process"), *arguments = json_new_array();
  const char *word = reader_argument(l->reader, 0);
  json_add_count(o, "pid", reader_header(l->reader)->pid);
  if (word) json_add_text(o, "exe", word);
  for (uint32_t i = 1; (word = reader_argument(l->reader, i)); i++)
    json_append(arguments, json_new_text(word));
  json_add(o, "arguments", arguments);
  put_line(l, o);
}

static void put_outside(const record_lines_t *l) {
  if (!reader_is_agentless(l->reader)) return;
  json_object *o = new_line("outside");
  json_add_count(o, "mode", reader_header(l->reader)->mode);
  put_line(l, o);
}

static void put_tracer(const record_lines_t *l) {
  call_cost_t cost = reader_call_cost(l->reader);
  if (cost.pair <= 0) return;
  json_object *o = new_line("tracer");
  json_add(o, "cost", json_object_new_double(cost.pair));
  json_add(o, "cost_inside", json_object_new_double(cost.inside));
  put_line(l, o);
}

static void put_call_limits(const record_lines_t *l) {
  call_limits_t limits = reader_call_limits(l->reader);
  if (!limits.least_ns && !limits.depth) return;
  json_object *o = new_line("call_limits");
  json_add_count(o, "least_ns", limits.least_ns);
  json_add_count(o, "depth", limits.depth);
  put_line(l, o);
}

static void put_patched(const record_lines_t *l) {
  for (int i = 0; i < MOVE_FAULT_COUNT; i++) {
    uint64_t count = reader_patched(l->reader, (move_fault_t)i);
    if (!count) continue;
    json_object *o = new_line("patched");
    json_add_count(o, "functions", count);
    if (i != MOVE_OK) json_add_text(o, "not_because", move_fault_keys[i]);
    put_line(l, o);
  }
}

static void put_image(const record_lines_t *l, const record_image_t *i) {
  json_object *o = new_line("image");
  json_add_count(o, "id", i->id);
  json_add_count(o, "time_ns", reader_ns(l->reader, i->time));
  json_add_address(o, "start", i->start);
  json_add_address(o, "end", i->end);
  json_add_address(o, "slide", i->slide);
  json_add_hex(o, "build_id", i->build_id, i->build_id_size);
  json_add_text(o, "path", i->path);
  put_line(l, o);
  if (!i->unloaded_time) return;
  o = new_line("unloaded");
  json_add_count(o, "image", i->id);
  json_add_count(o, "time_ns", reader_ns(l->reader, i->unloaded_time));
  put_line(l, o);
}

static void put_thread(const record_lines_t *l, const record_thread_t *t) {
  json_object *o = new_line("thread");
  json_add_count(o, "stream", t->stream);
  json_add_count(o, "tid", t->tid);
  json_add_count(o, "time_ns", reader_ns(l->reader, t->time));
  json_add_count(o, "level", t->level);
  json_add_text(o, "name", t->name);
  put_line(l, o);
}

static json_object *stored_functions(const record_frame_t *f) {
  json_object *list = json_new_array();
  for (uint32_t i = 0; i < f->function_count; i++) {
    const record_function_t *function = &f->functions[i];
    json_object *o = json_new_object();
    json_add_text(o, "function", function->name);
    if (*function->file) json_add_text(o, "file", function->file);
    if (function->line) json_add_count(o, "line", function->line);
    if (function->inlined) json_add_flag(o, "inlined", true);
    json_append(list, o);
  }
  return list;
}

static void put_frame(const record_lines_t *l, const record_frame_t *f) {
  json_object *o = new_line("frame");
  json_add_count(o, "id", f->id);
  json_add_address(o, "pc", f->pc);
  json_add_count(o, "image", f->image);
  json_add_count(o, "flags", f->flags);
  if (f->text) json_add_text(o, "name", f->text);
  if (f->function_count) json_add(o, "functions", stored_functions(f));
  put_line(l, o);
}

static void put_code(const record_lines_t *l, const record_code_t *c) {
  json_object *o = new_line("code");
  json_add_address(o, "address", c->address);
  json_add_count(o, "bytes", c->size);
  if (c->earliest) json_add_count(o, "earliest_ns", reader_ns(l->reader, c->earliest));
  json_add_count(o, "latest_ns", reader_ns(l->reader, c->latest));
  json_add_text(o, "function", c->function.name);
  if (*c->function.file) json_add_text(o, "file", c->function.file);
  if (c->function.line) json_add_count(o, "line", c->function.line);
  put_line(l, o);
}

static void put_node(const record_lines_t *l, const record_node_t *n) {
  json_object *o = new_line("node");
  json_add_count(o, "id", n->id);
  json_add_count(o, "parent", n->parent);
  json_add_count(o, "frame", n->frame);
  put_line(l, o);
}

static void put_chain(const record_lines_t *l, const record_chain_t *n) {
  json_object *o = new_line("chain");
  json_add_count(o, "id", n->id);
  json_add_count(o, "parent", n->parent);
  json_add_count(o, "frame", n->frame);
  json_add_flag(o, "ends_call", n->flags & CHAIN_ENDS_CALL);
  put_line(l, o);
}

static void put_python_call(const record_lines_t *l, uint32_t frame) {
  json_object *o = new_line("evaluator_call");
  json_add_count(o, "frame", frame);
  put_line(l, o);
}

/* ---- of sensors --------------------------------------------------------------------------- */

static void add_seccomp(const record_lines_t *l, json_object *o, body_t *b) {
  json_object *stopped = json_new_array(), *forbidden = json_new_array();
  uint64_t effect, size;
  json_add_count(o, "time_ns", reader_ns(l->reader, body_number(b)));
  json_add_count(o, "filters", body_number(b));
  while (!b->truncated && (effect = body_number(b))) {
    json_object *one = json_new_object();
    const uint8_t *call = body_string(b, &size);
    json_add_count(one, "effect", effect);
    add_bytes(one, "call", call, size);
    json_append(stopped, one);
  }
  json_add(o, "stopped", stopped);
  while (!b->truncated && b->p < b->end) {
    json_object *one = json_new_object();
    const uint8_t *call = body_string(b, &size);
    add_bytes(one, "call", call, size);
    json_append(forbidden, one);
  }
  json_add(o, "forbidden", forbidden);
}

static void put_sensor_record(const record_lines_t *l, const sensor_record_t *r) {
  body_t b = {.p = r->body, .end = r->body + r->size};
  const char *table = r->type == TABLE_SECCOMP       ? "seccomp"
                      : r->type == TABLE_POLICY      ? "policy"
                      : r->type == TABLE_POLICY_TEXT ? "policy_text"
                      : r->type == TABLE_AUDITED     ? "audited"
                                                     : "unknown";
  json_object *o = new_line(table);
  switch (r->type) {
  case TABLE_SECCOMP: add_seccomp(l, o, &b); break;
  case TABLE_POLICY_TEXT: add_bytes(o, "text", r->body, r->size); break;
  case TABLE_AUDITED:
    json_add_count(o, "function", body_number(&b));
    json_add_flag(o, "hooked", body_number(&b) != 0);
    break;
  default: json_add_count(o, "type", r->type); json_add_count(o, "bytes", r->size);
  }
  put_line(l, o);
}

void record_lines_tables(const record_lines_t *l) {
  size_t count;
  put_process(l);
  put_outside(l);
  put_tracer(l);
  put_call_limits(l);
  put_patched(l);
  const record_image_t *images = reader_images(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_image(l, &images[i]);
  const record_thread_t *threads = reader_threads(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_thread(l, &threads[i]);
  const record_frame_t *frames = reader_frames(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_frame(l, &frames[i]);
  const record_code_t *codes = reader_codes(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_code(l, &codes[i]);
  const record_node_t *nodes = reader_nodes(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_node(l, &nodes[i]);
  const record_chain_t *chains = reader_chains(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_chain(l, &chains[i]);
  const uint32_t *calls = reader_python_calls(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_python_call(l, calls[i]);
  const sensor_record_t *others = reader_sensor_records(l->reader, &count);
  for (size_t i = 0; i < count; i++)
    put_sensor_record(l, &others[i]);
}
