/* SPDX-License-Identifier: MIT
 *
 * Packed chunks: docs/format.md, "Packed chunks". Shared by the packer and the reader.
 *
 * A packed chunk replaces consecutive chunks of one stream. Unpacking restores their headers and
 * payloads byte by byte, so a packed recording reads exactly like the original. The chunks are
 * either compressed as they are, or their events are split into columns, one for each kind of
 * field, and coded with a prediction model (model.h).
 */
#ifndef SONDE_READER_PACKED_H
#define SONDE_READER_PACKED_H

#include "record/format.h"
#include "reader/model.h"

/* The total size of the chunks in one packed chunk. */
#define PACKED_UNPACKED_MAX (17u << 20)

typedef enum packed_mode {
  /* the chunks as one zstd frame */
  PACKED_PLAIN = 0,
  /* columns, each a zstd frame */
  PACKED_COLUMNS = 1,
} packed_mode_t;

/* X(NAME, number). docs/format.md describes the content of each column. */
#define PACKED_COLUMN_TABLE(X)                                                                     \
  X(HEADERS, 0)                                                                                    \
  X(CONTROL, 1)                                                                                    \
  X(TIMES, 2)                                                                                      \
  X(LONG_TIMES, 3)                                                                                 \
  X(KINDS, 4)                                                                                      \
  X(STACKS_0, 5)                                                                                   \
  X(STACKS_1, 6)                                                                                   \
  X(STACKS_2, 7)                                                                                   \
  X(STACKS_3, 8)                                                                                   \
  X(SIZES, 9)                                                                                      \
  X(ADDRESSES_0, 10)                                                                               \
  X(ADDRESSES_1, 11)                                                                               \
  X(ADDRESSES_2, 12)                                                                               \
  X(ADDRESSES_3, 13)                                                                               \
  X(ADDRESSES_4, 14)                                                                               \
  X(LONG_ADDRESSES, 15)                                                                            \
  X(RANKS, 16)                                                                                     \
  X(MOVES, 17)                                                                                     \
  X(NUMBERS, 18)                                                                                   \
  X(BODIES, 19)

typedef enum packed_column {
#define PACKED_COLUMN_ENUM(name, number) COLUMN_##name = number,
  PACKED_COLUMN_TABLE(PACKED_COLUMN_ENUM)
#undef PACKED_COLUMN_ENUM
      COLUMNS
} packed_column_t;

#define CONTROL_ADDRESS_SHIFT 3
#define CONTROL_SIZE_SHIFT    6
#define CONTROL_MASK          7u
#define TIME_LONG             255u
#define ADDRESS_LONG          255u /* in the last plane: the number is in LONG_ADDRESSES */

/* Unpacks PAYLOAD, the SIZE bytes after the packed chunk's header, into *OUT, whose *CAPACITY grows
 * as needed: chunks one after the other, with corrected headers, then PADDING zero bytes. Returns
 * the size without the padding; 0 if the payload is damaged or memory runs out. */
size_t packed_unpack(const uint8_t *payload, size_t size, uint8_t **out, size_t *capacity,
                     size_t padding);

#endif
