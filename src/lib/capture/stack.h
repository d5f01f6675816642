/* SPDX-License-Identifier: MIT
 *
 * The calling thread's stack as one id, for sensors.
 *
 * A stack of up to 512 frames is kept completely. Of a deeper one the outermost 448 and the
 * innermost 64 frames are kept, with a marker between them, so that runaway recursion does not add
 * nodes without end. A stack whose end was not reached has a marker outermost. Markers are frames
 * without an image whose pc is one of STACK_PC_….
 *
 * Any thread may call these functions, in a signal handler, inside malloc and after fork.
 */
#ifndef SONDE_CAPTURE_STACK_H
#define SONDE_CAPTURE_STACK_H

#include "capture/stack_table.h"
#include "capture/capture.h"

#define STACK_OUTER 448
#define STACK_INNER 64

/* The walk ended here, before the thread's first frame. */
#define STACK_PC_BROKEN FRAME_TABLE_NO_PC
/* Frames were left out here. */
#define STACK_PC_TRUNCATED FRAME_TABLE_MARKERS

/* Gets the id of the stack that starts at PC, SP and FP, the registers of a function's caller.
 * Returns 0 or a negative SONDE_E…, as sonde_stack_id. */
int stack_id_here(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp);

/* Returns the id of the stack that starts at PC, SP and FP, the registers of a function's caller;
 * 0: none. stack_id_here stores the id instead, and its caller loads it again. */
typedef uint32_t stack_id_function_t(uint64_t pc, uint64_t sp, uint64_t fp);

/* What frequent events call: as stack_id_here, or in programs with Python a function that adds the
 * Python frames (capture/python/python_event.h). A call through a pointer costs other programs
 * nothing, a test would. */
extern HIDDEN stack_id_function_t *stack_id_of_event;

/* What rare events call: as stack_id_with_python, or a function that finds the same stack in tens
 * of nanoseconds. */
extern HIDDEN stack_id_function_t *stack_id_of_rare_event;

/* Returns the id of the DEPTH innermost frames of stack ID with the marker of a truncated stack, at
 * most STACK_INNER; ID if it has no more frames; 0 if the table is full. Costs two lookups a frame.
 */
uint32_t stack_id_innermost(uint32_t id, uint32_t depth);

/* As stack_id_here, with the Python frames of a Python program, which cost microseconds. */
int stack_id_with_python(uint32_t *id, uint64_t pc, uint64_t sp, uint64_t fp);

/* Gets the id of the stack that a signal interrupted, with its Python frames. */
int stack_id_of_context(uint32_t *id, const void *ucontext);

/* As sonde_stack_async with SONDE_ASYNC_FOLLOW, at any time. A stack that a thread has predicted
 * before keeps its id. */
void stack_follow_async(void);

/* How the process's stack ids treat async functions; monitors in the program do the same. */
sonde_async_t stack_async_mode(void);

/* Returns the id of a stack given as program counters, innermost first; 0 if there is none or the
 * table is full. EXACT: the innermost is, as in a stack of another thread. A stack that is not
 * COMPLETE gets the marker of a broken stack. */
uint32_t stack_id_of_pcs(const uintptr_t *pcs, int count, bool exact, bool complete);

#endif
