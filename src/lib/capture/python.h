/* SPDX-License-Identifier: MIT
 *
 * Stacks of the calling thread with its Python frames: in signal handlers, and for events that are
 * rare. Sensors of frequent events (--malloc=all) record native frames only.
 *
 * The thread itself is interrupted or calls, so its frames do not change meanwhile. The chain of
 * frames is read from its thread state without a call into the interpreter and without a lock.
 * Every page is verified once in a capture before it is read, as for stacks
 * (capture/stack_window.h). The names and the line of each frame are read anew: a code object may
 * have been freed and its memory used for another one.
 *
 * The evaluator of 3.11 and 3.12 links its frame in several steps. A signal between them leaves a
 * chain that contradicts itself, or an evaluator that is entered. Then a frame named
 * python_missing_name stands for the Python frames.
 *
 * Cost: programs without Python test one word. Else a capture takes the walk, about 2 us per Python
 * frame: the verification of four or five pages, one system call each, and the copy of two texts. A
 * capture uses no more than 2 KB of the handler's stack.
 */
#ifndef SONDE_CAPTURE_PYTHON_H
#define SONDE_CAPTURE_PYTHON_H

#include "base/bits.h"

#define PYTHON_MISSING_NAME "[missing Python functions]"

/* Set by capture_python_start if the program has an interpreter. */
extern HIDDEN bool capture_has_python;

/* Looks for an interpreter in the loaded images. Called once, before the first capture. */
void capture_python_start(void);

/* Where a capture starts: at the registers of UCONTEXT, or if it is NULL at the registers of a
 * function's caller. */
typedef struct python_origin {
  const void *ucontext;
  uint64_t pc, sp, fp;
} python_origin_t;

/* Sets *ID to the id of the stack at ORIGIN, 0 if the tables are full. False: it
 * has no Python frames, or is not complete; then the caller captures the native frames. */
bool capture_with_python(uint32_t *id, const python_origin_t *origin);

#endif
