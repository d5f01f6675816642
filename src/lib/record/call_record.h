/* SPDX-License-Identifier: MIT
 *
 * Decodes one record of a chunk of calls: docs/format.md, "Records of calls". Used by the reader
 * and by the program's own printer.
 */
#ifndef SONDE_RECORD_CALL_RECORD_H
#define SONDE_RECORD_CALL_RECORD_H

#include <string.h>

#include "record/format.h"

typedef enum record_what {
  CALL_RECORD_ENTER, /* value: frame id */
  CALL_RECORD_EXIT,
  CALL_RECORD_UNWOUND, /* value: number of calls that ended without an exit */
  CALL_RECORD_UNMATCHED,
  CALL_RECORD_TIME,  /* time passed, no event */
  CALL_RECORD_LOST,  /* value: number of lost events */
  CALL_RECORD_DEPTH, /* value: number of open calls */
  CALL_RECORD_BAD,
} call_record_kind_t;

typedef struct call_record {
  call_record_kind_t kind;
  uint32_t bytes;
  uint64_t passed, value;
} call_record_t;

/* Decodes the record at P; 8 bytes must be readable there. */
static inline call_record_t call_record_get(const uint8_t *p) {
  uint64_t word;
  memcpy(&word, p, 8);
  uint64_t low = word & UINT32_MAX;
  switch (word & CALL_KIND_MASK) {
  case CALL_EXIT_2: return (call_record_t){CALL_RECORD_EXIT, 2, (word & UINT16_MAX) >> 2, 0};
  case CALL_ENTER_4: return (call_record_t){CALL_RECORD_ENTER, 4, low >> 18, low >> 2 & UINT16_MAX};
  case CALL_OTHER: break;
  default: return (call_record_t){CALL_RECORD_BAD, 8, 0, 0};
  }
  if (word & CALL_8_BYTES) switch (CALL_SUBKIND(word)) {
    case CALL_8_ENTER:
      return (call_record_t){CALL_RECORD_ENTER, 8, word >> 28, word >> 6 & CALL_FRAME_MAX};
    case CALL_8_TIME: return (call_record_t){CALL_RECORD_TIME, 8, word >> 6, 0};
    case CALL_8_LOST: return (call_record_t){CALL_RECORD_LOST, 8, 0, word >> 6};
    case CALL_8_DEPTH: return (call_record_t){CALL_RECORD_DEPTH, 8, 0, word >> 6};
    default: return (call_record_t){CALL_RECORD_BAD, 8, 0, 0};
    }
  switch (CALL_SUBKIND(word)) {
  case CALL_4_EXIT: return (call_record_t){CALL_RECORD_EXIT, 4, low >> 6, 0};
  case CALL_4_UNWOUND: return (call_record_t){CALL_RECORD_UNWOUND, 4, 0, low >> 6};
  case CALL_4_UNMATCHED: return (call_record_t){CALL_RECORD_UNMATCHED, 4, low >> 6, 0};
  default: return (call_record_t){CALL_RECORD_BAD, 4, 0, 0};
  }
}

#endif
