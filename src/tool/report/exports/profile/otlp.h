/* SPDX-License-Identifier: MIT
 *
 * Profiles of OpenTelemetry (OTLP), in the layout of opentelemetry-proto 1.10 and 1.11. Their
 * status there is "development": a later version may change the layout.
 */
#ifndef SONDE_REPORT_EXPORTS_PROFILE_OTLP_H
#define SONDE_REPORT_EXPORTS_PROFILE_OTLP_H

#include "report/exports/profile/rows.h"
#include "report/frame_names.h"

/* An attribute of the resource, which is the program. TEXT NULL: the value is NUMBER. */
typedef struct otlp_attribute {
  const char *key, *text;
  int64_t number;
} otlp_attribute_t;

enum { OTLP_ID_BYTES = 16 };

typedef struct otlp_source {
  const reader_t *reader;
  frame_names_t *names;
  const otlp_attribute_t *attributes;
  size_t attribute_count;
  uint8_t id[OTLP_ID_BYTES]; /* of the first profile; the others count on */
} otlp_source_t;

/* The rows FROM to TO, exclusive, as an ExportProfilesServiceRequest of *SIZE bytes, which the
 * caller frees: a profile for each type. NULL: out of memory. */
uint8_t *otlp_bytes(const otlp_source_t *source, const profile_rows_t *rows, size_t from, size_t to,
                    size_t *size);

/* Reads an ExportProfilesServiceResponse. Sets REJECTED to the number of profiles that were
 * rejected and MESSAGE to all that the receiver says, which the caller frees. False: it is no such
 * message, or out of memory. */
bool otlp_read_response(const uint8_t *data, size_t size, int64_t *rejected, char **message);

#endif
