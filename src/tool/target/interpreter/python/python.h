/* SPDX-License-Identifier: MIT
 *
 * What only CPython has: its global lock, and the holders of the locks of its programs. The
 * functions return false for other interpreters, and for versions that sonde does not know.
 */
#ifndef SONDE_TARGET_INTERPRETER_PYTHON_PYTHON_H
#define SONDE_TARGET_INTERPRETER_PYTHON_PYTHON_H

#include "target/interpreter/interpreter.h"

/* Whether the thread that was read last holds the global lock. */
bool python_holds_lock(const interpreter_t *self);

/* A global lock that a thread waits for. */
typedef struct python_lock {
  uint64_t address;
  /* the thread that holds it; 0: unknown */
  pid_t holder;
  /* how often the lock changed its thread */
  uint64_t switches;
} python_lock_t;

/* Finds the global lock behind FUTEX. False: it is none. */
bool python_lock_at(interpreter_t *self, uint64_t futex, python_lock_t *out);

/* The thread that holds the lock of Python's module threading behind FUTEX, in a `with` block; 0:
 * unknown, or it is none. AGAIN: reads the memory again, even if it was read just now. */
pid_t python_holder_of(interpreter_t *self, uint64_t futex, bool again);

#endif
