/* SPDX-License-Identifier: MIT
 *
 * Lua 5.4, of Debian 12: the command, and programs with the shared library.
 *
 * A state (states.h) has a chain of calls (CallInfo), of functions in Lua and in C. A call of the
 * evaluator, luaV_execute, runs functions up to one with the flag FRESH. A coroutine that was
 * resumed after a yield runs all of its functions in one call of the evaluator. So its calls of the
 * evaluator are fewer than the flags; place.c explains how they are assigned.
 *
 * Names, files and lines are those of debug.getinfo: the name of a function is that which its
 * caller has for it. A function in C has the file and line of the Lua code that called it. One that
 * no Lua code called, such as the main function of the command, is shown by its native frame alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/load.h"
#include "image/exported.h"
#include "target/interpreter/evaluator.h"
#include "target/interpreter/lua/code.h"
#include "target/interpreter/lua/layout.h"
#include "target/interpreter/lua/states.h"
#include "target/interpreter/named.h"

/* Lua's own limit (LUAI_MAXCCALLS counts only calls of C; the stack has a million slots). */
#define CALLS_MAX     (1u << 20)
#define IDENT_BYTES   64
#define VERSION_FIRST '4'
#define VERSION_LAST  '8'

/* What stands for a function in C until its caller is known. */
enum { C_UNNAMED = 0, C_NAMED_BY_CALLER = 1 };

/* A call that was read. */
typedef struct lua_call {
  uint64_t address, function, previous, instruction;
  uint32_t status;
} lua_call_t;

/* A function in Lua, and the instruction that it executes. */
typedef struct place {
  lua_code_t code;
  uint32_t at;
} place_t;

typedef struct lua {
  /* must be first */
  interpreter_t common;
  named_frames_t named;
  lua_states_t states;
  /* the code that calls the function in C that is being named */
  place_t caller;
} lua_t;

/* ---- the interpreter ------------------------------------------------------------------------ */

/* "Lua 5.4.4" of "$LuaVersion: Lua 5.4.4  Copyright …". */
static bool is_known_version(lua_t *l, uint64_t ident) {
  static const char known[] = "Lua 5.4.";
  char text[IDENT_BYTES + 1] = "";
  memory_t *memory = &l->common.memory;
  if (!ident || !memory->read(memory, ident, text, IDENT_BYTES)) return false;
  const char *found = strstr(text, known);
  if (!found || found[8] < VERSION_FIRST || found[8] > VERSION_LAST) return false;
  snprintf(l->common.version, sizeof l->common.version, "5.4.%c", found[8]);
  return true;
}

static bool find(interpreter_t *self) {
  exported_t found[] = {{.name = "lua_callk"}, {.name = "lua_ident"}, {.name = "lua_newstate"}};
  if (!image_find_exported(&self->module->image, found, 3) || !found[0].address ||
      !found[1].address || !found[2].address)
    return false;
  if (!is_known_version((lua_t *)self, found[1].address))
    self->problem = "sonde knows Lua 5.4.4 to 5.4.8";
  else if (!evaluator_set_called(self, found[0].address))
    self->problem = "sonde does not find its evaluator";
  return true;
}

static void close(interpreter_t *self) { named_free(&((lua_t *)self)->named); }

/* A state may run on any thread, and leaves no trace of it. */
static void list_threads(interpreter_t *self) { (void)self; }

/* ---- one call ------------------------------------------------------------------------------- */

static bool read_call(lua_t *l, uint64_t address, lua_call_t *out) {
  uint8_t call[LUA_CALL_BYTES];
  memory_t *memory = &l->common.memory;
  if (!address || address % 8 || !memory->read(memory, address, call, sizeof call)) return false;
  *out = (lua_call_t){.address = address,
                      .function = load64(call + LUA_CALL_FUNCTION),
                      .previous = load64(call + LUA_CALL_PREVIOUS),
                      .instruction = load64(call + LUA_CALL_INSTRUCTION),
                      .status = call[LUA_CALL_STATUS] | (uint32_t)call[LUA_CALL_STATUS + 1] << 8};
  return true;
}

static bool is_c(const lua_call_t *call) { return call->status & LUA_CALL_IS_C; }

/* Sets what CALL, of a function in Lua, executes. The instruction is the one after it. */
static bool read_place(lua_t *l, const lua_call_t *call, place_t *out) {
  uint8_t value[LUA_VALUE_BYTES];
  uint64_t code;
  memory_t *memory = &l->common.memory;
  if (!memory->read(memory, call->function, value, sizeof value) ||
      value[LUA_VALUE_TYPE] != (LUA_TYPE_LUA_FUNCTION | LUA_TYPE_IS_OBJECT) ||
      !memory->read(memory, load64(value) + LUA_CLOSURE_CODE, &code, sizeof code) ||
      !lua_code_read(memory, code, &out->code))
    return false;
  uint64_t offset = call->instruction - out->code.instructions;
  if (offset % 4 || offset / 4 > out->code.count) return false;
  /* A function that has not begun is at its first instruction. */
  out->at = offset ? (uint32_t)(offset / 4 - 1) : 0;
  return true;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The name of the function that OUTER called as CALL; NULL: it has none. PLACE is that of OUTER if
 * it is in Lua. */
static char *name_by_caller(lua_t *l, const lua_call_t *call, const lua_call_t *outer,
                            const place_t *place) {
  if (call->status & LUA_CALL_IS_TAIL) return NULL;
  if (outer->status & LUA_CALL_IS_HOOKED) return strdup("hook");
  if (outer->status & LUA_CALL_IS_FINALIZER) return strdup("metamethod '__gc'");
  return is_c(outer) ? NULL : lua_call_name(&l->common.memory, &place->code, place->at);
}

/* A function without a name is told by where it is defined. */
static char *name_by_place(lua_t *l, const place_t *place) {
  char text[1100];
  char *source = lua_code_source(&l->common.memory, &place->code);
  if (!place->code.first_line || !source) {
    free(source);
    return strdup("main chunk");
  }
  snprintf(text, sizeof text, "function <%s:%u>", source, place->code.first_line);
  free(source);
  return strdup(text);
}

/* What tells PLACE from others, also if the memory of a function is used for another one. */
static uint64_t key_of_place(const place_t *place) {
  const lua_code_t *c = &place->code;
  return hash_pair(hash_pair(c->address, c->source),
                   hash_pair((uint64_t)c->count << 32 | c->first_line,
                             (uint64_t)place->at << 32 | c->constant_count));
}

/* The number of the frame of CALL, a function in Lua at PLACE, which OUTER called. */
static uint64_t number_of_lua(lua_t *l, const lua_call_t *call, const place_t *place,
                              const lua_call_t *outer, const place_t *outer_place) {
  const uint64_t by = is_c(outer) ? 0 : key_of_place(outer_place),
                 how = (call->status & LUA_CALL_IS_TAIL) |
                       (outer->status & (LUA_CALL_IS_HOOKED | LUA_CALL_IS_FINALIZER));
  const uint64_t key[4] = {place->code.address, key_of_place(place), by, how << 1};
  bool is_new;
  uint64_t number = named_number(&l->named, key, &is_new);
  if (!is_new) return number;
  memory_t *memory = &l->common.memory;
  named_frame_t *named = named_at(&l->named, number);
  named->function = name_by_caller(l, call, outer, outer_place);
  if (!named->function) named->function = name_by_place(l, place);
  named->file = lua_code_source(memory, &place->code);
  if (!lua_code_line(memory, &place->code, place->at, &named->line)) named->line = 0;
  return number;
}

/* Of a function in C; HOW as above. CALLER is the frame that has called it, at l->caller. */
static uint64_t number_of_c(interpreter_t *self, uint64_t how, uint64_t caller) {
  lua_t *l = (lua_t *)self;
  const uint64_t key[4] = {caller, how, 0, 1};
  bool is_new;
  uint64_t number = named_number(&l->named, key, &is_new);
  if (!is_new) return number;
  named_frame_t *named = named_at(&l->named, number);
  if (how == C_NAMED_BY_CALLER)
    named->function = lua_call_name(&self->memory, &l->caller.code, l->caller.at);
  if (!named->function) named->function = strdup("?");
  named_take_place(&l->named, number, caller);
  return number;
}

static bool name(const interpreter_t *self, uint64_t pc, interpreter_name_t *out) {
  return named_name(&((const lua_t *)self)->named, pc, out);
}

/* ---- frames --------------------------------------------------------------------------------- */

static bool add_c(lua_t *l, const lua_call_t *call, const lua_call_t *outer) {
  bool is_named = !is_c(outer) && !(call->status & LUA_CALL_IS_TAIL);
  return named_add_waiting(&l->common, &l->named, is_named ? C_NAMED_BY_CALLER : C_UNNAMED);
}

/* A function in C begins another call of the evaluator for the Lua function that it calls. Before
 * that is noted, the frames contradict themselves. */
static bool add_lua(lua_t *l, const lua_state_t *state, const lua_call_t *call,
                    const place_t *place, const lua_call_t *outer, const place_t *outer_place) {
  bool is_fresh = call->status & LUA_CALL_IS_FRESH;
  if (!is_fresh && is_c(outer)) return false;
  uint64_t number = number_of_lua(l, call, place, outer, outer_place);
  l->caller = *place;
  if (number == NAMED_NONE || !named_resolve(&l->common, &l->named, number, number_of_c) ||
      !named_add(&l->common, number))
    return false;
  return !is_fresh || interpreter_frames_end_limited(&l->common.frames, state->limit);
}

/* Functions in C that no code in Lua called. */
static void drop_waiting(lua_t *l) {
  l->common.frames.pcs.count -= l->named.waiting;
  l->named.waiting = 0;
}

/* Adds the frames of STATE. The name of a function depends on its caller, so two calls are held. */
static bool read_state(lua_t *l, const lua_state_t *state, uint32_t depth) {
  interpreter_frames_t *frames = &l->common.frames;
  uint64_t base = state->address + LUA_STATE_BASE_CALL;
  lua_call_t call, outer;
  place_t place = {0}, outer_place = {0};
  if (!read_call(l, state->call, &call) || (!is_c(&call) && !read_place(l, &call, &place)))
    return false;
  for (uint32_t i = 0; call.address != base && frames->pcs.count < depth; i++) {
    if (i == CALLS_MAX || !read_call(l, call.previous, &outer) ||
        (!is_c(&outer) && !read_place(l, &outer, &outer_place)))
      return false;
    if (!(is_c(&call) ? add_c(l, &call, &outer)
                      : add_lua(l, state, &call, &place, &outer, &outer_place)))
      return false;
    call = outer;
    place = outer_place;
  }
  drop_waiting(l);
  return frames->first == frames->pcs.count || frames->pcs.count >= depth;
}

static void read_thread(interpreter_t *self, pid_t tid, uint32_t depth) {
  lua_t *l = (lua_t *)self;
  bool done = true;
  (void)tid;
  lua_states_find(self, &l->states);
  for (size_t i = 0; done && i < l->states.count; i++)
    done = read_state(l, &l->states.items[i], depth);
  drop_waiting(l);
  done = done && !l->states.is_doubtful;
  interpreter_frames_end_state(&self->frames, done ? NULL : interpreter_damaged);
}

const interpreter_kind_t lua_kind = {.language = LANGUAGE_LUA,
                                     .file = "lua",
                                     .size = sizeof(lua_t),
                                     .find = find,
                                     .close = close,
                                     .list_threads = list_threads,
                                     .read = read_thread,
                                     .name = name};
