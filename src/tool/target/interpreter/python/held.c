/* SPDX-License-Identifier: MIT */
#include "target/interpreter/python/held.h"

#include <string.h>

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

/* How many values are on the stack in the block around POSITION, in bytes of bytecode; 0: there is
 * no block. */
static uint32_t values_at(const uint8_t *table, size_t size, uint32_t position) {
  const uint8_t *at = table, *end = table + size;
  uint32_t start, length, target, depth;
  while (read_number(&at, end, &start) && read_number(&at, end, &length) &&
         read_number(&at, end, &target) && read_number(&at, end, &depth))
    if (position / 2 >= start && position / 2 - start < length) return depth >> 1;
  return 0;
}

static uint32_t values_of(const python_chain_t *chain) {
  uint8_t table[TABLE_MAX];
  uint64_t object, data, size;
  uint32_t position;
  memory_t *memory = chain->memory;
  if (!python_position(chain->layout, chain->code, chain->instruction, &position) ||
      position == PYTHON_NOT_BEGUN ||
      !memory->read(memory, chain->code + chain->layout->code_exceptions, &object, sizeof object) ||
      !python_bytes(memory, object, &data, &size) || !size || size > sizeof table ||
      !memory->read(memory, data, table, (size_t)size))
    return 0;
  return values_at(table, (size_t)size, position);
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
  if ((lock = ARRAY_ADD(*locks))) *lock = (held_lock_t){semaphore, state};
}

static void add_frame(held_locks_t *locks, const python_chain_t *chain, uint64_t state) {
  uint64_t values[VALUES_MAX];
  uint32_t variables, count = values_of(chain);
  memory_t *memory = chain->memory;
  const python_layout_t *l = chain->layout;
  if (!count || count > VALUES_MAX ||
      !memory->read(memory, chain->code + l->code_variables, &variables, sizeof variables) ||
      !memory->read(memory, chain->address + l->frame_values + 8 * (uint64_t)variables, values,
                    count * sizeof *values))
    return;
  for (uint32_t i = 0; i < count; i++)
    add_value(locks, memory, state, values[i]);
}

static bool is_condition_wait(const python_chain_t *chain) {
  static const char wait[] = "Condition.wait";
  char name[sizeof wait + 1];
  python_code_t code;
  return python_code_read(chain->layout, chain->memory, chain->code, &code) &&
         python_text(chain->layout, chain->memory, code.name, name, sizeof name) ==
             sizeof wait - 1 &&
         !strcmp(name, wait);
}

void held_locks_add(held_locks_t *locks, const python_layout_t *layout, memory_t *memory,
                    uint64_t state) {
  python_chain_t chain;
  python_step_t step;
  if (layout->frame_values == PYTHON_NO_FIELD || !python_chain_start(&chain, layout, memory, state))
    return;
  while ((step = python_chain_next(&chain)) < PYTHON_END) {
    if (step != PYTHON_FRAME) continue;
    if (is_condition_wait(&chain)) return;
    add_frame(locks, &chain, state);
  }
}

uint64_t held_locks_holder(const held_locks_t *locks, uint64_t semaphore) {
  uint64_t holder = 0;
  for (size_t i = 0; i < locks->count; i++) {
    const held_lock_t *lock = &locks->items[i];
    if (lock->semaphore != semaphore || lock->state == holder) continue;
    if (holder) return 0;
    holder = lock->state;
  }
  return holder;
}
