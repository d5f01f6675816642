/* SPDX-License-Identifier: MIT
 *
 * The traced calls as JSON: docs/json.md, "trace".
 */
#include <stdlib.h>

#include "report/json.h"
#include "report/sections/trace_view.h"

static void add_ns(json_object *o, const char *key, double ns) {
  json_add_number(o, key, ns > 0 && ns < 9e18 ? (int64_t)(ns + 0.5) : 0);
}

static void add_name(json_object *o, const frame_name_t *name) {
  json_add_text(o, "function", name->function);
  if (name->known && *name->library) json_add_text(o, "module", name->library);
  if (name->file) {
    json_add_text(o, "file", name->file);
    json_add_number(o, "line", name->line);
  }
}

static void add_times(json_object *o, const trace_times_t *t, double total) {
  json_add_number(o, "calls", (int64_t)t->calls);
  add_ns(o, "total_ns", total);
  add_ns(o, "self_ns", t->self_ns);
  add_ns(o, "least_ns", t->min_ns);
  add_ns(o, "mean_ns", t->calls ? t->total_ns / (double)t->calls : 0);
  add_ns(o, "worst_ns", t->max_ns);
  json_object *list = json_object_new_array();
  for (int i = 0; i < TRACE_BUCKETS; i++) {
    if (!t->buckets[i]) continue;
    json_object *row = json_object_new_object();
    json_add_number(row, "at_least_ns", i ? INT64_C(1) << i : 0);
    json_add_number(row, "calls", t->buckets[i]);
    json_object_array_add(list, row);
  }
  json_object_object_add(o, "histogram", list);
}

static json_object *functions_json(const trace_view_t *v) {
  json_object *list = json_object_new_array();
  for (size_t i = 0; i < v->function_count; i++) {
    json_object *row = json_object_new_object();
    add_name(row, v->functions[i].name);
    add_times(row, &v->functions[i].times, v->functions[i].total_ns);
    json_object_array_add(list, row);
  }
  return list;
}

/* A flat list, since a tree may be deeper than a parser allows. */
static json_object *nodes_json(const trace_view_t *v) {
  json_object *list = json_object_new_array();
  for (uint32_t n = 1; n < v->trace.node_count; n++) {
    const trace_node_t *node = &v->trace.nodes[n];
    json_object *row = json_object_new_object();
    json_add_number(row, "node", n);
    json_add_number(row, "parent", node->parent);
    add_name(row, trace_node_name(v, n));
    add_times(row, &node->times, node->times.total_ns);
    json_object_array_add(list, row);
  }
  return list;
}

static json_object *slowest_json(const trace_view_t *v) {
  json_object *list = json_object_new_array();
  for (size_t i = 0; i < v->trace.slowest_count; i++) {
    const trace_span_t *one = &v->trace.slowest[i];
    const record_thread_t *t = reader_thread(v->report->reader, one->stream);
    json_object *row = json_object_new_object();
    add_name(row, trace_frame_name(v, one->frame));
    json_add_number(row, "node", one->node);
    add_ns(row, "start_ns", one->start_ns);
    add_ns(row, "took_ns", one->took_ns);
    if (t) json_add_number(row, "tid", t->tid);
    if (one->open) json_object_object_add(row, "open", json_object_new_boolean(1));
    json_object_array_add(list, row);
  }
  return list;
}

json_object *trace_view_json(const trace_view_t *v) {
  const trace_t *t = &v->trace;
  json_object *o = json_object_new_object(), *tracer = json_object_new_object();
  json_add_number(o, "calls", (int64_t)t->calls);
  json_add_number(o, "shown", (int64_t)t->shown);
  json_add_number(o, "threads", t->threads);
  json_add_number(o, "bytes", (int64_t)calls_bytes(v->report->reader));
  json_add_number(o, "left", (int64_t)t->left);
  json_add_number(o, "open", (int64_t)t->open);
  json_add_number(o, "lost", (int64_t)t->lost);
  json_add_number(o, "strays", (int64_t)t->unmatched);
  json_add_number(o, "unknown", (int64_t)t->unknown);
  json_object_object_add(tracer, "pair_ns", json_object_new_double(t->cost.pair));
  json_object_object_add(tracer, "inside_ns", json_object_new_double(t->cost.inside));
  json_object_object_add(tracer, "taken_off", json_object_new_boolean(v->report->calls.net));
  json_object_object_add(o, "tracer", tracer);
  json_object_object_add(o, "functions", functions_json(v));
  json_object_object_add(o, "nodes", nodes_json(v));
  json_object_object_add(o, "slowest", slowest_json(v));
  return o;
}
