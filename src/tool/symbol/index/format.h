/* SPDX-License-Identifier: MIT
 *
 * The structures of an index file. index.h describes the layout.
 */
#ifndef SONDE_SYMBOL_INDEX_FORMAT_H
#define SONDE_SYMBOL_INDEX_FORMAT_H

#include "base/bits.h"
#include "symbol/index/index.h"

/* Contains a byte that a copy in text mode would change. `version` shows the byte order. */
#define INDEX_MAGIC "sonde\x1aix"

/* Deeper inlining is truncated. */
#define INDEX_SCOPE_DEPTH 1000

typedef struct index_span {
  uint64_t offset, size;
} index_span_t;

typedef struct index_header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t file_size;
  uint64_t checksum; /* of the checksums; 0 when the first page's checksum is computed */
  index_origin_t origin;
  index_span_t sections[INDEX_SECTIONS];
} index_header_t;

typedef struct index_key {
  uint64_t address; /* of the block's first entry */
  uint64_t offset;  /* of the block in its data section */
} index_key_t;

/* A name: this header, then the displayed form with a 0, so that both are in one place. */
#define INDEX_RAW_SHOWN UINT32_MAX
typedef struct index_name {
  uint32_t raw;        /* offset in INDEX_RAW_NAMES; INDEX_RAW_SHOWN: same as the displayed form */
  uint32_t shown_size; /* of the displayed form, without the 0 */
} index_name_t;

#endif
