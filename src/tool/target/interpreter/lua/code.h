/* SPDX-License-Identifier: MIT
 *
 * The code of a Lua function (Proto): its lines, its source, and the name of the function that an
 * instruction calls.
 */
#ifndef SONDE_TARGET_INTERPRETER_LUA_CODE_H
#define SONDE_TARGET_INTERPRETER_LUA_CODE_H

#include "unwind/memory.h"

typedef struct lua_code {
  uint64_t address;
  uint32_t upvalue_count, constant_count, count, line_count, local_count, place_count, first_line;
  uint64_t constants, instructions, upvalues, lines, places, locals, source;
} lua_code_t;

/* Reads the code at ADDRESS. False: it is unreadable or damaged. */
bool lua_code_read(memory_t *memory, uint64_t address, lua_code_t *out);

/* Sets *LINE to that of the instruction AT; 0: the code has no lines. False: unreadable. */
bool lua_code_line(memory_t *memory, const lua_code_t *code, uint32_t at, uint32_t *line);

/* The text of the string at ADDRESS, allocated; NULL: unreadable. */
char *lua_text(memory_t *memory, uint64_t address);

/* The source of CODE as Lua's tracebacks have it, but a file is not shortened; allocated. */
char *lua_code_source(memory_t *memory, const lua_code_t *code);

/* The name of the function that the instruction AT calls: that of the variable, field or method, or
 * the event. Allocated; NULL: it has none. */
char *lua_call_name(memory_t *memory, const lua_code_t *code, uint32_t at);

#endif
