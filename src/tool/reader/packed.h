/* SPDX-License-Identifier: MIT
 *
 * Packed chunks: docs/format.md, "Packed chunks". What the packer and the reader share.
 *
 * A packed chunk stands for some chunks of one stream that follow one another. Their headers and
 * payloads come out again byte by byte, so a packed recording reads exactly as the one it was made
 * of. Either they are simply compressed, or the events are taken apart into columns, one for each
 * kind of fact, coded against a model (read_model.h).
 */
#ifndef SONDE_READER_PACKED_H
#define SONDE_READER_PACKED_H

#include "record/format.h"
#include "reader/model.h"

#define PACKED_UNPACKED_MAX (17u << 20) /* bytes of the chunks in one packed chunk */

typedef enum packed_mode {
  PACKED_PLAIN = 0,   /* the chunks, one after the other, as one zstd frame */
  PACKED_COLUMNS = 1, /* columns, each a zstd frame */
} packed_mode_t;

/* X(NAME, number): what each column holds is said in docs/format.md. */
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

/* Unpacks PAYLOAD (SIZE bytes behind the packed chunk's header) into *OUT, which is grown to *ROOM
 * as needed: chunks one after the other, each with its header, whose size and used are made right.
 * Returns how many bytes, 0 when the payload is damaged or there is no memory. PADDING zero bytes
 * stand behind. */
size_t packed_unpack(const uint8_t *payload, size_t size, uint8_t **out, size_t *room,
                     size_t padding);

#endif
