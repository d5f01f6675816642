/* SPDX-License-Identifier: MIT
 *
 * Which frame a position in a code object is, for captures that must not read the names again.
 *
 * CPython frees code objects, and another one may get the same memory, even with equal fields. So
 * the deallocator in PyCode_Type is replaced by one that counts the death and jumps to the
 * original. The count is kept for groups of addresses: a death makes the other code objects of its
 * group be read again, and nothing else.
 *
 * The table is a cache: an entry may be replaced by another one. Any thread may use it, in a signal
 * handler too. An entry has a sequence number, odd while it is written; a thread that meets a
 * change does as if the entry was not there, and nobody waits.
 *
 * The interpreter orders a death before all frames of the next code object at that address: by its
 * lock, which every thread takes before it runs Python code.
 *
 * An attached agent is unloaded again, so it puts a gate (agent/attached/gates.h) into the type,
 * and restores the type at its end.
 *
 * Cost: a look-up touches one line of the table and one of the counts.
 */
#ifndef SONDE_CAPTURE_PYTHON_CODES_H
#define SONDE_CAPTURE_PYTHON_CODES_H

#include "base/bits.h"

/* The frame of code that the interpreter inserted: not shown. */
#define PYTHON_FRAME_INSERTED 1u

/* Code objects that have died. */
extern HIDDEN uint64_t python_code_deaths;

/* In place of the deallocator. */
void python_codes_count_death(void *code);

/* Begins to count the deaths of code objects, whose type is at CODE_TYPE; DEALLOCATOR leads to
 * python_codes_count_death. False: nothing is remembered, and python_codes_find finds nothing.
 * After python_codes_stop, it forgets what it remembered. */
bool python_codes_start(uint64_t code_type, uint64_t deallocator);

/* Restores the type. Returns the interpreter's deallocator; 0: it was not replaced. A thread may
 * still enter python_codes_count_death. */
uint64_t python_codes_stop(void);

/* Changes with each death in the group of CODE. Read before the names are. */
uint32_t python_codes_generation(uint64_t code);

/* The id of the frame of INSTRUCTION in CODE (python/chain.h); 0: not known. */
uint32_t python_codes_find(uint64_t code, uint64_t instruction);

/* Remembers ID, whose names were read after GENERATION. */
void python_codes_store(uint64_t code, uint64_t instruction, uint32_t generation, uint32_t id);

#endif
