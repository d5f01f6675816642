/* SPDX-License-Identifier: MIT
 *
 * The sampled CPU time of a recording as a report, text or JSON.
 */
#ifndef SONDE_REPORT_SAMPLE_H
#define SONDE_REPORT_SAMPLE_H

#include <json-c/json.h>
#include <stdio.h>

#include "analysis/samples.h"
#include "report/frame_names.h"

typedef struct sample_report {
  const reader_t *reader;
  const samples_t *samples;
  names_t *names;
  uint32_t top;
  const char *bold, *dim, *plain;
} sample_report_t;

/* 0, or SONDE_ENOMEM. */
int report_sample_text(const sample_report_t *report, FILE *out);

/* A new object; NULL without memory. */
json_object *report_sample_json(const sample_report_t *report);

#endif
