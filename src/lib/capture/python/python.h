/* SPDX-License-Identifier: MIT
 *
 * Stacks of the calling thread with its Python frames: in signal handlers, and for events that are
 * rare. Sensors of frequent events (--malloc=all) use capture/python/python_event.h.
 *
 * The thread itself is interrupted or calls, so its frames do not change meanwhile. The chain of
 * frames is read from its thread state without a call into the interpreter and without a lock.
 * Every page is verified once in a capture before it is read, as for stacks
 * (capture/stack_window.h). The names and the line of a frame are read once
 * (capture/python/python_codes.h).
 *
 * The evaluator of 3.11 and 3.12 links its frame in several steps. A signal between them leaves a
 * chain that contradicts itself, or an evaluator that is entered. Then a frame named
 * python_missing_name stands for the Python frames.
 *
 * Cost: programs without Python test one word. Else a capture of functions that were met before
 * takes the walk, ten system calls that verify pages, and 40 ns for each Python frame: together 1.7
 * to 3.4 us for 3 to 40 Python frames. A new function and line takes the copy of two texts and four
 * or five verified pages, 2 us. A capture uses no more than 2 KB of the handler's stack.
 */
#ifndef SONDE_CAPTURE_PYTHON_H
#define SONDE_CAPTURE_PYTHON_H

#include "base/bits.h"

#define PYTHON_MISSING_NAME "[missing Python functions]"

/* Set by capture_python_start if the program has an interpreter. */
extern HIDDEN bool capture_has_python;

/* Looks for an interpreter in the loaded images. Called before the first capture. Of the frames of
 * frequent events only the innermost has a line, unless ALL_LINES. DEALLOCATOR: see
 * python_codes_start. */
void capture_python_start(bool all_lines, uint64_t deallocator);

/* In place of an instruction: the frame of the function, without a line. */
#define PYTHON_WHOLE_FUNCTION (UINT64_MAX - 1)

/* Where a capture starts: at the registers of UCONTEXT, or if it is NULL at the registers of a
 * function's caller. */
typedef struct python_origin {
  const void *ucontext;
  uint64_t pc, sp, fp;
  /* a frequent event: the lines of further frames depend on capture_python_start */
  bool is_event;
} python_origin_t;

/* Sets *ID to the id of the stack at ORIGIN, 0 if the tables are full. False: it
 * has no Python frames, or is not complete; then the caller captures the native frames. */
bool capture_with_python(uint32_t *id, const python_origin_t *origin);

/* The id of the frame of INSTRUCTION in CODE (python/chain.h), PYTHON_FRAME_INSERTED for one that
 * is not shown, FRAME_TABLE_FULL if the tables are full; 0: it is no code object. */
uint32_t capture_python_frame(uint64_t code, uint64_t instruction);

#endif
