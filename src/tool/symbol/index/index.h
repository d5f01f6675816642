/* SPDX-License-Identifier: MIT
 *
 * The symbol index: one module's symbols, lines and inlined functions in one block of bytes, which
 * is mapped and searched without unpacking. Facts that were just read, of a module or a single
 * unit, are searched in the same form without a file.
 *
 * Layout, in native byte order, with offsets from the start: a header, the sections in the order of
 * index_section_t, a checksum for each page. File names and names are shared and end with a 0. Raw
 * names have their own section, so they take no memory until they are used. The three tables (rows,
 * scope segments, symbol segments) ascend by address and are divided into blocks of INDEX_BLOCK
 * entries. A table's keys contain the first address and the offset of each block; its data contain
 * the entries as deltas (coding.h). A look-up is a binary search of the keys and a scan of one
 * block, so it touches few pages. A scope refers to the scope that it was inlined into by the
 * distance, with the position of the call.
 *
 * A page is checked against its checksum at its first use. A mismatch makes the index bad; the
 * owner then builds it again. A file is only replaced by rename, so a mapping never changes. One
 * thread uses an index_t.
 */
#ifndef SONDE_SYMBOL_INDEX_INDEX_H
#define SONDE_SYMBOL_INDEX_INDEX_H

#include "symbol/index/facts.h"
#include "symbol/symbol.h"

#define INDEX_VERSION      6u
#define INDEX_BLOCK        32
#define INDEX_SYMBOL_BLOCK 8
#define INDEX_PAGE         4096
#define INDEX_KEY_MAX      64 /* bytes of a build-id, or of the hash used instead */

typedef enum index_section {
  INDEX_STRINGS,
  INDEX_NAMES,
  INDEX_RAW_NAMES,
  INDEX_FILES,
  INDEX_SCOPES,
  INDEX_ROW_KEYS,
  INDEX_ROWS,
  INDEX_SEGMENT_KEYS,
  INDEX_SEGMENTS,
  INDEX_SYMBOL_KEYS,
  INDEX_SYMBOLS,
  INDEX_CHECKSUMS,
  INDEX_SECTIONS
} index_section_t;

/* The sources of the index. The index is valid as long as the fingerprint is equal. */
typedef struct index_origin {
  uint64_t fingerprint;         /* of the files that were read: sizes, times, inodes */
  uint64_t link_base;           /* symbol_link_base */
  uint64_t code_low, code_high; /* the image's executable addresses */
  uint32_t debug_path;          /* offset in the facts' strings; 0: no debug information */
  uint32_t has_symbols;         /* 0: the image is stripped */
} index_origin_t;

/* Encodes an index of FACTS, which are sorted in place. The caller frees the bytes. NULL when
 * memory runs out. */
uint8_t *index_encode(facts_t *facts, const index_origin_t *origin, size_t *size);

typedef struct index index_t;

/* Opens an index in memory. BYTES are freed with the index if OWNED; else the caller keeps them.
 * NULL when they are not an index of this version or memory runs out; then the caller keeps BYTES.
 */
index_t *index_from_bytes(uint8_t *bytes, size_t size, bool owned);

/* Maps the index file PATH. NULL when it does not exist or is damaged. */
index_t *index_from_file(const char *path);
void index_close(index_t *index);

const index_origin_t *index_origin(const index_t *index);
const char *index_debug_path(index_t *index);

/* Returns whether damage was found; results since then are invalid. */
bool index_is_bad(const index_t *index);

/* Like symbol_lookup, in one index. WANT is a set of the bits below. The strings are valid as long
 * as the index. */
#define INDEX_LINES   1u
#define INDEX_INLINES 2u
#define INDEX_RAW     4u
int index_lookup(index_t *index, uint64_t address, unsigned want, symbol_frame_t *frames, int max);

#endif
