/* SPDX-License-Identifier: MIT
 *
 * Encodes an index. index.h describes the layout.
 */
#include <stdlib.h>

#include "base/array.h"
#include "symbol/demangle.h"
#include "symbol/index/flatten.h"
#include "symbol/index/format.h"
#include "symbol/index/coding.h"

typedef struct buffer {
  uint8_t *bytes;
  size_t size, capacity;
} buffer_t;

typedef struct encoder {
  facts_t *facts;
  buffer_t parts[INDEX_SECTIONS];
  uint32_t *name_refs; /* by offset in the strings: the name's offset in INDEX_NAMES + 1; 0: not
                          written */
  uint32_t *file_ids;  /* by offset in the strings: the file's id; 0: none yet */
  uint32_t file_count;
  uint64_t *scope_at; /* by scope: its offset in INDEX_SCOPES + 1; 0: not written */
  bool failed;
} encoder_t;

/* ---- bytes -------------------------------------------------------------------------------- */

static void put_bytes(encoder_t *encoder, index_section_t section, const void *bytes, size_t size) {
  buffer_t *part = &encoder->parts[section];
  if (encoder->failed || !ARRAY_RESERVE(part->bytes, part->size + size + 1, part->capacity)) {
    encoder->failed = true;
    return;
  }
  memcpy(part->bytes + part->size, bytes, size);
  part->size += size;
}

static void put_number(encoder_t *encoder, index_section_t section, uint64_t value) {
  uint8_t bytes[10];
  put_bytes(encoder, section, bytes, coding_write(bytes, value));
}

/* Begins a block at every INDEX_BLOCK-th entry: writes its key and returns true, so that the caller
 * restarts its deltas. Blocks of symbols are smaller: symbols are few, and every look-up reads
 * them. */
static bool open_block(encoder_t *encoder, index_section_t keys, index_section_t data, size_t entry,
                       uint64_t address) {
  size_t block = keys == INDEX_SYMBOL_KEYS ? INDEX_SYMBOL_BLOCK : INDEX_BLOCK;
  if (entry % block) return false;
  index_key_t key = {address, encoder->parts[data].size};
  put_bytes(encoder, keys, &key, sizeof key);
  return true;
}

/* ---- names and files ---------------------------------------------------------------------- */

static void put_name(encoder_t *encoder, const char *raw) {
  char text[DEMANGLE_MAX];
  const char *shown = raw;
  index_name_t name = {.raw = INDEX_RAW_SHOWN};
  if (demangle(raw, text, sizeof text)) {
    shown = text;
    name.raw = (uint32_t)encoder->parts[INDEX_RAW_NAMES].size;
    put_bytes(encoder, INDEX_RAW_NAMES, raw, strlen(raw) + 1);
    if (encoder->parts[INDEX_RAW_NAMES].size >= INDEX_RAW_SHOWN) encoder->failed = true;
  }
  name.shown_size = (uint32_t)strlen(shown);
  put_bytes(encoder, INDEX_NAMES, &name, sizeof name);
  put_bytes(encoder, INDEX_NAMES, shown, name.shown_size + (size_t)1);
}

/* The offset + 1 of the name TEXT in INDEX_NAMES; 0 when it is empty. Writes a name at its first
 * use. */
static uint64_t name_ref(encoder_t *encoder, uint32_t text) {
  if (!text) return 0;
  if (!encoder->name_refs[text]) {
    encoder->name_refs[text] = (uint32_t)(encoder->parts[INDEX_NAMES].size + 1);
    put_name(encoder, strings_at(&encoder->facts->strings, text));
    if (encoder->parts[INDEX_NAMES].size >= UINT32_MAX) encoder->failed = true;
  }
  return encoder->name_refs[text];
}

static uint32_t put_string(encoder_t *encoder, const char *text) {
  size_t at = encoder->parts[INDEX_STRINGS].size;
  put_bytes(encoder, INDEX_STRINGS, text, strlen(text) + 1);
  if (at >= UINT32_MAX) encoder->failed = true;
  return (uint32_t)at;
}

/* The id of the path TEXT. INDEX_FILES maps ids to offsets in INDEX_STRINGS. Ids count from 1 in
 * the order of first use, so they are small numbers. */
static uint32_t file_id(encoder_t *encoder, uint32_t text) {
  if (!text) return 0;
  if (!encoder->file_ids[text]) {
    uint32_t at = put_string(encoder, strings_at(&encoder->facts->strings, text));
    encoder->file_ids[text] = ++encoder->file_count;
    put_bytes(encoder, INDEX_FILES, &at, sizeof at);
  }
  return encoder->file_ids[text];
}

/* ---- the tables --------------------------------------------------------------------------- */

static void encode_rows(encoder_t *encoder) {
  const facts_t *facts = encoder->facts;
  uint64_t address = 0;
  int64_t file = 0, line = 0;
  for (size_t i = 0; i < facts->row_count; i++) {
    const line_row_t *row = &facts->rows[i];
    if (open_block(encoder, INDEX_ROW_KEYS, INDEX_ROWS, i, row->address)) {
      address = row->address;
      file = line = 0;
    }
    int64_t id = row->end ? 0 : file_id(encoder, row->file);
    uint64_t head = (row->address - address) << 2 | (uint64_t)(id != file) << 1 | row->end;
    put_number(encoder, INDEX_ROWS, head);
    address = row->address;
    if (row->end) {
      file = 0;
      continue;
    }
    if (head & 2) put_number(encoder, INDEX_ROWS, zigzag(id - file));
    put_number(encoder, INDEX_ROWS, zigzag((int64_t)row->line - line));
    put_number(encoder, INDEX_ROWS, row->column);
    file = id;
    line = row->line;
  }
}

/* Writes a scope at its first use, after the scope around it. */
static uint64_t encode_scope(encoder_t *encoder, uint32_t index, int depth) {
  const scope_t *scope = &encoder->facts->scopes[index];
  if (encoder->scope_at[index]) return encoder->scope_at[index];
  uint64_t parent = 0;
  if (scope->parent && depth < INDEX_SCOPE_DEPTH)
    parent = encode_scope(encoder, scope->parent - 1, depth + 1);
  uint64_t at = encoder->parts[INDEX_SCOPES].size + 1;
  encoder->scope_at[index] = at;
  put_number(encoder, INDEX_SCOPES, parent ? at - parent : 0);
  put_number(encoder, INDEX_SCOPES, name_ref(encoder, scope->name));
  if (parent) {
    put_number(encoder, INDEX_SCOPES, file_id(encoder, scope->call_file));
    put_number(encoder, INDEX_SCOPES, scope->call_line);
    put_number(encoder, INDEX_SCOPES, scope->call_column);
  } else {
    put_number(encoder, INDEX_SCOPES, scope->entry);
  }
  return at;
}

static void encode_segments(encoder_t *encoder, const segments_t *segments) {
  uint64_t address = 0;
  int64_t last = 0;
  for (size_t i = 0; i < segments->count; i++) {
    const segment_of_t *segment = &segments->items[i];
    if (open_block(encoder, INDEX_SEGMENT_KEYS, INDEX_SEGMENTS, i, segment->address)) {
      address = segment->address;
      last = 0;
    }
    int64_t scope = segment->item ? (int64_t)encode_scope(encoder, segment->item - 1, 0) : 0;
    put_number(encoder, INDEX_SEGMENTS, segment->address - address);
    put_number(encoder, INDEX_SEGMENTS, zigzag(scope - last));
    address = segment->address;
    last = scope;
  }
}

static void encode_symbols(encoder_t *encoder, const segments_t *segments) {
  uint64_t address = 0;
  for (size_t i = 0; i < segments->count; i++) {
    const segment_of_t *segment = &segments->items[i];
    if (open_block(encoder, INDEX_SYMBOL_KEYS, INDEX_SYMBOLS, i, segment->address))
      address = segment->address;
    const function_symbol_t *symbol =
        segment->item ? &encoder->facts->symbols[segment->item - 1] : NULL;
    put_number(encoder, INDEX_SYMBOLS, segment->address - address);
    put_number(encoder, INDEX_SYMBOLS, symbol ? name_ref(encoder, symbol->name) : 0);
    address = segment->address;
    if (!symbol) continue;
    put_number(encoder, INDEX_SYMBOLS,
               (segment->address - symbol->address) << 1 | (symbol->yields != 0));
  }
}

/* ---- the index ---------------------------------------------------------------------------- */

static void encode_tables(encoder_t *encoder) {
  segments_t scopes = {0}, symbols = {0};
  if (!flatten_rows(encoder->facts) || !flatten_scopes(encoder->facts, &scopes) ||
      !flatten_symbols(encoder->facts, &symbols)) {
    encoder->failed = true;
  } else {
    encode_symbols(encoder, &symbols);
    encode_segments(encoder, &scopes);
    encode_rows(encoder);
  }
  free(scopes.items);
  free(symbols.items);
}

static uint8_t *assemble(encoder_t *encoder, const index_origin_t *origin, size_t *size) {
  index_header_t header = {.version = INDEX_VERSION, .origin = *origin};
  memcpy(header.magic, INDEX_MAGIC, sizeof header.magic);
  size_t at = ALIGN_UP(sizeof header, 8);
  for (int i = 0; i < INDEX_CHECKSUMS; i++) {
    header.sections[i] = (index_span_t){at, encoder->parts[i].size};
    at += ALIGN_UP(encoder->parts[i].size, 8);
  }
  size_t pages = (at + INDEX_PAGE - 1) / INDEX_PAGE;
  header.sections[INDEX_CHECKSUMS] = (index_span_t){at, pages * sizeof(uint64_t)};
  *size = at + pages * sizeof(uint64_t);
  header.file_size = *size;
  uint8_t *bytes = calloc(1, *size);
  if (!bytes) return NULL;
  /* The first page's checksum covers the header with a checksum field of 0. */
  memcpy(bytes, &header, sizeof header);
  for (int i = 0; i < INDEX_CHECKSUMS; i++)
    if (encoder->parts[i].size)
      memcpy(bytes + header.sections[i].offset, encoder->parts[i].bytes, encoder->parts[i].size);
  uint64_t *sums = (uint64_t *)(void *)(bytes + at);
  for (size_t i = 1; i < pages; i++) {
    size_t from = i * INDEX_PAGE, left = at - from;
    sums[i] = coding_checksum(bytes + from, left < INDEX_PAGE ? left : INDEX_PAGE);
  }
  sums[0] = coding_checksum(bytes, at < INDEX_PAGE ? at : INDEX_PAGE);
  header.checksum = coding_checksum(bytes + at, pages * sizeof(uint64_t));
  memcpy(bytes, &header, sizeof header);
  return bytes;
}

uint8_t *index_encode(facts_t *facts, const index_origin_t *origin, size_t *size) {
  encoder_t encoder = {.facts = facts};
  uint8_t *bytes = NULL;
  encoder.name_refs = calloc(facts->strings.size, sizeof *encoder.name_refs);
  encoder.file_ids = calloc(facts->strings.size, sizeof *encoder.file_ids);
  encoder.scope_at = calloc(facts->scope_count + 1, sizeof *encoder.scope_at);
  encoder.failed = !encoder.name_refs || !encoder.file_ids || !encoder.scope_at;
  index_origin_t placed = *origin;
  put_string(&encoder, ""); /* offset 0 means no string */
  if (origin->debug_path)
    placed.debug_path = put_string(&encoder, strings_at(&facts->strings, origin->debug_path));
  if (!encoder.failed) encode_tables(&encoder);
  if (!encoder.failed) bytes = assemble(&encoder, &placed, size);
  for (int i = 0; i < INDEX_SECTIONS; i++)
    free(encoder.parts[i].bytes);
  free(encoder.name_refs);
  free(encoder.file_ids);
  free(encoder.scope_at);
  return bytes;
}
