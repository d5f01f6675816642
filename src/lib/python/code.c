/* SPDX-License-Identifier: MIT */
#include "python/code.h"

#include <string.h>

#include "base/bits.h"
#include "base/load.h"

/* Longer bytecode is not compiled. */
#define POSITION_MAX (1u << 30)
/* Longer names are not compared. */
#define OWN_NAME_MAX 192u
#define UTF8_MAX     4u

bool python_code_read(const python_layout_t *l, memory_t *memory, uint64_t address,
                      python_code_t *out) {
  uint8_t code[PYTHON_CODE_BYTES];
  if (address % 8 || !address || !memory->read(memory, address, code, sizeof code)) return false;
  *out = (python_code_t){.address = address,
                         .type = load64(code + PYTHON_OBJECT_TYPE),
                         .file = load64(code + l->code_file),
                         .name = load64(code + l->code_qualname),
                         .own_name = load64(code + l->code_name),
                         .lines = load64(code + l->code_lines),
                         .first_line = load32(code + l->code_first_line)};
  return true;
}

bool python_position(const python_layout_t *l, uint64_t code, uint64_t instruction,
                     uint32_t *position) {
  int64_t at;
  if (l->minor >= 11)
    at = (int64_t)(instruction - (code + l->code_bytes));
  else
    at = (int64_t)(int32_t)(uint32_t)instruction * (l->minor == 10 ? 2 : 1);
  *position = at < 0 ? PYTHON_NOT_BEGUN : (uint32_t)at;
  /* A new frame is one instruction before its code. */
  return at >= -2 && at < POSITION_MAX && (at & 1) == (at == -1);
}

/* ---- strings ----------------------------------------------------------------------------------
 */

static size_t put_utf8(uint32_t c, char out[4]) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
  size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = size - 1; i > 0; i--, c >>= 6)
    out[i] = (char)(0x80 | (c & 0x3f));
  out[0] = (char)(c | (0xf00u >> size & 0xffu));
  return size;
}

static uint32_t character_of(const uint8_t *p, uint32_t width) {
  return width == 1 ? p[0] : width == 2 ? p[0] | (uint32_t)p[1] << 8 : load32(p);
}

/* Copies COUNT characters of WIDTH bytes at ADDRESS. */
static size_t copy_text(memory_t *memory, uint64_t address, uint64_t count, uint32_t width,
                        char *out, size_t size) {
  uint8_t piece[64];
  size_t used = 0;
  for (uint64_t left = count * width; left > 0;) {
    size_t n = left < sizeof piece ? (size_t)left : sizeof piece;
    if (!memory->read(memory, address, piece, n)) return 0;
    for (size_t i = 0; i < n; i += width) {
      char bytes[4];
      size_t length = put_utf8(character_of(piece + i, width), bytes);
      if (size - used <= length) return used;
      memcpy(out + used, bytes, length);
      used += length;
    }
    address += n;
    left -= n;
  }
  return used;
}

size_t python_text(const python_layout_t *l, memory_t *memory, uint64_t address, char *out,
                   size_t size) {
  uint64_t count;
  uint32_t state;
  out[0] = 0;
  if (address % 8 || !address ||
      !memory->read(memory, address + PYTHON_TEXT_LENGTH, &count, sizeof count) ||
      !memory->read(memory, address + PYTHON_TEXT_STATE, &state, sizeof state))
    return 0;
  /* unsigned int interned:2, kind:3, compact:1, ascii:1 */
  uint32_t width = state >> 2 & 7;
  bool is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
  if (!is_compact || (width != 1 && width != 2 && width != 4) || count > UINT32_MAX) return 0;
  uint64_t data = address + (is_ascii ? l->text_ascii : l->text_other);
  size_t used = copy_text(memory, data, count, width, out, size);
  out[used] = 0;
  return used;
}

static bool is_last_part(const char *own, size_t own_size, const char *name, size_t size) {
  size_t before = size - own_size;
  return own_size <= size && !memcmp(name + before, own, own_size) &&
         (!before || name[before - 1] == '.');
}

size_t python_code_name(const python_layout_t *l, memory_t *memory, const python_code_t *code,
                        char *out, size_t size) {
  char own[OWN_NAME_MAX];
  size_t length = python_text(l, memory, code->name, out, size);
  if (code->own_name == code->name || length + UTF8_MAX >= size) return length;
  size_t own_length = python_text(l, memory, code->own_name, own, sizeof own);
  if (!own_length || own_length + UTF8_MAX >= sizeof own || own_length >= size ||
      is_last_part(own, own_length, out, length))
    return length;
  memcpy(out, own, own_length + 1);
  return own_length;
}

bool python_bytes(memory_t *memory, uint64_t address, uint64_t *data, uint64_t *size) {
  *data = address + PYTHON_BYTES_DATA;
  return address && address % 8 == 0 &&
         memory->read(memory, address + PYTHON_BYTES_SIZE, size, sizeof *size);
}

/* ---- lines ------------------------------------------------------------------------------------
 */

/* To 3.9: pairs (bytes forward, lines forward or back). */
static int64_t line_by_lnotab(int64_t line, const uint8_t *table, size_t size, uint32_t position) {
  uint64_t at = 0;
  for (size_t i = 0; i + 1 < size; i += 2) {
    at += table[i];
    if (at > position) break;
    line += (int8_t)table[i + 1];
  }
  return line;
}

/* 3.10: pairs (bytes of the entry, lines forward or back), where -128 stands for no line. */
static int64_t line_by_pairs(int64_t line, const uint8_t *table, size_t size, uint32_t position) {
  uint64_t end = 0;
  for (size_t i = 0; i + 1 < size; i += 2) {
    int8_t lines = (int8_t)table[i + 1];
    end += table[i];
    if (lines != -128) line += lines;
    if (end > position) return lines == -128 ? 0 : line;
  }
  return 0;
}

/* Reads the location table's form of an unsigned number: six bits a byte, bit 6 if more follow. */
static bool take_number(const uint8_t *table, size_t size, size_t *at, uint32_t *out) {
  *out = 0;
  for (uint32_t shift = 0; shift < 32; shift += 6) {
    if (*at >= size) return false;
    uint8_t byte = table[(*at)++];
    *out |= (uint32_t)(byte & 63) << shift;
    if (!(byte & 64)) return true;
  }
  return false;
}

/* From 3.11 on: entries that begin with 1, a code of four bits, and their length in instructions.
 * The length of the rest depends on the code: it ends at the next byte with bit 7 set. */
static int64_t line_by_locations(int64_t line, const uint8_t *table, size_t size,
                                 uint32_t position) {
  enum { ONE_LINE_0 = 10, ONE_LINE_2 = 12, NO_COLUMNS = 13, LONG = 14, NO_LOCATION = 15 };
  uint64_t end = 0;
  for (size_t at = 0; at < size;) {
    uint8_t head = table[at++], form = head >> 3 & 15;
    uint32_t number = 0;
    if (!(head & 0x80)) return 0;
    if ((form == NO_COLUMNS || form == LONG) && !take_number(table, size, &at, &number)) return 0;
    if (form == NO_COLUMNS || form == LONG)
      line += number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
    else if (form >= ONE_LINE_0 && form <= ONE_LINE_2)
      line += form - ONE_LINE_0;
    end += ((head & 7u) + 1) * 2;
    if (end > position) return form == NO_LOCATION ? 0 : line;
    while (at < size && !(table[at] & 0x80))
      at++;
  }
  return 0;
}

uint32_t python_line(uint32_t minor, uint32_t first, const uint8_t *table, size_t size,
                     uint32_t position) {
  if (position == PYTHON_NOT_BEGUN) return first;
  int64_t line = minor >= 11   ? line_by_locations(first, table, size, position)
                 : minor == 10 ? line_by_pairs(first, table, size, position)
                               : line_by_lnotab(first, table, size, position);
  return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}
