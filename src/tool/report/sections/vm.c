/* SPDX-License-Identifier: MIT
 *
 * The report of regions: by kind as the kernel listed them at the last checkpoint, and the stacks
 * that mapped what is still there.
 */
#include <stdlib.h>

#include "analysis/malloc/mappings.h"
#include "report/json.h"
#include "report/report.h"
#include "sonde/status.h"

enum { BRIEF_STACKS = 3 };

static const char *kind_text(int kind) {
  static const char *const texts[] = {
#define KIND_TEXT(name, text) text,
      MAPPING_KIND_TABLE(KIND_TEXT)
#undef KIND_TEXT
  };
  return texts[kind];
}

static bool take_event(void *state, const record_event_t *e) { return mappings_event(state, e); }

static bool holds(const report_t *r, void *state) {
  const mappings_t *regions = state;
  (void)r;
  return regions->mapped || regions->checkpoints;
}

static void end(void *state) { mappings_free(state); }

static void print_kinds(const report_t *r, const mappings_t *regions, FILE *out) {
  mapping_totals_t kinds[MAPPING_KINDS];
  uint64_t below = 0, below_count = 0;
  char a[24], b[24], c[24];
  if (!regions->checkpoints) return;
  mappings_kinds(regions, kinds);
  fprintf(out, "\n%sby kind, as the kernel listed them %.3f s after the start%s\n", r->bold,
          (double)reader_ns(r->reader, regions->checkpoint_time) / 1e9, r->plain);
  for (int i = 0; i < MAPPING_KINDS; i++) {
    if (!kinds[i].count) continue;
    fprintf(out, "  %10s  %6s ×  %-30s %s by recorded calls\n",
            report_bytes((int64_t)kinds[i].bytes, a), report_count(kinds[i].count, b), kind_text(i),
            report_bytes((int64_t)kinds[i].with_stack, c));
    below += kinds[i].bytes - kinds[i].with_stack;
    below_count += kinds[i].with_stack == 0 ? kinds[i].count : 0;
  }
  fprintf(out,
          "  %10s  mapped below what can be seen, by the kernel, the loader and the C library; "
          "%s regions wholly so\n",
          report_bytes((int64_t)below, a), report_count(below_count, b));
}

static int print_text(const report_t *r, void *state, FILE *out) {
  mappings_t *regions = state;
  char a[24], b[24], c[24];
  mappings_rank(regions);
  fprintf(out, "\n%sregions%s\n", r->bold, r->plain);
  fprintf(out, "  calls      %s that mapped, %s that unmapped, %s that moved\n",
          report_count(regions->mapped, a), report_count(regions->unmapped, b),
          report_count(regions->moved, c));
  fprintf(out, "  mapped     %s by these calls at the end; most was %s, %.3f s after the start\n",
          report_bytes((int64_t)regions->bytes, a), report_bytes((int64_t)regions->peak_bytes, b),
          (double)reader_ns(r->reader, regions->peak_time) / 1e9);
  print_kinds(r, regions, out);
  uint32_t rows = r->brief ? BRIEF_STACKS : r->top;
  if (regions->stack_count) fprintf(out, "\n%smapped, by stack%s\n", r->bold, r->plain);
  for (size_t i = 0; i < regions->stack_count && i < rows; i++) {
    const stack_mappings_t *s = &regions->stacks[i];
    report_left_text(r, s->live, s->bytes, s->calls, "calls", s->stack, out);
  }
  return 0;
}

static json_object *of_kinds(const mappings_t *regions) {
  mapping_totals_t kinds[MAPPING_KINDS];
  json_object *list = json_object_new_array();
  mappings_kinds(regions, kinds);
  for (int i = 0; i < MAPPING_KINDS; i++) {
    if (!kinds[i].count) continue;
    json_object *o = json_object_new_object();
    json_object_object_add(o, "kind", json_object_new_string(kind_text(i)));
    json_add_count(o, "regions", kinds[i].count);
    json_add_count(o, "bytes", kinds[i].bytes);
    json_add_count(o, "with_stack", kinds[i].with_stack);
    json_object_array_add(list, o);
  }
  return list;
}

static json_object *make_json(const report_t *r, void *state) {
  mappings_t *regions = state;
  json_object *o = json_object_new_object(), *stacks = json_object_new_array();
  mappings_rank(regions);
  json_add_count(o, "mapped", regions->mapped);
  json_add_count(o, "unmapped", regions->unmapped);
  json_add_count(o, "moved", regions->moved);
  json_add_count(o, "live_bytes", regions->bytes);
  json_add_count(o, "peak_bytes", regions->peak_bytes);
  json_add_count(o, "peak_ns", reader_ns(r->reader, regions->peak_time));
  json_add_count(o, "checkpoints", regions->checkpoints);
  json_object_object_add(o, "kinds", of_kinds(regions));
  for (size_t i = 0; i < regions->stack_count && i < r->top; i++) {
    json_object *s = json_object_new_object();
    json_add_count(s, "stack", regions->stacks[i].stack);
    json_add_count(s, "calls", regions->stacks[i].calls);
    json_add_count(s, "bytes", regions->stacks[i].bytes);
    json_add_count(s, "live_bytes", regions->stacks[i].live);
    json_object_object_add(s, "frames", report_frames_json(r, regions->stacks[i].stack, NULL));
    json_object_array_add(stacks, s);
  }
  json_object_object_add(o, "stacks", stacks);
  return o;
}

const report_section_t section_vm = {.name = "vm",
                                     .option = "--malloc",
                                     .mode = RECORD_MAPPINGS,
                                     .state_bytes = sizeof(mappings_t),
                                     .event = take_event,
                                     .holds = holds,
                                     .text = print_text,
                                     .json = make_json,
                                     .end = end};
