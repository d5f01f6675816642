/* SPDX-License-Identifier: MIT */
#include "report/exports/page/calls.h"

#define FIRST_UNIT_NS UINT64_C(1000)
#define ROWS_LIMIT    200000u
#define LONGEST_CALLS 50000u

static uint64_t whole_ns(double ns) { return ns > 0 && ns < 9e18 ? (uint64_t)(ns + 0.5) : 0; }

static bool on_call(void *context, const trace_span_t *call) {
  page_calls_t *c = context;
  page_row_t row = {.from = whole_ns(call->start_ns),
                    .to = PAGE_NEVER,
                    .place = call->node,
                    .thread = call->stream,
                    .kind = PAGE_CALLS_TOTAL,
                    .count = 1,
                    .amount = whole_ns(call->took_ns)};
  bool good = page_rows_add(&c->rows, &row);
  row.kind = PAGE_CALLS_SELF;
  row.count = 0;
  row.amount = whole_ns(call->self_ns);
  if (!good || !page_rows_add(&c->rows, &row)) c->failed = true;
  return !c->failed;
}

void page_calls_start(page_calls_t *c, report_t *report) {
  c->rows = (page_rows_t){.unit_ns = FIRST_UNIT_NS, .limit = ROWS_LIMIT};
  report->trace = &c->trace;
  report->calls.slowest = LONGEST_CALLS;
  report->calls.on_call = on_call;
  report->calls.on_call_context = c;
}

/* A caller comes before the calls that began with it. */
static int by_start(const void *left, const void *right) {
  const trace_span_t *a = left, *b = right;
  if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
  if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
  return a->depth < b->depth ? -1 : a->depth > b->depth;
}

bool page_calls_finish(page_calls_t *c) {
  trace_t *t = &c->trace;
  if (t->slowest_count) qsort(t->slowest, t->slowest_count, sizeof *t->slowest, by_start);
  page_rows_sort(&c->rows);
  return !c->failed;
}

void page_calls_free(page_calls_t *c) {
  trace_free(&c->trace);
  page_rows_free(&c->rows);
}
