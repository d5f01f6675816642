/* SPDX-License-Identifier: MIT
 *
 * A coroutine that runs, or that has resumed another one, has the status 0 and a call. It was
 * resumed by a protected call: a structure on the native stack, which the state refers to. So the
 * native frames that are inside of it are the coroutine's, and the others are of who resumed it. A
 * state whose protected calls are on another stack runs on another thread.
 */
#include "target/interpreter/lua/states.h"

#include <stdlib.h>
#include <string.h>

#include "base/load.h"
#include "target/interpreter/lua/layout.h"
#include "target/interpreter/stack_words.h"

/* Lua nests at most 200 calls of C (LUAI_MAXCCALLS). */
#define STACK_MAX      (UINT64_C(1) << 20)
#define RECOVERIES_MAX 1024

typedef struct scan {
  interpreter_t *self;
  lua_states_t *out;
  uint64_t start, end;
} scan_t;

static bool is_pointer(const scan_t *s, uint64_t word) {
  return stack_word_is_address(s->start, s->end, word);
}

static bool word_at(scan_t *s, uint64_t address, uint64_t *out) {
  memory_t *memory = &s->self->memory;
  return memory->read(memory, address, out, sizeof *out);
}

/* Whether the structure STATE at ADDRESS is a state, in whatever condition. */
static bool is_state(scan_t *s, uint64_t address, const uint8_t *state) {
  uint64_t universe = load64(state + LUA_STATE_UNIVERSE), main, of_main,
           base = load64(state + LUA_STATE_BASE_CALL + LUA_CALL_PREVIOUS);
  if (state[LUA_STATE_TYPE] != LUA_TYPE_THREAD || base || !is_pointer(s, universe) ||
      !is_pointer(s, load64(state + LUA_STATE_CALL)) ||
      !word_at(s, universe + LUA_UNIVERSE_MAIN, &main) || !is_pointer(s, main))
    return false;
  return main == address ||
         (word_at(s, main + LUA_STATE_UNIVERSE, &of_main) && of_main == universe);
}

/* Sets *LIMIT to the outermost protected call from RECOVERY on. False: it is not on this stack. */
static bool find_limit(scan_t *s, uint64_t recovery, uint64_t *limit) {
  *limit = 0;
  for (int i = 0; recovery; i++) {
    if (i == RECOVERIES_MAX || recovery % 8 || recovery < s->start || recovery >= s->end ||
        recovery <= *limit)
      return false;
    *limit = recovery;
    if (!word_at(s, recovery, &recovery)) return false;
  }
  return true;
}

static void look_at(void *context, uint64_t word) {
  scan_t *s = context;
  uint8_t state[LUA_STATE_BYTES];
  memory_t *memory = &s->self->memory;
  lua_state_t found = {.address = word};
  if (!memory->read(memory, word, state, sizeof state) || !is_state(s, word, state)) return;
  found.call = load64(state + LUA_STATE_CALL);
  if (state[LUA_STATE_STATUS] || found.call == word + LUA_STATE_BASE_CALL) return;
  if (!find_limit(s, load64(state + LUA_STATE_RECOVERY), &found.limit)) return;
  if (s->out->count == LUA_STATES_MAX)
    s->out->is_doubtful = true;
  else
    s->out->items[s->out->count++] = found;
}

/* A state without a protected call is the outermost one. */
static int by_limit(const void *a, const void *b) {
  uint64_t x = ((const lua_state_t *)a)->limit - 1, y = ((const lua_state_t *)b)->limit - 1;
  return x < y ? -1 : x > y;
}

static uint64_t stack_end(const interpreter_t *self, uint64_t start) {
  const mapping_t *m = maps_find(&self->target->maps, start);
  uint64_t most = start + STACK_MAX;
  return m && m->end < most ? m->end : most;
}

void lua_states_find(interpreter_t *self, lua_states_t *out) {
  scan_t s = {.self = self, .out = out, .start = self->sp & ~UINT64_C(7)};
  out->count = 0;
  out->is_doubtful = false;
  s.end = stack_end(self, s.start);
  if (s.start) stack_words_each(&self->memory, s.start, s.end, look_at, &s);
  if (out->count) qsort(out->items, out->count, sizeof *out->items, by_limit);
  for (size_t i = 1; i < out->count; i++)
    out->is_doubtful |= out->items[i].limit == out->items[i - 1].limit;
}
