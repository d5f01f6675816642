/* SPDX-License-Identifier: MIT */
#include "cli/common/export_csv.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/common/sections.h"
#include "report/exports/csv.h"

/* Rows of a list: more than any program has functions. */
enum { ROWS = 1000000 };

/* LIST is a key of the section's JSON; NULL: the series of `usage`. */
typedef struct list {
  const char *by, *list;
  int section;
  measure_t measure; /* the order of functions */
} list_t;

static const list_t lists[] = {
    {"sample", "functions", SECTIONS_sample, MEASURE_PEAK},
    {"peak", "functions", SECTIONS_malloc, MEASURE_PEAK},
    {"leaked", "functions", SECTIONS_malloc, MEASURE_LIVE},
    {"allocated", "functions", SECTIONS_malloc, MEASURE_ALLOCATED},
    {"temporary", "functions", SECTIONS_malloc, MEASURE_TEMPORARY},
    {"wait", "waits", SECTIONS_waits, MEASURE_PEAK},
    {"wall", "threads", SECTIONS_wall, MEASURE_PEAK},
    {"stall", "stalls", SECTIONS_stalls, MEASURE_PEAK},
    {"calls", "functions", SECTIONS_trace, MEASURE_PEAK},
    {"usage", NULL, SECTIONS_usage, MEASURE_PEAK},
};

/* NULL: none. */
static const list_t *find_list(const char *by) {
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (!strcmp(by, lists[i].by)) return &lists[i];
  return NULL;
}

bool export_csv_has_list(const char *by) { return !by || find_list(by); }

static int write_list(const sections_t *all, const list_t *list, FILE *out) {
  const report_section_t *section = sections_all[list->section];
  if (!sections_was_recorded(all, list->section)) {
    if (!section->option)
      return message_fail("'%s' has no data of '%s'", all->report->path, list->by);
    return message_fail("'%s' has no data of '%s'; record with 'sonde record %s'",
                        all->report->path, list->by, section->option);
  }
  json_object *json = section->json(all->report, all->states[list->section]), *rows = NULL;
  bool good = json != NULL;
  if (good && !list->list)
    csv_put_usage(json, out);
  else if (good && json_object_object_get_ex(json, list->list, &rows))
    good = csv_put_rows(rows, out);
  json_object_put(json);
  return good ? CLI_DONE : message_fail("out of memory");
}

int export_csv(report_t *report, const char *by, FILE *out) {
  replay_options_t window = {0};
  bool is_sampled = reader_header(report->reader)->mode & section_sample.mode;
  const list_t *list = find_list(by ? by : is_sampled ? "sample" : "peak");
  sections_t *all = calloc(1, sizeof *all);
  if (!all) return message_fail("out of memory");
  report->measure = list->measure;
  report->window = &window;
  report->top = ROWS;
  all->report = report;
  all->named[list->section] = all->any_named = true;
  int status = sections_run(all, &window);
  status = status < 0 ? message_fail("out of memory") : write_list(all, list, out);
  sections_free(all);
  free(all);
  return status;
}
