/* SPDX-License-Identifier: MIT
 *
 * Stacks of events with Python frames: as capture/python/python.h, in tens of nanoseconds.
 *
 * An event finds two ids and makes a third one of both:
 *
 *   1. the native stack, by the frame cache and the predictor (capture/stack.h);
 *   2. the *chain* of Python frames, by a cache of the thread's last chain
 *      (capture/python/python_chain.h). An event reads two words of each frame, from the innermost
 * to the outermost: its caller and its code object. A frame with the address that the frame inside
 *      it names belongs to the chain, so it is readable. Equal words of all frames, while no code
 *      object died, prove an equal chain. The frames of former chains stay in the cache, so a
 *      function that is called again is compared, too. Other frames are looked up
 *      (capture/python/python_codes.h). Equal chains have one id: their nodes are in the stack
 * table;
 *   3. a *merged* node of the stack table, which is the pair of them.
 *
 * A recording has the pairs. Its reader puts the frames of both in order: the innermost call of the
 * evaluator runs the frames of the chain to the first that ends a call, and so on outward. That is
 * exact if each call has frames and is known, so the shape of the native stack must have as many
 * calls as the chain (capture/python/python_shapes.h). Every other stack is left to
 * capture_with_python, which merges by address: the first stacks, calls that begin, and stacks with
 * a signal handler or with the frames of several interpreters.
 *
 * In 3.11 a byte of each frame says whether it ends a call. An event reads it only in the frames
 * that the cache says do. If all still do, and are as many as the calls of the native stack, no
 * other frame does. A new pair is added after the bytes of all frames are compared.
 *
 * Of frequent events only the innermost Python frame has a line, unless the user wants more: the
 * instructions of the others change with each call and each of them would make new chains. Rare
 * events (stack_id_of_rare_event) have a cache of their own, with all lines: there the second word
 * of a frame is its instruction.
 *
 * The events are calls, so the chain contradicts itself nowhere: the evaluator calls nothing while
 * it links a frame. Under a handler it may; such native stacks have no shape. The chain is followed
 * only if its anchor is in the innermost call of the native stack (capture/python/python_places.h).
 * The thread's state is the value of the interpreter's thread key. It may be freed by another
 * thread only when the interpreter ends, which _PyRuntime says; then capture_with_python is called.
 *
 * Cost: a known stack reads one or two cache lines of each Python frame, 16 bytes of what is
 * remembered of it, and a few lines of tables: 110 instructions, 6 for each Python frame and 5 for
 * each call of the evaluator. Programs without Python pay nothing: events call through a pointer
 * that they have not changed.
 *
 * Memory of a thread: 81 KB, and 56 bytes for each Python frame of its deepest stack, at most
 * 1,024; once more if it has events of both kinds.
 *
 * Threads: a chain is its thread's, and used while the thread's state is busy
 * (capture/thread_state.h); the tables are shared and lock-free. Async-signal-safe.
 */
#ifndef SONDE_CAPTURE_PYTHON_EVENT_H
#define SONDE_CAPTURE_PYTHON_EVENT_H

#include "python/find.h"

/* Makes events have Python frames, for RUNTIME, whose layout is known; WITH_LINES of all frames.
 * python_codes_start has succeeded. */
void python_event_start(const python_runtime_t *runtime, bool with_lines);

#endif
