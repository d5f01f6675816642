/* SPDX-License-Identifier: MIT
 *
 * Extended records of events: rare events with a time and a body.
 */
#ifndef SONDE_RECORD_EXTENDED_H
#define SONDE_RECORD_EXTENDED_H

#include "record/writer.h"

#define EXTENDED_BODY_MAX 4096u

/* A body that is being built. A string that does not fit is truncated; a number is left out. */
typedef struct extended_body {
  uint32_t used;
  uint8_t bytes[EXTENDED_BODY_MAX + 8];
} extended_body_t;

void extended_number(extended_body_t *body, uint64_t value);
void extended_string(extended_body_t *body, const char *text, uint64_t size);

/* Writes the record of SUBTYPE at TIME (shifted ticks) to the stream. On failure returns false; the
 * caller counts the lost event. */
bool extended_put(stream_t *stream, uint8_t subtype, uint64_t time, const extended_body_t *body);

#endif
