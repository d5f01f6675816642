/* SPDX-License-Identifier: MIT
 *
 * The symbol index: one module's symbols, lines and inlined functions in one block of bytes that is
 * mapped and searched as it stands. The same bytes, not written to a file, answer for a module (or
 * a single unit of it) that was read just now.
 *
 * Layout, native byte order, all offsets from the start:
 *   header; then the sections, in the order of index_section_t; then a checksum for each page.
 * Strings (of files) and names are shared and end with a 0; raw
 * names stand apart, so that they take no memory where nobody asks for them. The three
 * tables (rows, scope segments, symbol segments) are ascending by address and cut into blocks of
 * INDEX_BLOCK entries; a table's keys hold each block's first address and where it is, its data the
 * entries as deltas (packed.h). A look-up is a binary search of the keys, which are few, and a scan
 * of one block, so that it touches few pages. A scope refers to the scope it was inlined into by
 * its distance, and carries where.
 *
 * A page is checked against its checksum when it is first touched; a page that does not match makes
 * the index bad, which the owner answers by building it again. A file is only ever replaced by
 * rename, so that a mapping stays what it was.
 */
#ifndef SONDE_SYMBOL_INDEX_INDEX_H
#define SONDE_SYMBOL_INDEX_INDEX_H

#include "symbol/index/facts.h"
#include "symbol/symbol.h"

#define INDEX_VERSION      4u
#define INDEX_BLOCK        32
#define INDEX_SYMBOL_BLOCK 8
#define INDEX_PAGE         4096
#define INDEX_KEY_MAX      64 /* bytes of a build-id, or of the hash that stands for it */

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

/* What the index was made from. Equal ones mean that it still holds. */
typedef struct index_origin {
  uint64_t fingerprint;         /* of the files that were read: sizes, times, inodes */
  uint64_t link_base;           /* symbol_link_base */
  uint64_t code_low, code_high; /* the image's executable addresses */
  uint32_t debug_path;          /* offset in the facts' strings; 0: no debug information */
  uint32_t has_symbols;         /* 0: the image is stripped */
} index_origin_t;

/* The bytes of an index of FACTS, which are sorted in place. NULL when there is no memory. The
 * caller frees them. */
uint8_t *index_encode(facts_t *facts, const index_origin_t *origin, size_t *size);

typedef struct index index_t;

/* BYTES are kept by the caller, or, when OWNED, freed with the index. NULL when they are no index
 * of this version or there is no memory. */
index_t *index_from_bytes(uint8_t *bytes, size_t size, bool owned);

/* Maps the file PATH. NULL when there is none, or it is damaged. */
index_t *index_from_file(const char *path);
void index_close(index_t *index);

const index_origin_t *index_origin(const index_t *index);
const char *index_debug_path(index_t *index);

/* True when damage was met; the answers since then are not to be used. */
bool index_is_bad(const index_t *index);

/* As symbol_lookup, within one index, WANTed a set of bits. The strings live as long as the index.
 */
#define INDEX_LINES   1u
#define INDEX_INLINES 2u
#define INDEX_RAW     4u
int index_lookup(index_t *index, uint64_t address, unsigned want, symbol_frame_t *frames, int max);

#endif
