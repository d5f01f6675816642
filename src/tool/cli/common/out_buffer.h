/* SPDX-License-Identifier: MIT
 *
 * Writes symbolized addresses to stdout, as text or JSON. Text is assembled in one buffer, and
 * hexadecimal digits and control characters are processed eight bytes at a time: with stdio calls a
 * frame, output would cost as much as symbolization (bench/symbolize.py). Other writers to
 * stdout call out_buffer_flush first. One thread.
 */
#ifndef SONDE_CLI_COMMON_OUT_BUFFER_H
#define SONDE_CLI_COMMON_OUT_BUFFER_H

#include "symbol/symbol.h"

/* Writes TEXT, with control characters replaced by '?'. */
void out_buffer_text(const char *text);

/* Writes a frame, NOTE (short, or NULL) and a newline. */
void out_buffer_frame(const symbol_frame_t *frame, const char *note);

/* An address and its functions. */
typedef struct symbolized_address {
  uint64_t address;
  const char *module; /* path of its image; NULL: not printed */
  const symbol_frame_t *frames;
  int count;
  const char *why; /* why it has no name; NULL: it has one */
} symbolized_address_t;

void out_buffer_address(const symbolized_address_t *address);
void out_buffer_address_json(const symbolized_address_t *address, bool first);

void out_buffer_flush(void);

#endif
