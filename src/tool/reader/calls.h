/* SPDX-License-Identifier: MIT
 *
 * The recorded calls of a recording (--trace), stream by stream. One thread uses a calls_t, and
 * closes it before its reader.
 */
#ifndef SONDE_READER_CALLS_H
#define SONDE_READER_CALLS_H

#include "hook/move.h"
#include "reader/reader.h"

typedef enum call_what {
  /* `frame` is called */
  CALL_ENTERED,
  /* the innermost call returned */
  CALL_ENDED,
  /* the innermost call ended without an exit: longjmp or an exception */
  CALL_UNWOUND,
  /* the innermost call ended at an unknown time: events were lost */
  CALL_DROPPED,
  /* a call of an unknown function is open */
  CALL_UNKNOWN,
  /* an exit without a recorded entry */
  CALL_STRAY,
} call_what_t;

/* A step of a stream. Steps are well nested: a step that ends a call follows one that began it. */
typedef struct call_step {
  call_what_t what;
  /* ticks, not shifted */
  uint64_t time;
  uint32_t frame;
} call_step_t;

typedef struct calls calls_t;

/* Opens the next stream that has calls. *PLACE is 0 for the first one and is advanced. NULL after
 * the last, or if memory runs out. */
calls_t *calls_open(reader_t *reader, size_t *place);
uint32_t calls_stream(const calls_t *calls);

/* Events that were lost so far, by the records that say so. */
uint64_t calls_lost(const calls_t *calls);

/* The next step; false at the end of the stream. Calls that are then open had not ended. */
bool calls_next(calls_t *calls, call_step_t *out);

/* After the end of the stream: its last time. */
uint64_t calls_last_time(const calls_t *calls);
void calls_close(calls_t *calls);

/* The size of the chunks that were read so far; of all streams' chunks of calls. */
uint64_t calls_read(const calls_t *calls);
uint64_t calls_bytes(const reader_t *reader);

/* Converts CLOCK, a time of call_step_t, to nanoseconds since the start of the recording; and the
 * nanoseconds of one unit. */
double reader_clock_ns(const reader_t *reader, uint64_t clock);
double reader_clock_rate(const reader_t *reader);

/* The overhead of tracing one call, in units of the clock: in all, and the part within the measured
 * call. Zeros if unknown. */
typedef struct call_cost {
  double pair, inside;
} call_cost_t;
call_cost_t reader_call_cost(const reader_t *reader);

/* The recording has no calls that took less than LEAST_NS or that were deeper than DEPTH; 0: no
 * limit. A call that is slightly shorter may be there nevertheless. */
typedef struct call_limits {
  uint64_t least_ns, depth;
} call_limits_t;
call_limits_t reader_call_limits(const reader_t *reader);

/* The number of functions that were patched at run time (MOVE_OK), or that could not be, by reason.
 */
uint64_t reader_patched(const reader_t *reader, move_fault_t reason);

#endif
