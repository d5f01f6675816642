/* SPDX-License-Identifier: MIT */
#include "target/interpreter/python/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/load.h"
#include "python/chain.h"
#include "python/code.h"

/* Fields that are at one place in 3.11 and 3.12. */
enum {
  TYPE_NAME = 24,  /* PyTypeObject.tp_name */
  BOUND_SELF = 24, /* PyCFunctionObject.m_self */
  LOCK = 16,       /* lockobject.lock_lock and rlockobject.rlock_lock */
  VALUES_MAX = 64, /* more nested blocks and loops are not looked through */
  TABLE_MAX = 4096
};

static bool is_named(memory_t *memory, uint64_t object, const char *type_name) {
  uint64_t type, name;
  char text[32] = "";
  size_t size = strlen(type_name) + 1;
  return memory->read(memory, object + PYTHON_OBJECT_TYPE, &type, sizeof type) &&
         memory->read(memory, type + TYPE_NAME, &name, sizeof name) && size <= sizeof text &&
         memory->read(memory, name, text, size) && memcmp(text, type_name, size) == 0;
}

/* ---- the exception table ------------------------------------------------------------------ */

/* Reads a number of six bits a byte, the high ones first. Bit 6 says that more follow; bit 7 is set
 * in the first byte of an entry. */
static bool read_number(const uint8_t **at, const uint8_t *end, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < 5 && *at < end; i++) {
    uint8_t byte = *(*at)++;
    *out = *out << 6 | (byte & 63);
    if (!(byte & 64)) return true;
  }
  return false;
}

uint32_t held_values_at(const uint8_t *table, size_t size, uint32_t position) {
  const uint8_t *at = table, *end = table + size;
  uint32_t start, length, target, depth;
  while (read_number(&at, end, &start) && read_number(&at, end, &length) &&
         read_number(&at, end, &target) && read_number(&at, end, &depth))
    if (position / 2 >= start && position / 2 - start < length) return depth >> 1;
  return 0;
}

/* ---- frames ------------------------------------------------------------------------------- */

/* VALUE: of a frame's stack. */
static void add_value(held_locks_t *locks, memory_t *memory, uint64_t state, uint64_t value) {
  uint64_t object, semaphore;
  held_lock_t *lock;
  if (!value || value % 8 || !is_named(memory, value, "builtin_function_or_method") ||
      !memory->read(memory, value + BOUND_SELF, &object, sizeof object) || !object ||
      !(is_named(memory, object, "_thread.lock") || is_named(memory, object, "_thread.RLock")) ||
      !memory->read(memory, object + LOCK, &semaphore, sizeof semaphore))
    return;
  if ((lock = ARRAY_ADD(locks->found))) *lock = (held_lock_t){semaphore, state};
}

/* How many values are on the stack of the frame that CHAIN is at, if it is in a block. */
static uint32_t values_of(const python_chain_t *chain, const held_code_t *code) {
  uint8_t table[TABLE_MAX];
  uint32_t position;
  if (!code->size || code->size > sizeof table ||
      !python_position(chain->layout, chain->code, chain->instruction, &position) ||
      position == PYTHON_NOT_BEGUN ||
      !chain->memory->read(chain->memory, code->table, table, (size_t)code->size))
    return 0;
  return held_values_at(table, (size_t)code->size, position);
}

static void add_frame(held_locks_t *locks, const python_chain_t *chain, const held_code_t *code,
                      uint64_t state) {
  uint64_t values[VALUES_MAX];
  uint32_t count = values_of(chain, code);
  uint64_t at = chain->address + chain->layout->frame_values + 8 * (uint64_t)code->variables;
  if (!count || count > VALUES_MAX ||
      !chain->memory->read(chain->memory, at, values, count * sizeof *values))
    return;
  for (uint32_t i = 0; i < count; i++)
    add_value(locks, chain->memory, state, values[i]);
}

/* ---- code objects ------------------------------------------------------------------------- */

static bool is_condition_wait(const python_chain_t *chain) {
  static const char wait[] = "Condition.wait";
  char name[sizeof wait + 1];
  python_code_t code;
  return python_code_read(chain->layout, chain->memory, chain->code, &code) &&
         python_text(chain->layout, chain->memory, code.name, name, sizeof name) ==
             sizeof wait - 1 &&
         !strcmp(name, wait);
}

static held_code_t read_code(const python_chain_t *chain) {
  held_code_t code = {.address = chain->code, .is_condition_wait = is_condition_wait(chain)};
  const python_layout_t *l = chain->layout;
  memory_t *memory = chain->memory;
  uint64_t table;
  if (!memory->read(memory, chain->code + l->code_variables, &code.variables,
                    sizeof code.variables) ||
      !memory->read(memory, chain->code + l->code_exceptions, &table, sizeof table) ||
      !python_bytes(memory, table, &code.table, &code.size))
    code.size = 0;
  return code;
}

static const held_code_t *code_of(held_locks_t *locks, const python_chain_t *chain) {
  held_code_t *place = &locks->codes[hash_number(chain->code) % HELD_CODES];
  if (place->address != chain->code) *place = read_code(chain);
  return place;
}

/* ---- all locks ---------------------------------------------------------------------------- */

void held_locks_clear(held_locks_t *locks) {
  locks->found.count = 0;
  memset(locks->codes, 0, sizeof locks->codes);
}

void held_locks_free(held_locks_t *locks) { free(locks->found.items); }

void held_locks_add(held_locks_t *locks, const python_layout_t *layout, memory_t *memory,
                    uint64_t state) {
  python_chain_t chain;
  python_step_t step;
  if (layout->frame_values == PYTHON_NO_FIELD || !python_chain_start(&chain, layout, memory, state))
    return;
  while ((step = python_chain_next(&chain)) < PYTHON_END) {
    if (step != PYTHON_FRAME) continue;
    const held_code_t *code = code_of(locks, &chain);
    if (code->is_condition_wait) return;
    add_frame(locks, &chain, code, state);
  }
}

uint64_t held_locks_holder(const held_locks_t *locks, uint64_t semaphore) {
  uint64_t holder = 0;
  for (size_t i = 0; i < locks->found.count; i++) {
    const held_lock_t *lock = &locks->found.items[i];
    if (lock->semaphore != semaphore || lock->state == holder) continue;
    if (holder) return 0;
    holder = lock->state;
  }
  return holder;
}
