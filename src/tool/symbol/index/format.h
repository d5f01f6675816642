/* SPDX-License-Identifier: MIT
 *
 * The structures of an index file, shared by its writer and its reader. See index.h.
 */
#ifndef SONDE_SYMBOL_INDEX_FORMAT_H
#define SONDE_SYMBOL_INDEX_FORMAT_H

#include "base/bits.h"
#include "symbol/index/index.h"

/* Ends with a byte that text mode mangles and a 0; the byte order shows in `version`. */
#define INDEX_MAGIC       "sonde\x1aix"
#define INDEX_SCOPE_DEPTH 1000 /* deeper inlining is cut */

typedef struct index_span {
  uint64_t offset, size;
} index_span_t;

typedef struct index_header {
  char magic[8];
  uint32_t version;
  uint32_t reserved;
  uint64_t file_size;
  uint64_t checksum; /* of the checksums; taken as 0 in the first page's own */
  index_origin_t origin;
  index_span_t sections[INDEX_SECTIONS];
} index_header_t;

typedef struct index_key {
  uint64_t address; /* of the block's first entry */
  uint64_t offset;  /* of the block in its data section */
} index_key_t;

/* A name: this, then what is shown of it with a 0, so that it lies next to where it was found. */
#define INDEX_RAW_SHOWN UINT32_MAX
typedef struct index_name {
  uint32_t raw;        /* offset in INDEX_RAW_NAMES; INDEX_RAW_SHOWN: it is what is shown */
  uint32_t shown_size; /* without the 0 */
} index_name_t;

#endif
