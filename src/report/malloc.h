/* SPDX-License-Identifier: MIT
 *
 * The malloc log as a report, text or JSON.
 */
#ifndef SONDE_REPORT_MALLOC_H
#define SONDE_REPORT_MALLOC_H

#include <stdio.h>

#include "analysis/group.h"
#include "report/frame_names.h"

#include <json-c/json.h>

typedef struct malloc_report {
  const char *path; /* of the recording */
  const reader_t *reader;
  const replay_t *replay;
  names_t *names;
  measure_t measure;              /* what stacks, functions and libraries are ranked by */
  uint32_t top;                   /* how many of each are shown */
  bool stacks_only;               /* for a bare list of stacks */
  const char *bold, *dim, *plain; /* escape sequences, or "" */
} malloc_report_t;

/* The head of a report: what was recorded, and what is missing from it. */
void report_head_text(const malloc_report_t *report, FILE *out);
void report_head_json(const malloc_report_t *report, json_object *out);

/* 0, or SONDE_ENOMEM. */
int report_malloc_text(const malloc_report_t *report, FILE *out);

/* A new object; NULL without memory. */
json_object *report_malloc_json(const malloc_report_t *report);

/* The frames of a stack as an array; whether it is whole in *COMPLETE, which may be NULL. */
json_object *report_frames_json(const reader_t *reader, names_t *names, uint32_t stack,
                                bool *complete);

/* What is missing from the recording and why, one line each; nothing when nothing is. */
void report_missing(const reader_t *reader, FILE *out);

/* The name that stands for a stack: its innermost frame outside the system images, else its
 * innermost one. NULL when the stack is not defined. */
const frame_name_t *report_owner(const malloc_report_t *report, uint32_t stack);

/* Writes a size as "12.3 MB" to TEXT, which has room for 24 characters; returns TEXT. */
char *report_bytes(int64_t bytes, char *text);

/* As above, a count with separators: 1,234,567. */
char *report_count(uint64_t count, char *text);

#endif
