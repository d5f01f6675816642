/* SPDX-License-Identifier: MIT
 *
 * The Python frames of one thread, from its PyThreadState.
 *
 * A frame is a code object and a position in its bytecode. One call of the interpreter's evaluator
 * (_PyEval_EvalFrameDefault) runs one frame or several. From 3.10 on it has a local variable that
 * is linked into the thread state: a CFrame, or from 3.12 on the outermost frame. The address of
 * this variable, the *anchor*, is within the native frame of the evaluator, so it tells which
 * native frame ran which Python frames. 3.8 and 3.9 have no anchor: each call runs one frame.
 *
 * The walk reads through a memory_t, so it serves this process, another one and a core file. It
 * trusts nothing: every read may fail, and the number of steps is bounded. It does not check code
 * objects; the caller does. A thread that runs while it is read can have a chain that never was.
 *
 * Cost: a read per frame and one or two per call of the evaluator. Async-signal-safe if the
 * memory_t is.
 */
#ifndef SONDE_PYTHON_CHAIN_H
#define SONDE_PYTHON_CHAIN_H

#include "python/layout.h"
#include "unwind/memory.h"

/* A longer chain is a damaged one: sys.setrecursionlimit rarely allows a tenth. */
#define PYTHON_STEPS_MAX 200000u

typedef enum python_step {
  /* `code` and `instruction` are a frame */
  PYTHON_FRAME,
  /* `anchor` ends the frames of one call of the evaluator; 0: this version has none. A call that
   * has not linked its frame yet has no frames. */
  PYTHON_CALL,
  PYTHON_END,
  /* a read failed or the chain contradicts itself; all steps so far are valid */
  PYTHON_DAMAGED,
} python_step_t;

typedef struct python_chain {
  const python_layout_t *layout;
  memory_t *memory;
  /* the result of the last step */
  uint64_t code, instruction, anchor;
  /* of the frame */
  uint64_t address;
  /* private */
  uint64_t state, frame, cframe, steps;
  bool ends_call;
} python_chain_t;

/* Begins at the innermost frame of the thread with the PyThreadState at STATE. False: unreadable.
 */
bool python_chain_start(python_chain_t *chain, const python_layout_t *layout, memory_t *memory,
                        uint64_t state);

/* Begins a started chain of 3.11 or 3.12 again, at the call of the evaluator whose CFrame is at
 * CFRAME. False: unreadable. */
bool python_chain_start_at(python_chain_t *chain, uint64_t cframe);

/* Makes one step outward. */
python_step_t python_chain_next(python_chain_t *chain);

#endif
