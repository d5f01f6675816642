/* SPDX-License-Identifier: MIT
 *
 * The parts of libsonde-attached.so, the agent that `sonde record -p` loads into a running program.
 *
 * It is built from the sources of the preloaded agent, with SONDE_ATTACHED. It differs in three
 * points. The loader does not know it, so it replaces functions in import slots only. It has no
 * thread-local storage (os/thread_slot.h). And it leaves the program again, so nothing that the
 * program may keep points into it: no thread-specific key, no start routine, and no function
 * address. Slots lead to gates (gates.h), which stay.
 *
 * The recorder samples, finds stalls and reads CPU time from outside. This agent has the sensors
 * that see calls: blocks, mappings, traces, audits and crashes.
 */
#ifndef SONDE_AGENT_ATTACHED_ATTACHED_H
#define SONDE_AGENT_ATTACHED_ATTACHED_H

#include "agent/attach_block.h"
#include "base/bits.h"

/* Makes the gates. Returns false if the program may not have new code. */
bool replaced_prepare(void);

/* Finds the real functions in the program's order of look-up. */
void replaced_find_real(void);

/* The gate to python_codes_count_death. */
uint64_t replaced_python_deallocator(void);

/* Hooks all of them: the mode may change later. Returns false if malloc or free cannot be hooked.
 */
bool replaced_install(void);

/* Closes the gates and restores every slot and the type of Python's code objects; but for the
 * unwinders'. */
void replaced_remove(void);

/* Does so for the unwinders', unless a traced call is in progress: an exception may pass its frame,
 * which only the agent knows. The agent then stays, and the next removal does it. */
void replaced_remove_unwinders(void);

/* The program's unwinders ask the loader for the image of a frame. These answer for the agent's
 * image, and pass on all other questions. */
void unwinders_find_real(void);

#endif
