/* SPDX-License-Identifier: MIT
 *
 * The locks of Python's module `threading` that a thread holds in `with` blocks.
 *
 * A Lock or RLock of CPython 3.11 or 3.12 is a semaphore, which does not know its holder. But a
 * `with` block keeps the lock's bound method `__exit__` on the frame's stack of values. The
 * exception table of the code object says how many values are on that stack at least, at each
 * position: it covers the block, and not the instruction that takes the lock. So these values are
 * exact while the thread does not run.
 *
 * Facts: CPython, Objects/exception_handling_notes.txt and Modules/_threadmodule.c. A lock that
 * `acquire` took has no block, so its holder is unknown. The same is true outside of
 * Condition.wait, which releases the lock of the block around it. From 3.13 on locks are no
 * semaphores.
 */
#ifndef SONDE_TARGET_INTERPRETER_PYTHON_HELD_H
#define SONDE_TARGET_INTERPRETER_PYTHON_HELD_H

#include "base/array.h"
#include "python/layout.h"
#include "unwind/memory.h"

typedef struct held_lock {
  /* the address of its semaphore, which is the futex that others wait for */
  uint64_t semaphore;
  /* the PyThreadState of its holder */
  uint64_t state;
} held_lock_t;

/* What the search needs of a code object. */
typedef struct held_code {
  /* 0: the place is empty */
  uint64_t address;
  bool is_condition_wait;
  /* the count of variables; bytes of the exception table, and where they are */
  uint32_t variables;
  uint64_t size, table;
} held_code_t;

enum { HELD_CODES = 256 };

/* The locks that threads hold, and code objects that were read for them. All zero: none. */
typedef struct held_locks {
  ARRAY(held_lock_t) found;
  held_code_t codes[HELD_CODES];
} held_locks_t;

/* Forgets all locks, and the code objects, which may end when the program runs. */
void held_locks_clear(held_locks_t *locks);
void held_locks_free(held_locks_t *locks);

/* Adds the locks that the thread of STATE holds. Does nothing for versions that have no layout.
 * Costs one read per frame, and a few more for a code object that is new and in a block. */
void held_locks_add(held_locks_t *locks, const python_layout_t *layout, memory_t *memory,
                    uint64_t state);

/* How many values are on the stack in the block around POSITION, in bytes of bytecode, as the
 * exception table says; 0: there is no block. */
uint32_t held_values_at(const uint8_t *table, size_t size, uint32_t position);

/* The state that holds the lock with SEMAPHORE; 0: none, or several seem to. */
uint64_t held_locks_holder(const held_locks_t *locks, uint64_t semaphore);

#endif
