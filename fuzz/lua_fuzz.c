/* SPDX-License-Identifier: MIT
 *
 * The memory of a Lua interpreter, which changes while it is read, or is damaged: the native stack,
 * states, calls, functions, their code and names.
 */
/* The command's own is linked, too. */
#define lua_kind fuzzed_kind
#include "target/interpreter/lua/lua.c"

#include "interpreter.h"

static lua_t lua;

static void set_up(void) { lua.common.sp = FUZZ_BASE; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzz_interpreter(&lua.common, &lua_kind, set_up, data, size);
}
