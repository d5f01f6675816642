/* SPDX-License-Identifier: MIT
 *
 * Extended records of events from inside: rare things, with a time and a body.
 */
#ifndef SONDE_RECORD_EXTENDED_H
#define SONDE_RECORD_EXTENDED_H

#include "record/writer.h"

#define EXTENDED_BODY_MAX 4096u

/* A body in the making. What does not fit is cut from a string, and left out of numbers. */
typedef struct extended_body {
  uint32_t used;
  uint8_t bytes[EXTENDED_BODY_MAX + 8];
} extended_body_t;

void extended_number(extended_body_t *body, uint64_t value);
void extended_string(extended_body_t *body, const char *text, uint64_t size);

/* Puts the record of SUBTYPE at TIME (shifted ticks) into the stream. False when there is no room;
 * the caller counts the loss. */
bool extended_put(stream_t *stream, uint8_t subtype, uint64_t time, const extended_body_t *body);

#endif
