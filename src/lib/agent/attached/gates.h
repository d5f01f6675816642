/* SPDX-License-Identifier: MIT
 *
 * Gates: the code that hooked slots lead to while an agent is attached.
 *
 * A program may copy a function's address from a slot and keep it. So slots do not hold addresses
 * of the agent, which is unmapped at its end. A slot holds the address of a gate, a jump through a
 * word. The word leads to the agent, and after the agent has left, to the program's function. The
 * gates of a process are one mapping, which stays until the process ends. A later agent finds it
 * and uses it again.
 */
#ifndef SONDE_AGENT_ATTACHED_GATES_H
#define SONDE_AGENT_ATTACHED_GATES_H

#include <stdbool.h>
#include <stdint.h>

#define GATES_MAX  240u
#define GATE_BYTES 16u

/* Finds or makes the gates; SIGNATURE identifies the functions and their order. Returns false if
 * the program may not have new code. */
bool gates_prepare(uint64_t signature);

/* The address of gate NUMBER. */
void *gate_address(uint32_t number);

/* Makes gate NUMBER lead to FUNCTION. */
void gate_lead(uint32_t number, uint64_t function);

/* gate_code.c: writes a jump through the word at WORD to CODE, which will be at AT. */
void gate_write(uint8_t code[GATE_BYTES], uint64_t at, uint64_t word);

#endif
