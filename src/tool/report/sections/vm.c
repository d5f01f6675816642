/* SPDX-License-Identifier: MIT
 *
 * Section `vm`: memory mappings, by kind as the kernel listed them at the last checkpoint, and the
 * stacks that mapped what is still mapped.
 */
#include <stdlib.h>

#include "analysis/malloc/mappings.h"
#include "report/json.h"
#include "report/sections/analyses.h"
#include "report/table.h"
#include "sonde/status.h"

enum { BRIEF_STACKS = 3, BRIEF_BYTES = 1 << 20 };

static const char *const kind_names[] = {
#define KIND_NAME(name, text) text,
    MAPPING_KIND_TABLE(KIND_NAME)
#undef KIND_NAME
};

typedef struct kind_row {
  const char *kind;
  mapping_totals_t totals;
} kind_row_t;

typedef struct tag_row {
  const char *tag;
  tag_mappings_t totals;
} tag_row_t;

static const column_t kind_columns[] = {
    {"bytes", "bytes", UNIT_BYTES, FIELD(kind_row_t, totals.bytes)},
    {"mappings", "mappings", UNIT_COUNT, FIELD(kind_row_t, totals.count)},
    {"with_stack", "by recorded calls", UNIT_BYTES, FIELD(kind_row_t, totals.with_stack)},
    {"kind", "kind", UNIT_TEXT, FIELD(kind_row_t, kind)},
    {0}};

static const column_t stack_columns[] = {
    {"live_bytes", "mapped", UNIT_BYTES, FIELD(stack_mappings_t, live)},
    {"bytes", "total", UNIT_BYTES, FIELD(stack_mappings_t, bytes)},
    {"calls", "calls", UNIT_COUNT, FIELD(stack_mappings_t, calls)},
    {"stack", "stack", UNIT_STACK, FIELD(stack_mappings_t, stack)},
    {0}};

static const column_t tag_columns[] = {
    {"live_bytes", "mapped", UNIT_BYTES, FIELD(tag_row_t, totals.live)},
    {"bytes", "total", UNIT_BYTES, FIELD(tag_row_t, totals.bytes)},
    {"calls", "calls", UNIT_COUNT, FIELD(tag_row_t, totals.calls)},
    {"tag", "tag", UNIT_TEXT, FIELD(tag_row_t, tag)},
    {0}};

enum { TAGS_MAX = 256 }; /* an Apple tag is a byte */

/* ROWS has TAGS_MAX items. */
static table_t tags_of(const mappings_t *m, tag_row_t *rows) {
  size_t count = 0;
  for (; count < m->tag_count && count < TAGS_MAX; count++)
    rows[count] = (tag_row_t){m->tags[count].tag, m->tags[count]};
  return (table_t){TABLE(tag_columns, rows, count)};
}

/* ROWS has MAPPING_KINDS items. */
static table_t kinds_of(const mappings_t *m, kind_row_t *rows) {
  mapping_totals_t kinds[MAPPING_KINDS];
  size_t count = 0;
  bool good = m->checkpoints > 0;
  if (good) mappings_kinds(m, kinds);
  for (int i = 0; good && i < MAPPING_KINDS; i++)
    if (kinds[i].count) rows[count++] = (kind_row_t){kind_names[i], kinds[i]};
  return (table_t){TABLE(kind_columns, rows, count)};
}

static void print_kinds(const report_t *r, const mappings_t *m, FILE *out) {
  kind_row_t rows[MAPPING_KINDS];
  const table_t table = kinds_of(m, rows);
  char text[24];
  uint64_t unrecorded = 0;
  if (!table.count) return;
  for (size_t i = 0; i < table.count; i++)
    unrecorded += rows[i].totals.bytes - rows[i].totals.with_stack;
  fprintf(out, "\n%sby kind, as the kernel listed them %.3f s after the start%s\n", r->bold,
          (double)reader_ns(r->reader, m->checkpoint_time) / 1e9, r->plain);
  table_text(r, &table, MAPPING_KINDS, "", out);
  fprintf(out, "  kernel, loader and C library mapped %s without a recorded call\n",
          report_bytes((int64_t)unrecorded, text));
}

static int print_text(const report_t *r, void *state, FILE *out) {
  mappings_t *m = state;
  char a[24], b[24], c[24];
  mappings_rank(m);
  fprintf(out, "\n%smappings%s\n", r->bold, r->plain);
  const reader_damage_t *d = reader_damage(r->reader);
  if (d->dropped_chunks)
    fprintf(out, "  covers     from %.3f s; older calls were overwritten (--limit)\n",
            (double)reader_ns(r->reader, d->complete_from) / 1e9);
  fprintf(out, "  calls      %s mapped, %s unmapped, %s moved memory\n", report_count(m->mapped, a),
          report_count(m->unmapped, b), report_count(m->moved, c));
  if (m->mapped)
    fprintf(out, "  mapped     %s at the end; at most %s, %.3f s after the start\n",
            report_bytes((int64_t)m->bytes, a), report_bytes((int64_t)m->peak_bytes, b),
            (double)reader_ns(r->reader, m->peak_time) / 1e9);
  if (!r->brief) print_kinds(r, m, out);
  tag_row_t rows[TAGS_MAX];
  const table_t tags = tags_of(m, rows);
  if (tags.count) {
    fprintf(out, "%s%smapped, by tag%s\n", report_gap(r), r->bold, r->plain);
    table_text(r, &tags, report_rows(r, BRIEF_STACKS), "tags", out);
  }
  if (!m->stack_count || report_is_tight(r)) return 0;
  const table_t stacks = {TABLE(stack_columns, m->stacks, m->stack_count)};
  completeness_t complete = {0};
  for (size_t i = 0; i < m->stack_count; i++)
    report_add_stack(r, &complete, m->stacks[i].stack, m->stacks[i].calls);
  fprintf(out, "%s%smapped, by stack%s\n", report_gap(r), r->bold, r->plain);
  report_completeness_text(r, &complete, "the calls", out);
  table_text(r, &stacks, report_rows(r, BRIEF_STACKS), "stacks", out);
  return 0;
}

static json_object *make_json(const report_t *r, void *state) {
  mappings_t *m = state;
  kind_row_t rows[MAPPING_KINDS];
  json_object *o = json_new_object();
  mappings_rank(m);
  const table_t kinds = kinds_of(m, rows),
                stacks = {TABLE(stack_columns, m->stacks, m->stack_count)};
  json_add_count(o, "mapped", m->mapped);
  json_add_count(o, "unmapped", m->unmapped);
  json_add_count(o, "moved", m->moved);
  json_add_count(o, "live_bytes", m->bytes);
  json_add_count(o, "peak_bytes", m->peak_bytes);
  json_add_count(o, "peak_ns", reader_ns(r->reader, m->peak_time));
  json_add_count(o, "checkpoints", m->checkpoints);
  tag_row_t tags[TAGS_MAX];
  const table_t by_tag = tags_of(m, tags);
  if (by_tag.count) json_add(o, "tags", table_json(r, &by_tag, TAGS_MAX));
  json_add(o, "kinds", table_json(r, &kinds, MAPPING_KINDS));
  json_add(o, "stacks", table_json(r, &stacks, r->top));
  return o;
}

/* ---- the section -------------------------------------------------------------------------- */

static bool add_event(void *state, const record_event_t *e) { return mappings_event(state, e); }

const mappings_t *section_vm_mappings(const void *state) { return state; }

/* A summary omits what every program maps, such as the stack of a thread or a buffer. */
static bool has_data(const report_t *r, void *state) {
  const mappings_t *m = state;
  return r->brief ? m->peak_bytes >= BRIEF_BYTES : m->mapped || m->checkpoints;
}

static void end(void *state) { mappings_free(state); }

const report_section_t section_vm = {.name = "vm",
                                     .option = "--malloc",
                                     .mode = RECORD_MAPPINGS,
                                     .state_bytes = sizeof(mappings_t),
                                     .event = add_event,
                                     .has_data = has_data,
                                     .text = print_text,
                                     .json = make_json,
                                     .end = end};
