/* SPDX-License-Identifier: MIT
 *
 * A function in Lua is a value without a name. Its caller has names: a call instruction calls what
 * is in a register, and the code before it shows from where it came. As Lua's own tracebacks do,
 * the code is read forward, and the last instruction that surely set the register counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/load.h"
#include "target/interpreter/lua/code.h"
#include "target/interpreter/lua/layout.h"

/* More code before a call is not read, nor are longer ways of a value through registers. */
#define CODE_MAX    (1u << 18)
#define STEPS_MAX   64
#define LOCAL_BYTES 16u

/* The instructions that set their register A: a bit each (luaP_opmodes, lopcodes.c). */
static const uint64_t sets_a[2] = {UINT64_C(0x003e3ffffff87bff), UINT64_C(0x3a638)};

typedef struct search {
  memory_t *memory;
  const lua_code_t *code;
  /* the code up to the call; owned */
  uint32_t *instructions;
  int steps;
} search_t;

/* ---- constants and variables ---------------------------------------------------------------- */

/* The text of constant NUMBER; NULL: it is none, or not a text. */
static char *constant(const search_t *s, uint32_t number) {
  uint8_t value[LUA_VALUE_BYTES];
  if (number >= s->code->constant_count ||
      !s->memory->read(s->memory, s->code->constants + (uint64_t)number * sizeof value, value,
                       sizeof value))
    return NULL;
  unsigned type = value[LUA_VALUE_TYPE] & ~(unsigned)LUA_TYPE_IS_OBJECT;
  return type == LUA_TYPE_SHORT_TEXT || type == LUA_TYPE_LONG_TEXT
             ? lua_text(s->memory, load64(value))
             : NULL;
}

static char *constant_or_unknown(const search_t *s, uint32_t number) {
  char *text = constant(s, number);
  return text ? text : strdup("?");
}

static char *upvalue(const search_t *s, uint32_t number) {
  uint64_t name;
  if (number >= s->code->upvalue_count ||
      !s->memory->read(s->memory, s->code->upvalues + (uint64_t)number * LOCAL_BYTES, &name,
                       sizeof name))
    return NULL;
  return name ? lua_text(s->memory, name) : strdup("?");
}

/* The local variable that is in REGISTER at the instruction AT; NULL: there is none. */
static char *local(const search_t *s, unsigned reg, uint32_t at) {
  unsigned left = reg + 1;
  for (uint32_t i = 0; i < s->code->local_count; i++) {
    uint8_t variable[LOCAL_BYTES];
    if (!s->memory->read(s->memory, s->code->locals + (uint64_t)i * LOCAL_BYTES, variable,
                         sizeof variable) ||
        load32(variable + 8) > at)
      return NULL;
    if (at < load32(variable + 12) && --left == 0) return lua_text(s->memory, load64(variable));
  }
  return NULL;
}

/* ---- what set a register -------------------------------------------------------------------- */

static bool sets(uint32_t i, unsigned reg) {
  unsigned operation = lua_operation(i), a = lua_a(i);
  switch (operation) {
  case LUA_LOADNIL: return a <= reg && reg <= a + lua_b(i);
  case LUA_TFORCALL: return reg >= a + 2;
  case LUA_CALL:
  case LUA_TAILCALL: return reg >= a;
  default:
    return operation < LUA_INSTRUCTIONS && (sets_a[operation / 64] >> operation % 64 & 1) &&
           reg == a;
  }
}

/* The last instruction before AT that set REGISTER; -1: none did, or one that a jump may skip. */
static int64_t setter(const search_t *s, unsigned reg, uint32_t at) {
  int64_t found = -1, joined = 0; /* code before the latter is conditional */
  unsigned last = lua_operation(s->instructions[at]);
  if (last >= LUA_MMBIN && last <= LUA_MMBINK) at--; /* it was not executed */
  for (uint32_t pc = 0; pc < at; pc++) {
    uint32_t i = s->instructions[pc];
    int64_t to = lua_operation(i) == LUA_JMP ? pc + 1 + lua_jump(i) : 0;
    if (to > joined && to <= at) joined = to;
    if (sets(i, reg)) found = pc < joined ? -1 : (int64_t)pc;
  }
  return found;
}

static char *value_name(search_t *s, unsigned reg, uint32_t at, bool *is_constant);

/* The name of the key that is in REGISTER: a constant, or unknown. */
static char *key_name(search_t *s, unsigned reg, uint32_t at) {
  bool is_constant = false;
  char *name = value_name(s, reg, at, &is_constant);
  if (name && is_constant) return name;
  free(name);
  return strdup("?");
}

/* The name of what the instruction AT, which is I, put into its register. */
static char *name_of_result(search_t *s, uint32_t i, uint32_t at, bool *is_constant) {
  switch (lua_operation(i)) {
  case LUA_MOVE: return lua_b(i) < lua_a(i) ? value_name(s, lua_b(i), at, is_constant) : NULL;
  case LUA_GETTABUP:
  case LUA_GETFIELD: return constant_or_unknown(s, lua_c(i));
  case LUA_GETTABLE: return key_name(s, lua_c(i), at);
  case LUA_GETI: return strdup("integer index");
  case LUA_GETUPVAL: return upvalue(s, lua_b(i));
  case LUA_LOADK:
  case LUA_LOADKX:
    *is_constant = true;
    return constant(s, lua_operation(i) == LUA_LOADK ? lua_bx(i) : lua_ax(s->instructions[at + 1]));
  case LUA_SELF: return lua_k(i) ? constant_or_unknown(s, lua_c(i)) : key_name(s, lua_c(i), at);
  default: return NULL;
  }
}

/* The name of what is in REGISTER at the instruction AT. */
static char *value_name(search_t *s, unsigned reg, uint32_t at, bool *is_constant) {
  char *name = local(s, reg, at);
  if (name) return name;
  if (s->steps++ == STEPS_MAX) return NULL;
  int64_t found = setter(s, reg, at);
  return found < 0 ? NULL : name_of_result(s, s->instructions[found], (uint32_t)found, is_constant);
}

/* ---- events --------------------------------------------------------------------------------- */

static char *event_name(unsigned event) {
  static const char *const names[LUA_EVENTS] = {
      "index", "newindex", "gc",  "mode", "len",    "eq",   "add",  "sub", "mul",
      "mod",   "pow",      "div", "idiv", "band",   "bor",  "bxor", "shl", "shr",
      "unm",   "bnot",     "lt",  "le",   "concat", "call", "close"};
  char text[32];
  if (event >= LUA_EVENTS) return NULL;
  snprintf(text, sizeof text, "metamethod '%s'", names[event]);
  return strdup(text);
}

/* The event that the instruction I raises. */
static unsigned event_of(uint32_t i) {
  unsigned operation = lua_operation(i);
  if (operation == LUA_SELF || (operation >= LUA_GETTABUP && operation <= LUA_GETFIELD))
    return LUA_EVENT_INDEX;
  if (operation >= LUA_SETTABUP && operation <= LUA_SETFIELD) return LUA_EVENT_NEWINDEX;
  if (operation >= LUA_MMBIN && operation <= LUA_MMBINK) return lua_c(i);
  switch (operation) {
  case LUA_UNM: return LUA_EVENT_UNM;
  case LUA_BNOT: return LUA_EVENT_BNOT;
  case LUA_LEN: return LUA_EVENT_LEN;
  case LUA_CONCAT: return LUA_EVENT_CONCAT;
  case LUA_EQ: return LUA_EVENT_EQ;
  case LUA_LT:
  case LUA_LTI:
  case LUA_GTI: return LUA_EVENT_LT;
  case LUA_LE:
  case LUA_LEI:
  case LUA_GEI: return LUA_EVENT_LE;
  case LUA_CLOSE:
  case LUA_RETURN: return LUA_EVENT_CLOSE;
  default: return LUA_EVENTS;
  }
}

static char *name_at(search_t *s, uint32_t at) {
  uint32_t i = s->instructions[at];
  bool is_constant;
  switch (lua_operation(i)) {
  case LUA_CALL:
  case LUA_TAILCALL: return value_name(s, lua_a(i), at, &is_constant);
  case LUA_TFORCALL: return strdup("for iterator");
  default: return event_name(event_of(i));
  }
}

char *lua_call_name(memory_t *memory, const lua_code_t *code, uint32_t at) {
  if (at >= code->count || at >= CODE_MAX) return NULL;
  /* An instruction may have its operand in the next one. */
  size_t count = (size_t)at + 1;
  search_t s = {memory, code, malloc(count * sizeof *s.instructions), 0};
  char *name = NULL;
  if (s.instructions &&
      memory->read(memory, code->instructions, s.instructions, count * sizeof *s.instructions))
    name = name_at(&s, at);
  free(s.instructions);
  return name;
}
