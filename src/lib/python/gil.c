/* SPDX-License-Identifier: MIT */
#include "python/gil.h"

#include "base/load.h"
#include <string.h>

/* Offsets in struct _gil_runtime_state. The mutexes and condition variables are from GIL_CONDITION
 * to the end. */
enum {
  GIL_HOLDER = 8,
  GIL_LOCKED = 16,
  GIL_SWITCHES = 24,
  GIL_CONDITION = 32,
  GIL_MUTEX = 80,
  GIL_BYTES = 208
};
enum { ATTEMPTS = 4 };

uint64_t python_gil_of(const python_runtime_t *runtime, memory_t *memory, uint64_t state) {
  const python_layout_t *l = runtime->layout;
  uint64_t interpreter, gil;
  if (l->runtime_gil != PYTHON_NO_FIELD) return runtime->address + l->runtime_gil;
  return memory->read(memory, state + PYTHON_STATE_INTERPRETER, &interpreter, sizeof interpreter) &&
                 memory->read(memory, interpreter + l->interpreter_gil, &gil, sizeof gil)
             ? gil
             : 0;
}

/* The first two words of a mutex: one of them has the lock in each C library. */
static bool is_free(const uint8_t *gil) { return load64(gil + GIL_MUTEX) == 0; }

/* The state that the holder notes; 0: none, or this version has no place for it. */
static uint64_t noted_holder(const python_runtime_t *runtime, memory_t *memory) {
  uint64_t holder, place = runtime->layout->runtime_current;
  return place != PYTHON_NO_FIELD &&
                 memory->read(memory, runtime->address + place, &holder, sizeof holder)
             ? holder
             : 0;
}

bool python_gil_read(const python_runtime_t *runtime, memory_t *memory, uint64_t address,
                     python_gil_t *out) {
  uint8_t now[GIL_MUTEX + 8], again[sizeof now];
  for (int i = 0; i < ATTEMPTS; i++) {
    if (!memory->read(memory, address, now, sizeof now)) return false;
    uint64_t noted = noted_holder(runtime, memory);
    if (!memory->read(memory, address, again, sizeof again)) return false;
    if (memcmp(now, again, GIL_CONDITION) != 0) continue;
    if (!noted && (!is_free(now) || !is_free(again))) continue;
    bool is_locked = load32(now + GIL_LOCKED) == 1;
    *out = (python_gil_t){.holder = noted       ? noted
                                    : is_locked ? load64(now + GIL_HOLDER)
                                                : 0,
                          .switches = load64(now + GIL_SWITCHES)};
    return true;
  }
  return false;
}

bool python_gil_is_at(uint64_t address, uint64_t futex) {
  return futex - address >= GIL_CONDITION && futex - address < GIL_BYTES;
}
