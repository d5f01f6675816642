/* SPDX-License-Identifier: MIT
 *
 * Look-ups in an index. Every offset is checked against its section, and every page against its
 * checksum before its first use. See index.h.
 *
 * Memory is bounded: when many pages of a mapping were touched, all are released to the kernel,
 * which may keep them in its page cache.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbol/index/flat.h"
#include "symbol/index/coding.h"

/* The kernel maps the pages around a touched page in windows of this size. */
#define WINDOW (64u << 10)

/* 40 MB. */
#define RESIDENT_WINDOWS_MAX 640

struct index {
  uint8_t *bytes;
  size_t size;
  const index_header_t *header;
  uint8_t *checked; /* one bit a page */
  uint8_t *touched; /* one bit a window, since the mapping was last released */
  size_t touched_count;
  bool keys_checked[INDEX_SECTIONS];
  flat_symbols_t *flat;  /* NULL: not unpacked */
  size_t symbol_lookups; /* until then */
  bool mapped, owned, bad;
};

/* ---- opening ------------------------------------------------------------------------------ */

static bool header_is_valid(const index_t *index) {
  const index_header_t *header = index->header;
  if (memcmp(header->magic, INDEX_MAGIC, sizeof header->magic) ||
      header->version != INDEX_VERSION || header->file_size != index->size)
    return false;
  for (int i = 0; i < INDEX_SECTIONS; i++) {
    const index_span_t *span = &header->sections[i];
    if (span->offset % 8 || span->offset > index->size || span->size > index->size - span->offset)
      return false;
  }
  const index_span_t *sums = &header->sections[INDEX_CHECKSUMS];
  uint64_t pages = (sums->offset + INDEX_PAGE - 1) / INDEX_PAGE;
  return sums->size == pages * sizeof(uint64_t) &&
         coding_checksum(index->bytes + sums->offset, sums->size) == header->checksum;
}

/* Checks that a section of texts ends with a 0, so that no text exceeds the section. */
static bool texts_terminate(const index_t *index, index_section_t section) {
  const index_span_t *span = &index->header->sections[section];
  return !span->size || !index->bytes[span->offset + span->size - 1];
}

static bool first_page_is_valid(const index_t *index) {
  uint8_t page[INDEX_PAGE];
  const index_span_t *sums = &index->header->sections[INDEX_CHECKSUMS];
  size_t size = sums->offset < INDEX_PAGE ? sums->offset : INDEX_PAGE;
  uint64_t expected;
  memcpy(page, index->bytes, size);
  memset(page + offsetof(index_header_t, checksum), 0, sizeof(uint64_t));
  memcpy(&expected, index->bytes + sums->offset, sizeof expected);
  return coding_checksum(page, size) == expected;
}

static index_t *open_bytes(uint8_t *bytes, size_t size, bool mapped, bool owned) {
  index_t *index = calloc(1, sizeof *index);
  if (!index || size < sizeof(index_header_t)) goto bad;
  *index = (index_t){.bytes = bytes, .size = size, .mapped = mapped};
  index->header = (const index_header_t *)(const void *)bytes;
  size_t bits = size / INDEX_PAGE / 8 + 1;
  index->checked = calloc(1, bits);
  index->touched = calloc(1, size / WINDOW / 8 + 1);
  if (!index->checked || !index->touched || !header_is_valid(index) ||
      !first_page_is_valid(index) || !texts_terminate(index, INDEX_RAW_NAMES) ||
      !texts_terminate(index, INDEX_STRINGS))
    goto bad;
  index->checked[0] = 1;
  index->owned = owned;
  return index;
bad:
  if (index) {
    free(index->checked);
    free(index->touched);
  }
  free(index);
  return NULL;
}

index_t *index_from_bytes(uint8_t *bytes, size_t size, bool owned) {
  index_t *index = open_bytes(bytes, size, false, owned);
  if (index && owned) memset(index->checked, 0xff, size / INDEX_PAGE / 8 + 1); /* just made */
  return index;
}

index_t *index_from_file(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (fd < 0) return NULL;
  void *bytes = MAP_FAILED;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (bytes == MAP_FAILED) return NULL;
  madvise(bytes, (size_t)status.st_size, MADV_RANDOM);
  index_t *index = open_bytes(bytes, (size_t)status.st_size, true, true);
  if (!index) munmap(bytes, (size_t)status.st_size);
  return index;
}

void index_close(index_t *index) {
  if (!index) return;
  if (index->owned && index->mapped) munmap(index->bytes, index->size);
  if (index->owned && !index->mapped) free(index->bytes);
  flat_symbols_free(index->flat);
  free(index->checked);
  free(index->touched);
  free(index);
}

const index_origin_t *index_origin(const index_t *index) { return &index->header->origin; }

bool index_is_bad(const index_t *index) { return index->bad; }

/* ---- checked access ----------------------------------------------------------------------- */

static bool check_page(index_t *index, size_t page) {
  const index_span_t *sums = &index->header->sections[INDEX_CHECKSUMS];
  size_t from = page * INDEX_PAGE, left = sums->offset - from;
  uint64_t expected;
  memcpy(&expected, index->bytes + sums->offset + page * sizeof expected, sizeof expected);
  if (coding_checksum(index->bytes + from, left < INDEX_PAGE ? left : INDEX_PAGE) != expected)
    return false;
  index->checked[page / 8] |= (uint8_t)(1 << page % 8);
  return true;
}

static inline void mark_touched(index_t *index, size_t window) {
  uint8_t bit = (uint8_t)(1 << window % 8);
  if (index->touched[window / 8] & bit) return;
  index->touched[window / 8] |= bit;
  index->touched_count++;
}

/* The SIZE bytes at AT of the file, after checking their pages; NULL when they are damaged. */
static const uint8_t *checked_bytes(index_t *index, uint64_t at, uint64_t size) {
  size_t first = at / INDEX_PAGE, last = (at + (size ? size - 1 : 0)) / INDEX_PAGE;
  for (size_t page = first; page <= last; page++) {
    uint8_t bit = (uint8_t)(1 << page % 8);
    mark_touched(index, page * INDEX_PAGE / WINDOW);
    if (index->checked[page / 8] & bit) continue;
    if (!check_page(index, page)) {
      index->bad = true;
      return NULL;
    }
  }
  return index->bytes + at;
}

/* The SIZE bytes at OFFSET of SECTION, or NULL. Mostly they are in one page that was checked. */
static inline const uint8_t *section_bytes(index_t *index, index_section_t section, uint64_t offset,
                                           uint64_t size) {
  const index_span_t *span = &index->header->sections[section];
  if (offset > span->size || size > span->size - offset) {
    index->bad = true;
    return NULL;
  }
  uint64_t at = span->offset + offset;
  size_t page = at / INDEX_PAGE;
  if (at % INDEX_PAGE + size > INDEX_PAGE || !(index->checked[page / 8] >> page % 8 & 1))
    return checked_bytes(index, at, size);
  mark_touched(index, at / WINDOW);
  return index->bytes + at;
}

/* The string at OFFSET; NULL for 0 and for damage. */
static const char *text_at(index_t *index, uint32_t offset) {
  if (!offset) return NULL;
  return (const char *)section_bytes(index, INDEX_STRINGS, offset, 1);
}

const char *index_debug_path(index_t *index) {
  return text_at(index, index->header->origin.debug_path);
}

static const char *file_at(index_t *index, uint64_t id) {
  uint32_t text;
  if (!id) return NULL;
  if (id > index->header->sections[INDEX_FILES].size / sizeof text) {
    index->bad = true;
    return NULL;
  }
  const uint8_t *bytes = section_bytes(index, INDEX_FILES, (id - 1) * sizeof text, sizeof text);
  if (!bytes) return NULL;
  memcpy(&text, bytes, sizeof text);
  return text_at(index, text);
}

/* The end of a raw name needs no check: see texts_terminate. */
static void set_name(index_t *index, uint64_t ref, unsigned want, symbol_frame_t *frame) {
  index_name_t name;
  if (!ref) return;
  const uint8_t *bytes = section_bytes(index, INDEX_NAMES, ref - 1, sizeof name);
  if (!bytes) return;
  memcpy(&name, bytes, sizeof name);
  uint64_t size = sizeof name + (uint64_t)name.shown_size;
  bytes = section_bytes(index, INDEX_NAMES, ref - 1, size + 1);
  if (!bytes || bytes[size]) {
    index->bad = true;
    return;
  }
  frame->function = (const char *)bytes + sizeof name;
  if (name.raw == INDEX_RAW_SHOWN)
    frame->raw = frame->function;
  else if (want & INDEX_RAW)
    frame->raw = (const char *)section_bytes(index, INDEX_RAW_NAMES, name.raw, 1);
}

/* ---- the tables --------------------------------------------------------------------------- */

static inline bool has_section(const index_t *index, index_section_t section) {
  return index->header->sections[section].size != 0;
}

/* The keys of a table. All are checked at their first use, because a binary search may touch any of
 * them.
 */
static const index_key_t *table_keys(index_t *index, index_section_t keys, size_t *count) {
  *count = index->header->sections[keys].size / sizeof(index_key_t);
  bool *checked = &index->keys_checked[keys];
  if (!*count || (!*checked && !section_bytes(index, keys, 0, *count * sizeof(index_key_t))))
    return NULL;
  *checked = true;
  return (const index_key_t *)(const void *)(index->bytes + index->header->sections[keys].offset);
}

/* Sets *CURSOR to the block that covers ADDRESS and *START to the block's first address. */
static bool find_block(index_t *index, index_section_t section, index_section_t data,
                       uint64_t address, coding_cursor_t *cursor, uint64_t *start) {
  size_t count, low = 0;
  const index_key_t *keys = table_keys(index, section, &count);
  if (!keys || keys[0].address > address) return false;
  /* keys[low] stays at or below ADDRESS. The loop has no branch to mispredict. */
  for (size_t size = count; size > 1;) {
    size_t half = size / 2;
    low += keys[low + half].address <= address ? half : 0;
    size -= half;
  }
  uint64_t end = low + 1 < count ? keys[low + 1].offset : index->header->sections[data].size;
  uint64_t from = keys[low].offset;
  const uint8_t *bytes = end >= from ? section_bytes(index, data, from, end - from) : NULL;
  if (!bytes) {
    index->bad = true;
    return false;
  }
  *cursor = (coding_cursor_t){bytes, bytes + (end - from), false};
  *start = keys[low].address;
  return true;
}

static void find_line(index_t *index, uint64_t address, symbol_frame_t *frame) {
  coding_cursor_t cursor;
  uint64_t at;
  if (!find_block(index, INDEX_ROW_KEYS, INDEX_ROWS, address, &cursor, &at)) return;
  uint64_t file = 0, line = 0, column = 0, found_file = 0, found_line = 0, found_column = 0;
  while (cursor.at < cursor.end && !cursor.bad) {
    uint64_t head = coding_read(&cursor);
    at += head >> 2;
    if (at > address) break;
    if (head & 1) {
      file = found_file = found_line = found_column = 0;
      continue;
    }
    if (head & 2) file += coding_delta(&cursor);
    line += coding_delta(&cursor);
    column = coding_read(&cursor);
    found_file = file;
    found_line = line;
    found_column = column;
  }
  if (cursor.bad) index->bad = true;
  frame->file = file_at(index, found_file);
  if (!frame->file) return;
  frame->line = (uint32_t)found_line;
  frame->column = (uint32_t)found_column;
}

/* The scope of ADDRESS as its offset + 1; 0: none. */
static uint64_t find_scope(index_t *index, uint64_t address) {
  coding_cursor_t cursor;
  uint64_t at;
  if (!find_block(index, INDEX_SEGMENT_KEYS, INDEX_SEGMENTS, address, &cursor, &at)) return 0;
  uint64_t scope = 0, found = 0;
  while (cursor.at < cursor.end && !cursor.bad) {
    at += coding_read(&cursor);
    if (at > address) break;
    scope += coding_delta(&cursor);
    found = scope;
  }
  if (cursor.bad) index->bad = true;
  return found;
}

/* Unpacks the symbols after as many look-ups as there are blocks. */
static void unpack_symbols(index_t *index) {
  size_t count;
  const index_span_t *data = &index->header->sections[INDEX_SYMBOLS];
  const index_key_t *keys = table_keys(index, INDEX_SYMBOL_KEYS, &count);
  if (index->symbol_lookups++ != count || !keys) return;
  const uint8_t *bytes = section_bytes(index, INDEX_SYMBOLS, 0, data->size);
  if (bytes) index->flat = flat_symbols_new(keys, count, bytes, data->size, index_origin(index));
}

typedef struct symbol_found {
  uint64_t name, into; /* INTO: the address minus the symbol's start */
  bool yields;
} symbol_found_t;

static symbol_found_t find_symbol(index_t *index, uint64_t address) {
  symbol_found_t found = {0};
  coding_cursor_t cursor;
  if (index->flat) {
    const flat_symbol_t *symbol = flat_symbols_find(index->flat, address);
    if (!symbol) return found;
    uint64_t into = address - index->header->origin.code_low - symbol->offset + symbol->into;
    return (symbol_found_t){symbol->name, into, symbol->yields};
  }
  unpack_symbols(index);
  uint64_t at;
  if (!find_block(index, INDEX_SYMBOL_KEYS, INDEX_SYMBOLS, address, &cursor, &at)) return found;
  while (cursor.at < cursor.end && !cursor.bad) {
    at += coding_read(&cursor);
    if (at > address) break;
    found = (symbol_found_t){.name = coding_read(&cursor)};
    if (!found.name) continue;
    uint64_t tail = coding_read(&cursor);
    found.into = address - at + (tail >> 1);
    found.yields = tail & 1;
  }
  if (cursor.bad) index->bad = true;
  return found;
}

/* ---- the look-up -------------------------------------------------------------------------- */

typedef struct scope_read {
  uint64_t outer; /* the scope around it, like the result of find_scope; 0: none */
  uint64_t name, call_file, entry;
  uint32_t call_line, call_column;
} scope_read_t;

static bool read_scope(index_t *index, uint64_t scope, scope_read_t *out) {
  uint64_t total = index->header->sections[INDEX_SCOPES].size;
  uint64_t size = scope <= total ? total - (scope - 1) : 0;
  const uint8_t *bytes = section_bytes(index, INDEX_SCOPES, scope - 1, size < 50 ? size : 50);
  if (!bytes) return false;
  coding_cursor_t cursor = {bytes, bytes + (size < 50 ? size : 50), false};
  uint64_t distance = coding_read(&cursor);
  *out = (scope_read_t){.name = coding_read(&cursor)};
  if (distance) {
    out->outer = distance < scope ? scope - distance : 0;
    out->call_file = coding_read(&cursor);
    out->call_line = (uint32_t)coding_read(&cursor);
    out->call_column = (uint32_t)coding_read(&cursor);
  } else {
    out->entry = coding_read(&cursor);
  }
  if (cursor.bad || (distance && !out->outer)) index->bad = true;
  return !index->bad;
}

/* The functions at ADDRESS, innermost first, from the debug information. */
static int find_functions(index_t *index, uint64_t address, unsigned want, symbol_frame_t *frames,
                          int max) {
  bool lines = want & INDEX_LINES;
  int count = 1; /* frames[0] has the line already */
  uint64_t scope = has_section(index, INDEX_SEGMENT_KEYS) ? find_scope(index, address) : 0;
  scope_read_t read;
  while (scope && read_scope(index, scope, &read)) {
    symbol_frame_t *frame = &frames[count - 1];
    frame->raw = frame->function = NULL;
    set_name(index, read.name, want, frame);
    frame->inlined = read.outer != 0;
    frame->has_offset = !frame->inlined && address >= read.entry;
    frame->function_offset = frame->has_offset ? address - read.entry : 0;
    scope = read.outer;
    if (!scope) break;
    if (want & INDEX_INLINES && count < max) count++;
    frame = &frames[count - 1];
    *frame = (symbol_frame_t){.line = lines ? read.call_line : 0,
                              .column = lines ? read.call_column : 0,
                              .file = lines ? file_at(index, read.call_file) : NULL};
  }
  frames[count - 1].inlined = false;
  return count;
}

static void bound_memory(index_t *index) {
  if (!index->mapped || index->touched_count < RESIDENT_WINDOWS_MAX) return;
  madvise(index->bytes, index->size, MADV_DONTNEED);
  memset(index->touched, 0, index->size / WINDOW / 8 + 1);
  index->touched_count = 0;
}

int index_lookup(index_t *index, uint64_t address, unsigned want, symbol_frame_t *frames, int max) {
  const index_origin_t *origin = &index->header->origin;
  if (address < origin->code_low || address >= origin->code_high) return 0;
  bound_memory(index);
  frames[0] = (symbol_frame_t){0};
  if (want & INDEX_LINES && has_section(index, INDEX_ROW_KEYS))
    find_line(index, address, &frames[0]);
  int count = find_functions(index, address, want, frames, max);
  symbol_frame_t *outermost = &frames[count - 1];
  symbol_found_t symbol = find_symbol(index, address);
  if (symbol.name && !(symbol.yields && outermost->function)) {
    outermost->function = outermost->raw = NULL;
    set_name(index, symbol.name, want, outermost);
    outermost->has_offset = true;
    outermost->function_offset = symbol.into;
  }
  if (index->bad) return 0;
  return outermost->function || outermost->file || count > 1 ? count : 0;
}
