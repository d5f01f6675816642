/* SPDX-License-Identifier: MIT
 *
 * The names of addresses, written to stdout: as text, put together in one large buffer, since a
 * call into stdio for each part would cost as much as the names do; or as JSON. Whoever writes to
 * stdout by other means calls out_buffer_flush before.
 */
#ifndef SONDE_CLI_COMMON_OUT_BUFFER_H
#define SONDE_CLI_COMMON_OUT_BUFFER_H

#include "symbol/symbol.h"

/* Text of a file; control characters, which would drive the terminal, become '?'. */
void out_buffer_text(const char *text);

/* A frame, a short MARK or NULL, and the end of its line. */
void out_buffer_frame(const symbol_frame_t *frame, const char *mark);

/* What is known of an address. */
typedef struct answer {
  uint64_t address;
  const char *module; /* path of the image it is in, where that is not said anyway; or NULL */
  const symbol_frame_t *frames;
  int count;
  const char *why; /* it has no name, or NULL */
} out_buffer_t;

void out_buffer_put(const out_buffer_t *answer);
void out_buffer_put_json(const out_buffer_t *answer, bool first);

void out_buffer_flush(void);

#endif
