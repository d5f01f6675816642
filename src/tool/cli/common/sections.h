/* SPDX-License-Identifier: MIT
 *
 * All sections of a recording, after one pass over its events: `sonde report` prints them, and
 * `sonde view` makes a page of them.
 */
#ifndef SONDE_CLI_COMMON_SECTIONS_H
#define SONDE_CLI_COMMON_SECTIONS_H

#include "report/report.h"
#include "report/why/why.h"

enum {
#define SECTIONS_ENUM(name) SECTIONS_##name,
  REPORT_SECTIONS(SECTIONS_ENUM)
#undef SECTIONS_ENUM
      SECTIONS_COUNT
};

/* In the order of printing. */
extern const report_section_t *const sections_all[SECTIONS_COUNT];

/* It begins as zeros except the members of the first group. */
typedef struct sections {
  report_t *report;
  bool named[SECTIONS_COUNT], any_named; /* only these sections get events */
  /* Gets the same events as the sections; false: out of memory. May be NULL. */
  bool (*event)(void *context, const record_event_t *event);
  void *event_context;

  void *states[SECTIONS_COUNT];
  cpu_time_t cpu_time;
  bool has_why; /* of a whole recording, if no section is named */
  why_report_t why;
  replay_t replay;
  bool is_replayed;
} sections_t;

/* Reads the events of WINDOW, which must outlive SECTIONS, and sets the report's results. 0 or
 * SONDE_ENOMEM. Release with sections_free in either case. */
int sections_run(sections_t *sections, replay_options_t *window);
void sections_free(sections_t *sections);

/* False if section I was not recorded: zeros would look like a result. */
bool sections_was_recorded(const sections_t *sections, int i);

/* What `sonde report --json` prints. NULL: out of memory. */
json_object *sections_json(const sections_t *sections);

#endif
