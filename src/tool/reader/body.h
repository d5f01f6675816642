/* SPDX-License-Identifier: MIT
 *
 * The body of a record, read field by field. What is not there reads as 0 or as no bytes, and is
 * noted once for all.
 */
#ifndef SONDE_READER_BODY_H
#define SONDE_READER_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/varint.h"

typedef struct body {
  const uint8_t *p, *end;
  bool truncated; /* something was read that was not there */
} body_t;

static inline uint64_t body_number(body_t *b) {
  uint64_t value = 0;
  if (!varint_get(&b->p, b->end, &value)) b->truncated = true;
  return value;
}

/* A string: where its *SIZE bytes are, with no 0 behind them. */
static inline const uint8_t *body_string(body_t *b, uint64_t *size) {
  uint64_t n = body_number(b);
  if (b->truncated || n > (uint64_t)(b->end - b->p)) {
    b->truncated = true;
    n = 0;
  }
  *size = n;
  b->p += n;
  return b->p - n;
}

#endif
