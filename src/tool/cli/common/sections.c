/* SPDX-License-Identifier: MIT */
#include "cli/common/sections.h"

#include <stdlib.h>

#include "analysis/summary/summary.h"
#include "base/terminal.h"
#include "report/json.h"
#include "sonde/status.h"

const report_section_t *const sections_all[SECTIONS_COUNT] = {
#define SECTIONS_ENTRY(name) &section_##name,
    REPORT_SECTIONS(SECTIONS_ENTRY)
#undef SECTIONS_ENTRY
};

/* ---- the pass ----------------------------------------------------------------------------- */

/* Passes an event that is not an allocation to the sections that are printed. */
static bool on_event(void *context, const record_event_t *event) {
  sections_t *s = context;
  if (!cpu_time_add(&s->cpu_time, event)) return false;
  if (s->has_why && !why_add(&s->why.facts, event)) return false;
  if (s->event && !s->event(s->event_context, event)) return false;
  for (int i = 0; i < SECTIONS_COUNT; i++)
    if (sections_all[i]->event && (s->named[i] || !s->any_named) &&
        !sections_all[i]->event(s->states[i], event))
      return false;
  return true;
}

static int start(sections_t *s) {
  for (int i = 0; i < SECTIONS_COUNT; i++) {
    const report_section_t *section = sections_all[i];
    if (section->state_bytes) s->states[i] = calloc(1, section->state_bytes);
    if (section->start) s->states[i] = section->start(s->report);
    if ((section->state_bytes || section->start) && !s->states[i]) return SONDE_ENOMEM;
  }
  return 0;
}

/* False: out of memory. */
static bool find_why(sections_t *s) {
  void *states[WHY_SECTIONS];
  for (int i = 0; i < SECTIONS_COUNT; i++)
    for (int k = 0; k < WHY_SECTIONS; k++)
      if (sections_all[i] == why_sections[k]) states[k] = s->states[i];
  return !s->has_why || why_report_finish(&s->why, s->report, states);
}

/* The records of CPU time are of the whole recording. */
static bool is_whole(const replay_options_t *w) {
  return !w->from_ns && !w->to_ns && !w->from_marker && !w->to_marker;
}

int sections_run(sections_t *s, replay_options_t *window) {
  report_t *r = s->report;
  terminal_progress_t progress;
  int status = start(s);
  s->has_why = !s->any_named && r->tree == TREE_NONE && is_whole(window);
  if (s->has_why) why_report_start(&s->why, r, window);
  terminal_progress_start(&progress, "reading events", 0);
  window->progress = terminal_progress_update;
  window->progress_context = &progress;
  window->other = on_event;
  window->other_context = s;
  if (status == 0) status = replay_run(&s->replay, r->reader, window);
  terminal_progress_end(&progress);
  if (status < 0) return status;
  s->is_replayed = true;
  r->replay = &s->replay;
  if (is_whole(window)) r->cpu_time = &s->cpu_time;
  r->names = frame_names_new(r->reader, r->naming);
  return r->names && find_why(s) ? 0 : SONDE_ENOMEM;
}

void sections_free(sections_t *s) {
  for (int i = 0; i < SECTIONS_COUNT; i++) {
    if (s->states[i]) sections_all[i]->end(s->states[i]);
    if (sections_all[i]->state_bytes) free(s->states[i]);
  }
  frame_names_free(s->report->names);
  if (s->is_replayed) replay_free(&s->replay);
  cpu_time_free(&s->cpu_time);
  why_report_free(&s->why);
}

/* ---- JSON --------------------------------------------------------------------------------- */

bool sections_was_recorded(const sections_t *s, int i) {
  const report_section_t *section = sections_all[i];
  const reader_t *reader = s->report->reader;
  if (section->has_data(s->report, s->states[i])) return true;
  if (is_summary(reader)) return false;
  return !section->option || reader_header(reader)->mode & section->mode;
}

static void add_unnamed(const report_t *r, json_object *o) {
  size_t place = 0;
  const char *reason;
  const record_image_t *unnamed;
  char id[FRAME_NAMES_ID_MAX];
  json_object *list = json_new_array();
  while ((unnamed = frame_names_unnamed(r->names, &place, &reason))) {
    json_object *image = json_new_object();
    json_add_text(image, "path", unnamed->path);
    if (unnamed->build_id_size) json_add_text(image, "build_id", frame_names_build_id(unnamed, id));
    json_add_text(image, "reason", reason);
    json_append(list, image);
  }
  json_add(o, "without_names", list);
}

json_object *sections_json(const sections_t *s) {
  const report_t *r = s->report;
  json_object *o = json_new_object();
  bool good = true;
  report_head_json(r, o);
  if (s->has_why) json_add(o, "why", why_json(&s->why));
  for (int i = 0; i < SECTIONS_COUNT && good; i++) {
    bool kept = !is_summary(r->reader) && s->named[i]; /* sonde ctl may have switched it */
    if ((s->any_named && !s->named[i]) || !(kept || sections_was_recorded(s, i))) continue;
    json_object *part = sections_all[i]->json(r, s->states[i]);
    good = part != NULL;
    if (good) json_add(o, sections_all[i]->name, part);
  }
  if (good) add_unnamed(r, o);
  if (good) return o;
  json_object_put(o);
  return NULL;
}
