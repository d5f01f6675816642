/* SPDX-License-Identifier: MIT
 *
 * The analysis reports a call when it ends, its callees before it. So calls are collected until an
 * outermost call has ended, and then sorted by their start.
 */
#include "report/exports/call_log.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "report/exports/name.h"
#include "sonde/status.h"

typedef struct call_log {
  reader_t *reader;
  frame_names_t *names;
  FILE *out;
  bool full, failed;
  uint32_t stream; /* of the last call; 0: none yet */
  ARRAY(trace_span_t) calls;
} call_log_t;

static int by_start(const void *left, const void *right) {
  const trace_span_t *a = left, *b = right;
  if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
  return a->depth < b->depth ? -1 : a->depth > b->depth;
}

static void print_thread(const call_log_t *l) {
  const record_thread_t *t = reader_thread(l->reader, l->stream);
  fprintf(l->out, "# thread %" PRIu32 " %s\n# depth    duration ms      start ms  call\n",
          t ? t->tid : l->stream, t ? t->name : "");
}

static void print_call(const call_log_t *l, const trace_span_t *c) {
  char name[REPORT_NAME_MAX];
  const frame_name_t *names;
  const record_frame_t *f = c->frame ? reader_frame(l->reader, c->frame) : NULL;
  int count = f ? frame_names_of_frame(l->names, f, &names) : 0;
  unsigned depth = c->depth ? c->depth - 1 : 0;
  fprintf(l->out, "%7u %14.6f %13.6f  %*s%s%s\n", depth, c->took_ns / 1e6, c->start_ns / 1e6,
          (int)(2 * depth), "",
          count ? export_name(&names[count - 1], l->full, name) : "[called before the recording]",
          c->open ? "  (did not return)" : "");
}

static void print_calls(call_log_t *l) {
  if (l->calls.count) qsort(l->calls.items, l->calls.count, sizeof *l->calls.items, by_start);
  for (size_t i = 0; i < l->calls.count; i++)
    print_call(l, &l->calls.items[i]);
  l->calls.count = 0;
}

static bool add_call(void *context, const trace_span_t *call) {
  call_log_t *l = context;
  if (call->stream != l->stream) {
    print_calls(l);
    l->stream = call->stream;
    print_thread(l);
  }
  trace_span_t *item = ARRAY_ADD(l->calls);
  if (!item) {
    l->failed = true;
    return false;
  }
  *item = *call;
  if (call->depth <= 1) print_calls(l);
  return !ferror(l->out);
}

int call_log_write(reader_t *reader, frame_names_t *names, const trace_filter_t *filter, bool full,
                   FILE *out) {
  call_log_t l = {.reader = reader, .names = names, .out = out, .full = full};
  trace_filter_t each = *filter;
  trace_t trace;
  each.on_call = add_call;
  each.on_call_context = &l;
  int status = trace_run(&trace, reader, &each);
  if (status == 0) trace_free(&trace);
  print_calls(&l);
  free(l.calls.items);
  return status < 0 || !l.failed ? status : SONDE_ENOMEM;
}
