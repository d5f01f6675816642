/* SPDX-License-Identifier: MIT
 *
 * Lines are differences from one instruction to the next. For some instructions, at most 128 apart,
 * the line itself is stored in a second table.
 */
#include "target/interpreter/lua/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/load.h"
#include "target/interpreter/lua/layout.h"

#define TEXT_MAX    1024u
#define COUNT_MAX   (1u << 24)
#define LINES_STEP  256u
#define PLACE_BYTES 8u

bool lua_code_read(memory_t *memory, uint64_t address, lua_code_t *out) {
  uint8_t code[LUA_CODE_BYTES];
  if (!address || address % 8 || !memory->read(memory, address, code, sizeof code)) return false;
  *out = (lua_code_t){.address = address,
                      .upvalue_count = load32(code + LUA_CODE_UPVALUE_COUNT),
                      .constant_count = load32(code + LUA_CODE_CONSTANT_COUNT),
                      .count = load32(code + LUA_CODE_COUNT),
                      .line_count = load32(code + LUA_CODE_LINE_COUNT),
                      .local_count = load32(code + LUA_CODE_LOCAL_COUNT),
                      .place_count = load32(code + LUA_CODE_PLACE_COUNT),
                      .first_line = load32(code + LUA_CODE_FIRST_LINE),
                      .constants = load64(code + LUA_CODE_CONSTANTS),
                      .instructions = load64(code + LUA_CODE_INSTRUCTIONS),
                      .upvalues = load64(code + LUA_CODE_UPVALUES),
                      .lines = load64(code + LUA_CODE_LINES),
                      .places = load64(code + LUA_CODE_PLACES),
                      .locals = load64(code + LUA_CODE_LOCALS),
                      .source = load64(code + LUA_CODE_SOURCE)};
  return out->count && out->count < COUNT_MAX && out->upvalue_count < COUNT_MAX &&
         out->constant_count < COUNT_MAX && out->local_count < COUNT_MAX &&
         out->place_count < COUNT_MAX && (!out->line_count || out->line_count == out->count);
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* Sets the last instruction up to AT whose line is stored, and that line. */
static bool last_place(memory_t *memory, const lua_code_t *code, uint32_t at, int64_t *from,
                       uint32_t *line) {
  uint32_t low = 0, high = code->place_count;
  *from = -1;
  *line = code->first_line;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    uint8_t place[PLACE_BYTES];
    if (!memory->read(memory, code->places + (uint64_t)middle * PLACE_BYTES, place, sizeof place))
      return false;
    if (load32(place) > at) {
      high = middle;
      continue;
    }
    low = middle + 1;
    *from = load32(place);
    *line = load32(place + 4);
  }
  return true;
}

bool lua_code_line(memory_t *memory, const lua_code_t *code, uint32_t at, uint32_t *line) {
  int8_t steps[LINES_STEP];
  int64_t from;
  *line = 0;
  if (!code->line_count) return true;
  if (at >= code->line_count || !last_place(memory, code, at, &from, line)) return false;
  uint64_t count = (uint64_t)(at - from);
  if (count > sizeof steps ||
      (count && !memory->read(memory, code->lines + (uint64_t)(from + 1), steps, (size_t)count)))
    return false;
  for (uint64_t i = 0; i < count; i++)
    *line = (uint32_t)((int64_t)*line + steps[i]);
  return true;
}

/* ---- texts ---------------------------------------------------------------------------------- */

char *lua_text(memory_t *memory, uint64_t address) {
  uint8_t head[LUA_TEXT_DATA];
  char text[TEXT_MAX + 1];
  if (!address || address % 8 || !memory->read(memory, address, head, sizeof head)) return NULL;
  uint64_t length = head[LUA_TEXT_TYPE] == LUA_TYPE_SHORT_TEXT  ? head[LUA_TEXT_SHORT_LENGTH]
                    : head[LUA_TEXT_TYPE] == LUA_TYPE_LONG_TEXT ? load64(head + LUA_TEXT_LENGTH)
                                                                : UINT64_MAX;
  if (length == UINT64_MAX) return NULL;
  if (length > TEXT_MAX) length = TEXT_MAX;
  if (length && !memory->read(memory, address + LUA_TEXT_DATA, text, (size_t)length)) return NULL;
  text[length] = 0;
  return strdup(text);
}

/* A source that is a program, not a file, is shown by its first line (luaO_chunkid). */
static char *quoted(const char *program) {
  enum { SHOWN_MAX = 40 };
  char text[SHOWN_MAX + 32];
  size_t length = strcspn(program, "\n");
  bool is_whole = !program[length] && length < SHOWN_MAX;
  if (length > SHOWN_MAX) length = SHOWN_MAX;
  snprintf(text, sizeof text, "[string \"%.*s%s\"]", (int)length, program, is_whole ? "" : "...");
  return strdup(text);
}

char *lua_code_source(memory_t *memory, const lua_code_t *code) {
  char *text = lua_text(memory, code->source);
  if (!text) return strdup("?");
  char *source = *text == '@' || *text == '=' ? strdup(text + 1) : quoted(text);
  free(text);
  return source;
}
