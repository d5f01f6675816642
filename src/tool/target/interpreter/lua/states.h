/* SPDX-License-Identifier: MIT
 *
 * The Lua states (lua_State: main threads and coroutines) that run on a native thread.
 *
 * No variable of the program leads to them: they are found on the native stack, where the functions
 * of Lua keep them. A state is a structure with a pointer to its universe, whose main state refers
 * to the same universe, and with a place within itself for its outermost call. A word that leads to
 * such a structure is a state.
 */
#ifndef SONDE_TARGET_INTERPRETER_LUA_STATES_H
#define SONDE_TARGET_INTERPRETER_LUA_STATES_H

#include "target/interpreter/interpreter.h"

#define LUA_STATES_MAX 256

typedef struct lua_state {
  uint64_t address, call;
  /* its calls of the evaluator are inside of this address of the native stack: that of its
   * outermost protected call; 0: it has none */
  uint64_t limit;
} lua_state_t;

typedef struct lua_states {
  lua_state_t items[LUA_STATES_MAX];
  size_t count;
  /* more states, or two whose order is unknown */
  bool is_doubtful;
} lua_states_t;

/* Finds the states that run, innermost first, on the stack that begins at SELF's stack pointer. */
void lua_states_find(interpreter_t *self, lua_states_t *out);

#endif
