/* SPDX-License-Identifier: MIT
 *
 * What `sonde why` prints: at most five sentences, from a recording, a process or a core. A report
 * begins with the same sentences.
 */
#ifndef SONDE_REPORT_WHY_WHY_H
#define SONDE_REPORT_WHY_WHY_H

#include <json-c/json.h>
#include <stdio.h>

#include "analysis/why/facts.h"
#include "report/report.h"

/* The facts and the findings of one recording. It begins as zeros. */
typedef struct why_report {
  const char *path;    /* or the PID, as the user wrote it */
  bool is_go;          /* a running Go program: its goroutines that wait have no thread */
  bool has_goroutines; /* a note says where they wait */
  why_t facts;
  findings_list_t findings;
} why_report_t;

/* Before the pass over the events: REPORT has its reader; WINDOW gets the callback for the live
 * heap. REPORT must outlive WHY. */
void why_report_start(why_report_t *why, const report_t *report, replay_options_t *window);

/* The sections whose analyses the rules use. */
enum { WHY_SECTIONS = 5 };
extern const report_section_t *const why_sections[WHY_SECTIONS];

/* After the pass: REPORT has its replay and its names, STATES are those of WHY_SECTIONS, which have
 * received all events and outlive WHY. Finds what is wrong. False: out of memory. */
bool why_report_finish(why_report_t *why, const report_t *report, void *const *states);
void why_report_free(why_report_t *why);

/* Whether FUNCTION of the image PATH is code that the user of the program wrote. FILE: of its
 * source; NULL: unknown. */
bool why_own(const char *path, const char *function, const char *file);

/* Prints the sentences with numbers and their evidence, wrapped to COLUMNS; 0: not wrapped. */
void why_text(const why_report_t *why, unsigned columns, FILE *out);

/* The same for the head of a report: at most five lines. */
void why_head_text(const why_report_t *why, const report_t *report, FILE *out);

/* A list for a pull request. */
void why_markdown(const why_report_t *why, FILE *out);

/* {"healthy", "findings", "looked_at", "not_recorded"} */
json_object *why_json(const why_report_t *why);

#endif
