/* SPDX-License-Identifier: MIT
 *
 * Stacks of frequent events with Python frames: as capture/python/python.h, in tens of nanoseconds.
 *
 * Three parts of a stack are found one after another, each as an id:
 *
 *   1. the native stack, by the frame cache and the predictor (capture/stack.h);
 *   2. the chain of Python frames, by a cache of the thread's last chain. An event reads three
 * words of each frame, from the innermost to the outermost: its caller, its instruction, and a word
 *      that tells where a call of the evaluator ends. A frame with the address that the frame
 *      inside it names belongs to the chain, so it is readable. Equal words of all frames, while no
 *      code object died, prove an equal chain. Frames further in than an equal frame are looked up
 *      by code object and instruction (capture/python/python_codes.h). Equal chains have one id,
 * the node of a tree like the stack table;
 *   3. the stack of both, in a table of pairs: native stack and chain.
 *
 * A new pair is merged by order: the innermost call of the evaluator in the native stack runs the
 * frames of the chain to the first that ends a call, and so on outward. That is exact if all calls
 * in the native stack have frames and are known. capture_with_python, which merges by address, has
 * met them: a return address into the evaluator at which it has linked a frame is always one at
 * which it has. A pc in the evaluator that is not known, or a different number of calls and of
 * their frames, leaves the stack to capture_with_python. Such are the first stacks, calls that
 * begin, and stacks with the frames of several interpreters. So does a signal handler in the stack.
 * The thread remembers the parts of its last merged stacks, so a new stack costs its new frames.
 *
 * The events are calls, so the chain contradicts itself nowhere: the evaluator calls nothing while
 * it links a frame. Under a handler it may; such native stacks are recognized by an exact pc. The
 * thread's state is the value of the interpreter's thread key. It may be freed by another thread
 * only when the interpreter ends, which _PyRuntime says; then, and in programs with several
 * interpreters, capture_with_python is called.
 *
 * Cost of a known stack, besides its native part, in instructions of x86_64 counted by callgrind
 * for CPython 3.11: 160, of which 17 are pthread_getspecific's, and 19 for each Python frame: 20 ns
 * with 3 frames, 35 with 13, 48 with 23. Cache lines: one of the runtime, two of the thread's
 * state, one or two of each Python frame, two for three links, one of the known native stacks, one
 * of the pairs. One branch is mispredicted if the depth changed. No atomic instruction, no system
 * call. A new stack takes 1 to 3 us, most of it cache misses of the tables. Programs without Python
 * pay nothing: events call through a pointer that they have not changed.
 *
 * Memory: 40 bytes of a thread for each Python frame of its deepest stack, at most 1,024.
 *
 * Threads: a chain is its thread's, and used while the thread's state is busy
 * (capture/thread_state.h); the tables are shared and lock-free. Async-signal-safe.
 */
#ifndef SONDE_CAPTURE_PYTHON_EVENT_H
#define SONDE_CAPTURE_PYTHON_EVENT_H

#include "python/find.h"

/* Makes events have Python frames, for RUNTIME, whose layout is known. python_codes_start has
 * succeeded. */
void python_event_start(const python_runtime_t *runtime);

/* Notes that the native frame FRAME is of the evaluator, at a place where its frame is linked. */
void python_event_know_call(uint32_t frame);

#endif
