/* SPDX-License-Identifier: MIT
 *
 * Python frames of a target, merged into the native stacks of its threads.
 *
 * Reading (python_read) and placing (python_place) are two calls, because a running thread is
 * stopped only while its memory is read. Reading copies the chain of frames and the names of code
 * objects that are new. Placing puts the frames of each call of the evaluator before the native
 * frame of that call, which contains its anchor (python/chain.h), and folds that native frame and
 * the interpreter's frames outside of it.
 *
 * One thread uses a python_t at a time.
 */
#ifndef SONDE_TARGET_PYTHON_PYTHON_H
#define SONDE_TARGET_PYTHON_PYTHON_H

#include "python/find.h"
#include "python/frame_pc.h"
#include "target/walk.h"

typedef struct python python_t;

/* Finds the interpreter of TARGET. NULL: it has none, or memory runs out. */
python_t *python_open(target_t *target);
void python_close(python_t *python);

const python_runtime_t *python_runtime(const python_t *python);

/* The image of the interpreter. */
const module_t *python_module(const python_t *python);

/* The functions below need a runtime with a layout. */

/* Lists the threads that the interpreter knows. Call it before each capture. */
void python_list_threads(python_t *python);

/* Reads the Python frames of thread TID, at most DEPTH. */
void python_read(python_t *python, pid_t tid, uint32_t depth);

/* Merges the frames that were read last into WALK, the stack of the same thread at the same time.
 * Returns why Python frames are missing; NULL: none are. */
const char *python_place(const python_t *python, walk_t *walk);

/* The strings are valid until the target is closed. */
typedef struct python_name {
  const char *function, *file;
  /* 0: none */
  uint32_t line;
} python_name_t;

/* Names a frame with a pc of python_pc. False: its code object was not read. */
bool python_name(const python_t *python, uint64_t pc, python_name_t *out);

#endif
