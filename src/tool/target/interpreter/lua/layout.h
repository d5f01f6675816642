/* SPDX-License-Identifier: MIT
 *
 * Where Lua 5.4 keeps its frames: offsets of fields in bytes, and the codes of instructions, for
 * 64-bit builds with the default configuration.
 *
 * Source of the table: offsetof in lstate.h, lobject.h, lopcodes.h and ltm.h. It is the same for
 * the versions 5.4.3 to 5.4.8; names differ in 5.4.3.
 */
#ifndef SONDE_TARGET_INTERPRETER_LUA_LAYOUT_H
#define SONDE_TARGET_INTERPRETER_LUA_LAYOUT_H

#include <stdint.h>

enum {
  /* lua_State: a coroutine, or the main thread of a universe (global_State) */
  LUA_STATE_TYPE = 8,
  LUA_STATE_STATUS = 10,
  LUA_STATE_UNIVERSE = 24,
  LUA_STATE_CALL = 32,
  LUA_STATE_RECOVERY = 88, /* the innermost lua_longjmp, on the native stack */
  LUA_STATE_BASE_CALL = 96,
  LUA_STATE_BYTES = 200,
  LUA_UNIVERSE_MAIN = 264,
  /* CallInfo */
  LUA_CALL_FUNCTION = 0,
  LUA_CALL_PREVIOUS = 16,
  LUA_CALL_INSTRUCTION = 32,
  LUA_CALL_STATUS = 62,
  LUA_CALL_BYTES = 64,
  /* TValue, and what it refers to: LClosure */
  LUA_VALUE_TYPE = 8,
  LUA_VALUE_BYTES = 16,
  LUA_CLOSURE_CODE = 24,
  /* Proto */
  LUA_CODE_UPVALUE_COUNT = 16,
  LUA_CODE_CONSTANT_COUNT = 20,
  LUA_CODE_COUNT = 24,
  LUA_CODE_LINE_COUNT = 28,
  LUA_CODE_LOCAL_COUNT = 36,
  LUA_CODE_PLACE_COUNT = 40,
  LUA_CODE_FIRST_LINE = 44,
  LUA_CODE_CONSTANTS = 56,
  LUA_CODE_INSTRUCTIONS = 64,
  LUA_CODE_UPVALUES = 80,
  LUA_CODE_LINES = 88,
  LUA_CODE_PLACES = 96,
  LUA_CODE_LOCALS = 104,
  LUA_CODE_SOURCE = 112,
  LUA_CODE_BYTES = 128,
  /* TString */
  LUA_TEXT_TYPE = 8,
  LUA_TEXT_SHORT_LENGTH = 11,
  LUA_TEXT_LENGTH = 16,
  LUA_TEXT_DATA = 24,
};

enum {
  LUA_TYPE_SHORT_TEXT = 4,
  LUA_TYPE_LONG_TEXT = 20,
  LUA_TYPE_THREAD = 8,
  LUA_TYPE_LUA_FUNCTION = 6,
  LUA_TYPE_C_FUNCTION = 22,
  LUA_TYPE_C_CLOSURE = 38,
  /* of a value that refers to an object */
  LUA_TYPE_IS_OBJECT = 64,
};

/* The status of a call. */
#define LUA_CALL_IS_C         (1u << 1)
#define LUA_CALL_IS_FRESH     (1u << 2)
#define LUA_CALL_IS_HOOKED    (1u << 3)
#define LUA_CALL_IS_TAIL      (1u << 5)
#define LUA_CALL_IS_FINALIZER (1u << 7)

/* Instructions. */
enum {
  LUA_MOVE = 0,
  LUA_LOADK = 3,
  LUA_LOADKX = 4,
  LUA_LOADNIL = 8,
  LUA_GETUPVAL = 9,
  LUA_GETTABUP = 11,
  LUA_GETTABLE = 12,
  LUA_GETI = 13,
  LUA_GETFIELD = 14,
  LUA_SETTABUP = 15,
  LUA_SETFIELD = 18,
  LUA_SELF = 20,
  LUA_MMBIN = 46,
  LUA_MMBINK = 48,
  LUA_UNM = 49,
  LUA_BNOT = 50,
  LUA_LEN = 52,
  LUA_CONCAT = 53,
  LUA_CLOSE = 54,
  LUA_JMP = 56,
  LUA_EQ = 57,
  LUA_LT = 58,
  LUA_LE = 59,
  LUA_LTI = 62,
  LUA_LEI = 63,
  LUA_GTI = 64,
  LUA_GEI = 65,
  LUA_CALL = 68,
  LUA_TAILCALL = 69,
  LUA_RETURN = 70,
  LUA_TFORCALL = 76,
  LUA_INSTRUCTIONS = 83,
};

/* Events, in the order of their numbers. */
enum {
  LUA_EVENT_INDEX = 0,
  LUA_EVENT_NEWINDEX = 1,
  LUA_EVENT_LEN = 4,
  LUA_EVENT_EQ = 5,
  LUA_EVENT_UNM = 18,
  LUA_EVENT_BNOT = 19,
  LUA_EVENT_LT = 20,
  LUA_EVENT_LE = 21,
  LUA_EVENT_CONCAT = 22,
  LUA_EVENT_CLOSE = 24,
  LUA_EVENTS = 25,
};

static inline unsigned lua_operation(uint32_t i) { return i & 0x7f; }
static inline unsigned lua_a(uint32_t i) { return i >> 7 & 0xff; }
static inline unsigned lua_k(uint32_t i) { return i >> 15 & 1; }
static inline unsigned lua_b(uint32_t i) { return i >> 16 & 0xff; }
static inline unsigned lua_c(uint32_t i) { return i >> 24; }
static inline uint32_t lua_bx(uint32_t i) { return i >> 15; }
static inline uint32_t lua_ax(uint32_t i) { return i >> 7; }
static inline int64_t lua_jump(uint32_t i) { return (int64_t)(i >> 7) - 0xffffff; }

#endif
