/* SPDX-License-Identifier: MIT */
#include "cli/common/timeline.h"

#include <pthread.h>

#include "report/json.h"
#include "report/sections/analyses.h"
#include "sonde/status.h"

/* Rows of the lists that a page shows as they are: waits, locks, slow calls. */
enum { LIST_ROWS = 1000 };

static bool on_event(void *events, const record_event_t *event) {
  return page_events_add(events, event);
}

/* These lists are in tables of their own. */
static void drop_stacks(json_object *all) {
  static const char *const names[] = {"sample", "malloc", "wall"};
  json_object *section;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (json_object_object_get_ex(all, names[i], &section))
      json_object_object_del(section, "stacks");
}

static int read_events(timeline_t *t, report_t *report) {
  report->functions_by = FUNCTIONS_BY_TOTAL;
  report->top = LIST_ROWS;
  report->measure = MEASURE_PEAK;
  report->window = &t->window;
  page_calls_start(&t->calls, report);
  t->sections.report = report;
  t->sections.event = on_event;
  t->sections.event_context = &t->events;
  t->events.reader = report->reader;
  if (!page_events_start(&t->events) || !page_blocks_start(&t->blocks, &t->window))
    return SONDE_ENOMEM;
  int status = sections_run(&t->sections, &t->window);
  if (status < 0) return status;
  page_events_finish(&t->events);
  return 0;
}

static void *finish_blocks(void *timeline) {
  timeline_t *t = timeline;
  return page_blocks_finish(&t->blocks, &t->sections.replay) ? t : NULL;
}

/* Adds up the blocks on a second thread, beside the sections: these name functions, the blocks only
 * read the end of the replay. False: out of memory. */
static bool finish(timeline_t *t) {
  pthread_t thread;
  void *blocks = NULL;
  bool started = pthread_create(&thread, NULL, finish_blocks, t) == 0;
  t->json = sections_json(&t->sections);
  if (started)
    pthread_join(thread, &blocks);
  else
    blocks = finish_blocks(t);
  return t->json && blocks && page_calls_finish(&t->calls);
}

int timeline_run(timeline_t *t, report_t *report, page_source_t *out) {
  int status = read_events(t, report);
  if (status < 0) return status;
  if (!finish(t)) return SONDE_ENOMEM;
  drop_stacks(t->json);
  *out =
      (page_source_t){.report = report,
                      .sections = t->json,
                      .events = &t->events,
                      .blocks = &t->blocks,
                      .calls = &t->calls,
                      .stalls = section_stall_groups(report, t->sections.states[SECTIONS_stalls])};
  return out->stalls ? 0 : SONDE_ENOMEM;
}

void timeline_free(timeline_t *t) {
  json_object_put(t->json);
  if (t->sections.report) sections_free(&t->sections);
  page_events_free(&t->events);
  page_blocks_free(&t->blocks);
  page_calls_free(&t->calls);
}
