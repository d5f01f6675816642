/* SPDX-License-Identifier: MIT
 *
 * The result of a leak search: its cost and its uncertainties first, then leaked blocks by stack,
 * or the references to one block. JSON: docs/json.md, "sonde leaks".
 */
#include "report/leaks/leaks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wrap.h"
#include "report/json.h"
#include "report/stacks/alike.h"
#include "report/table.h"
#include "sonde/status.h"

enum { REFERRERS_SHOWN = 20, TEXT_COLUMN = 13 };

static const leaks_referrer_t *referrers_of(const leaks_t *l, uint64_t *count) {
  const leaks_exchange_t *x = l->exchange;
  uint64_t n = x->referrer_count;
  *count = n < LEAKS_REFERRERS ? n : LEAKS_REFERRERS;
  return (const void *)((const uint8_t *)x + l->answers_at);
}

static const leaks_block_t *holder_of(const leaks_t *l, const leaks_place_t *p,
                                      const leaks_referrer_t *referrer) {
  return p->holder == LEAKS_BY_BLOCK ? leaks_find(l, referrer->where) : NULL;
}

/* ---- text --------------------------------------------------------------------------------- */

static void print_cost(const leaks_t *l, FILE *out) {
  const leaks_exchange_t *x = l->exchange;
  char a[24], b[24], c[24];
  fprintf(out, "  paused     for %s, of which %s to copy the process; %" PRIu32 " thread%s\n",
          report_duration((double)x->pause_ns, a), report_duration((double)x->copying_ns, b),
          x->thread_count, x->thread_count == 1 ? "" : "s");
  fprintf(out, "  searched   %s of roots and %s of blocks, in %s, in the copy\n",
          report_bytes((int64_t)x->root_bytes, a), report_bytes((int64_t)x->block_bytes, b),
          report_duration((double)x->scan_ns, c));
}

static void print_limits(const leaks_t *l, FILE *out) {
  const leaks_exchange_t *x = l->exchange;
  char a[24];
  if (l->unknown_threads)
    fprintf(out,
            "  uncertain  %" PRIu32 " threads are blocked in calls that a signal would interrupt; "
            "%" PRIu64 " of their\n             registers are unknown and may reference as many "
            "blocks\n",
            l->unknown_threads, l->unknown_registers);
  if (l->running_threads)
    fprintf(out,
            "  uncertain  %" PRIu32 " threads could not be stopped; their registers are unknown\n",
            l->running_threads);
  if (x->reallocating)
    fprintf(out, "  uncertain  %" PRIu32 " threads were inside a realloc at every attempt\n",
            x->reallocating);
  if (x->late)
    fprintf(out, "  unrecorded not every block was recorded: all memory of the allocator counts "
                 "as\n             reachable, and old pointers in it may hide leaks\n");
  if (x->roots_skipped)
    fprintf(out, "  skipped    %" PRIu32 " mappings exceeded the limit and were not searched\n",
            x->roots_skipped);
  if (l->unmapped)
    fprintf(out, "  unmapped   %s blocks are at addresses without memory\n",
            report_count(l->unmapped, a));
}

const char *leaks_parts(counts_t lost, counts_t indirect, uint64_t in_cycles,
                        char text[LEAKS_PARTS_MAX]) {
  char a[24], b[24];
  text[0] = 0;
  if (indirect.count)
    snprintf(text, LEAKS_PARTS_MAX,
             ": %s in %s block%s that nothing %spoints to, the rest reachable only from %s",
             report_bytes((int64_t)lost.bytes, a), report_count(lost.count, b),
             report_plural(lost.count), in_cycles ? "outside their cycles " : "",
             lost.count == 1 ? "it" : "them");
  return text;
}

/* What one line of source leaked: stacks that are printed alike (report/stacks/alike.h). */
typedef struct leaks_site {
  leaks_stack_t sum; /* its stack and example are those of the largest */
  size_t stacks;
} leaks_site_t;

static void add_counts(counts_t *to, counts_t more) {
  to->count += more.count;
  to->bytes += more.bytes;
}

static void add_to_site(leaks_site_t *site, const leaks_stack_t *s) {
  leaks_stack_t *sum = &site->sum;
  if (!site->stacks++) {
    *sum = *s;
    return;
  }
  add_counts(&sum->lost, s->lost);
  add_counts(&sum->indirect, s->indirect);
  add_counts(&sum->total, s->total);
  sum->in_cycles += s->in_cycles;
  sum->uncertain += s->uncertain;
}

static int by_total(const void *left, const void *right) {
  const leaks_stack_t *a = &((const leaks_site_t *)left)->sum;
  const leaks_stack_t *b = &((const leaks_site_t *)right)->sum;
  if (a->total.bytes != b->total.bytes) return a->total.bytes > b->total.bytes ? -1 : 1;
  return a->stack < b->stack ? -1 : a->stack > b->stack;
}

/* Returns an array of *COUNT sites, which the caller frees; NULL: out of memory. */
static leaks_site_t *make_sites(const report_t *r, const leaks_t *l, size_t *count) {
  alike_t groups = {0};
  size_t group = 0;
  leaks_site_t *sites = calloc(l->by_stack_count + 1, sizeof *sites);
  bool good = sites != NULL;
  for (size_t i = 0; i < l->by_stack_count && good; i++) {
    good = alike_add(&groups, r, l->by_stack[i].stack, "", &group);
    if (good) add_to_site(&sites[group], &l->by_stack[i]);
  }
  *count = groups.count;
  alike_free(&groups);
  if (good && *count) qsort(sites, *count, sizeof *sites, by_total);
  if (!good) free(sites);
  return good ? sites : NULL;
}

static void print_site(const report_t *r, const leaks_site_t *site, FILE *out) {
  const leaks_stack_t *s = &site->sum;
  char a[24], b[24], c[24], d[24], parts[LEAKS_PARTS_MAX], text[384];
  int n = snprintf(text, sizeof text, "in %s block%s%s", report_count(s->total.count, b),
                   report_plural(s->total.count),
                   leaks_parts(s->lost, s->indirect, s->in_cycles, parts));
#define ADD(...) n += snprintf(text + n, sizeof text - (size_t)n, __VA_ARGS__)
  if (s->in_cycles) ADD("; %s in cycles", report_count(s->in_cycles, c));
  if (s->uncertain == s->lost.count)
    ADD("; uncertain");
  else if (s->uncertain)
    ADD("; %s uncertain", report_count(s->uncertain, d));
  char example[96];
  int size =
      snprintf(example, sizeof example, "e.g. 0x%" PRIx64 "  stack %" PRIu32, s->example, s->stack);
  if (site->stacks > 1)
    size +=
        snprintf(example + size, sizeof example - (size_t)size, " and %zu alike", site->stacks - 1);
  bool fits = !r->columns || TEXT_COLUMN + n + 2 + size <= (int)r->columns;
  ADD("%s%s", fits ? "  " : "\n", example);
#undef ADD
  fprintf(out, "  %10s ", report_bytes((int64_t)s->total.bytes, a));
  wrap_print(out, text, (wrap_t){TEXT_COLUMN, TEXT_COLUMN, r->columns, WRAP_ALL_LINES});
  report_stack_text(r, s->stack, out);
}

static void print_sum(const report_t *r, const leaks_t *l, FILE *out) {
  char a[24], b[24], parts[LEAKS_PARTS_MAX], text[LEAKS_PARTS_MAX + 96];
  snprintf(text, sizeof text, "%sleaked%s  %s in %s block%s%s", r->bold, r->plain,
           report_bytes((int64_t)l->total.bytes, a), report_count(l->total.count, b),
           report_plural(l->total.count), leaks_parts(l->lost, l->indirect, l->in_cycles, parts));
  fputc('\n', out);
  wrap_print(out, text, (wrap_t){0, 8, r->columns, WRAP_ALL_LINES});
}

int leaks_text(const report_t *r, const leaks_t *l, FILE *out) {
  char a[24], b[24];
  fprintf(out, "  live       %s in %s block%s\n", report_bytes((int64_t)l->live.bytes, a),
          report_count(l->live.count, b), report_plural(l->live.count));
  print_cost(l, out);
  print_limits(l, out);
  print_sum(r, l, out);
  size_t count;
  leaks_site_t *sites = make_sites(r, l, &count);
  if (!sites) return SONDE_ENOMEM;
  for (size_t i = 0; i < count && i < r->top; i++)
    print_site(r, &sites[i], out);
  if (count > r->top) report_more(r, count - (size_t)r->top, "places", out);
  free(sites);
  return 0;
}

int leaks_at_end_text(const report_t *r, const leaks_at_end_t *end, FILE *out) {
  int32_t error = end->error;
  switch (end->result) {
  case LEAKS_UNRECORDED: break;
  case LEAKS_SEARCHED:
    fprintf(out, "  searched   %s, %.3f s after the start\n", leaks_time_of_search(r->reader),
            (double)end->time_ns / 1e9);
    return leaks_text(r, &end->leaks, out);
  case LEAKS_NO_EXIT:
    fputs(reader_header(r->reader)->exit_status == RECORD_STATUS_UNKNOWN
              ? "  not searched: the program ended before the recording did\n"
              : "  not searched: the program did not return from main or call exit, so its memory "
                "was\n  gone; 'sonde leaks PID' searches while it runs\n",
          out);
    break;
  case LEAKS_NO_COPY:
    fprintf(out, "  not searched: cannot copy the process: %s\n",
            error < LEAKS_ERRNO ? strerror(LEAKS_ERRNO - error) : sonde_strerror(error));
    break;
  case LEAKS_NO_BLOCKS:
    fprintf(out, "  not searched: events were lost, so the live blocks are unknown; record with\n"
                 "  'sonde record --leaks --malloc=live'\n");
  }
  return 0;
}

static const char *verdict_text(const leaks_block_t *b) {
  static const char *const texts[] = {"reachable", "leaked: nothing references it",
                                      "leaked: only blocks that it leads to reference it",
                                      "leaked: only leaked blocks reference it",
                                      "unmapped: its address has no memory"};
  return texts[b->verdict];
}

static void print_referrer(const report_t *r, const leaks_t *l, pid_t pid,
                           const leaks_referrer_t *referrer, uint64_t start, FILE *out) {
  leaks_place_t p;
  leaks_place(r, l, pid, referrer, &p);
  fprintf(out, "  %s", leaks_holder_name(p.holder));
  if (p.tid) fprintf(out, " of thread %" PRIu32 " %s:", p.tid, p.thread);
  fprintf(out, " %s", p.where);
  if (referrer->value != start) fprintf(out, ", to byte %" PRIu64, referrer->value - start);
  const leaks_block_t *holder = holder_of(l, &p, referrer);
  if (!holder) {
    fputc('\n', out);
    return;
  }
  uint32_t stack = l->stacks[holder - l->blocks];
  fprintf(out, " of %" PRIu64 " bytes, itself %s, stack %" PRIu32 "\n", holder->size,
          verdict_text(holder), stack);
  report_stack_text(r, stack, out);
}

void leaks_block_text(const report_t *r, const leaks_t *l, pid_t pid, const leaks_block_t *b,
                      FILE *out) {
  uint64_t count;
  const leaks_referrer_t *all = referrers_of(l, &count);
  fprintf(out, "0x%" PRIx64 "  %" PRIu64 " bytes, %s\n", b->address, b->size, verdict_text(b));
  report_stack_text(r, l->stacks[b - l->blocks], out);
  print_cost(l, out);
  print_limits(l, out);
  fprintf(out, "\n%sreferences%s\n", r->bold, r->plain);
  if (!count) fprintf(out, "  none\n");
  for (uint64_t i = 0; i < count && i < REFERRERS_SHOWN; i++)
    print_referrer(r, l, pid, &all[i], b->address, out);
  uint64_t more = count > REFERRERS_SHOWN ? count - REFERRERS_SHOWN : 0;
  more += l->exchange->referrers_over;
  if (more) fprintf(out, "  … and %" PRIu64 " more\n", more);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static const char *const verdicts[] = {"reachable", "leaked", "cycle", "indirect", "unmapped"};

static const column_t search_columns[] = {
    {"pause_ns", NULL, UNIT_COUNT, FIELD(leaks_exchange_t, pause_ns)},
    {"copying_ns", NULL, UNIT_COUNT, FIELD(leaks_exchange_t, copying_ns)},
    {"search_ns", NULL, UNIT_COUNT, FIELD(leaks_exchange_t, scan_ns)},
    {"root_bytes", NULL, UNIT_COUNT, FIELD(leaks_exchange_t, root_bytes)},
    {"block_bytes", NULL, UNIT_COUNT, FIELD(leaks_exchange_t, block_bytes)},
    {"tries", NULL, UNIT_COUNT, FIELD(leaks_exchange_t, tries)},
    {"reallocs_under_way", NULL, UNIT_COUNT, FIELD(leaks_exchange_t, reallocating)},
    {0}};

static const column_t result_columns[] = {{"live", NULL, UNIT_BLOCKS, FIELD(leaks_t, live)},
                                          {"total", NULL, UNIT_BLOCKS, FIELD(leaks_t, total)},
                                          {"leaked", NULL, UNIT_BLOCKS, FIELD(leaks_t, lost)},
                                          {"indirect", NULL, UNIT_BLOCKS, FIELD(leaks_t, indirect)},
                                          {"unmapped", NULL, UNIT_COUNT, FIELD(leaks_t, unmapped)},
                                          {0}};

static const column_t stack_columns[] = {
    {"total", NULL, UNIT_BLOCKS, FIELD(leaks_stack_t, total)},
    {"leaked", NULL, UNIT_BLOCKS, FIELD(leaks_stack_t, lost)},
    {"indirect", NULL, UNIT_BLOCKS, FIELD(leaks_stack_t, indirect)},
    {"in_cycles", NULL, UNIT_COUNT, FIELD(leaks_stack_t, in_cycles)},
    {"uncertain", NULL, UNIT_COUNT, FIELD(leaks_stack_t, uncertain)},
    {"example", NULL, UNIT_ADDRESS, FIELD(leaks_stack_t, example)},
    {"stack", NULL, UNIT_STACK, FIELD(leaks_stack_t, stack)},
    {0}};

static json_object *threads_json(const leaks_t *l) {
  static const char *const states[] = {"ended",   "ended",   "stopped", "stopped",
                                       "spilled", "unknown", "running"};
  json_object *list = json_new_array();
  const leaks_exchange_t *x = l->exchange;
  for (uint32_t i = 0; i < x->thread_count && i < LEAKS_THREADS; i++) {
    if (!x->threads[i].tid) break; /* of a recording */
    json_object *o = json_new_object();
    json_add_count(o, "tid", x->threads[i].tid);
    if (x->threads[i].state <= LEAKS_THREAD_RUNNING)
      json_add_text(o, "registers", states[x->threads[i].state]);
    json_append(list, o);
  }
  return list;
}

static json_object *search_json(const report_t *r, const leaks_t *l, pid_t pid) {
  json_object *o = json_new_object();
  json_add_number(o, "pid", pid);
  table_row_json(r, search_columns, l->exchange, o);
  json_add_flag(o, "every_block_recorded", !l->exchange->late);
  json_add(o, "threads", threads_json(l));
  return o;
}

static void add_block(const leaks_block_t *b, json_object *o) {
  json_add_count(o, "size", b->size);
  json_add_text(o, "verdict", verdicts[b->verdict]);
}

static json_object *blocks_json(const leaks_t *l) {
  json_object *list = json_new_array();
  for (uint64_t i = 0; i < l->count; i++) {
    const leaks_block_t *b = &l->blocks[i];
    if (b->verdict == LEAKS_REACHED || b->verdict == LEAKS_GONE) continue;
    json_object *o = json_new_object();
    json_add_address(o, "address", b->address);
    add_block(b, o);
    json_add_count(o, "stack", l->stacks[i]);
    json_append(list, o);
  }
  return list;
}

json_object *leaks_json(const report_t *r, const leaks_t *l, pid_t pid) {
  json_object *o = search_json(r, l, pid);
  const table_t stacks = {TABLE(stack_columns, l->by_stack, l->by_stack_count)};
  table_row_json(r, result_columns, l, o);
  json_add(o, "stacks", table_json(r, &stacks, r->top));
  if (!l->blocks) return o; /* of a recording */
  json_object *reached = json_new_object();
  for (int i = LEAKS_BY_REGISTER; i < LEAKS_HOLDERS; i++)
    if (i != LEAKS_BY_TLS)
      json_add_count(reached, leaks_holder_name((leaks_holder_t)i), l->holders[i]);
  json_add(o, "reached_from", reached);
  json_add(o, "blocks", blocks_json(l));
  return o;
}

json_object *leaks_at_end_json(const report_t *r, const leaks_at_end_t *end) {
  static const char *const results[] = {"unrecorded", "searched", "no_exit", "no_copy",
                                        "lost_events"};
  const leaks_t *l = &end->leaks;
  bool searched = end->result == LEAKS_SEARCHED;
  json_object *o =
      searched ? leaks_json(r, l, (pid_t)reader_header(r->reader)->pid) : json_new_object();
  json_add_text(o, "result", results[end->result]);
  if (searched) json_add_count(o, "searched_ns", end->time_ns);
  return o;
}

static json_object *referrer_json(const report_t *r, const leaks_t *l, pid_t pid,
                                  const leaks_referrer_t *referrer) {
  json_object *o = json_new_object();
  leaks_place_t p;
  leaks_place(r, l, pid, referrer, &p);
  json_add_text(o, "kind", leaks_holder_name(p.holder));
  json_add_text(o, "where", p.where);
  json_add_address(o, "value", referrer->value);
  if (p.holder != LEAKS_BY_REGISTER) json_add_address(o, "address", referrer->where);
  if (p.tid) json_add_count(o, "tid", p.tid);
  const leaks_block_t *holder = holder_of(l, &p, referrer);
  if (!holder) return o;
  json_add_address(o, "block", holder->address);
  add_block(holder, o);
  json_add(o, "frames", report_frames_json(r, l->stacks[holder - l->blocks], NULL));
  return o;
}

json_object *leaks_block_json(const report_t *r, const leaks_t *l, pid_t pid,
                              const leaks_block_t *b) {
  uint64_t count;
  const leaks_referrer_t *all = referrers_of(l, &count);
  json_object *o = search_json(r, l, pid), *list = json_new_array();
  json_add_address(o, "address", b->address);
  add_block(b, o);
  json_add(o, "frames", report_frames_json(r, l->stacks[b - l->blocks], NULL));
  for (uint64_t i = 0; i < count; i++)
    json_append(list, referrer_json(r, l, pid, &all[i]));
  json_add(o, "referrers", list);
  json_add_count(o, "more_referrers", l->exchange->referrers_over);
  return o;
}
