/* SPDX-License-Identifier: MIT
 *
 * The calls of a recording: its chunks of calls, decoded, stream by stream.
 */
#ifndef SONDE_READER_CALLS_H
#define SONDE_READER_CALLS_H

#include "reader/reader.h"

typedef enum call_what {
  CALL_ENTERED, /* `frame` is called */
  CALL_ENDED,   /* the innermost call has ended */
  CALL_LEFT,    /* so has the innermost one, but without an exit: longjmp, an exception */
  CALL_DROPPED, /* the innermost one was forgotten: when it ended is not known */
  CALL_UNKNOWN, /* a call is open of which nothing is known */
  CALL_STRAY,   /* an exit of a call whose enter was not recorded */
} call_what_t;

/* A step of a stream. Steps are well nested: there is always an innermost call to end. */
typedef struct call_step {
  call_what_t what;
  uint64_t time; /* the clock, not shifted */
  uint32_t frame;
} call_step_t;

typedef struct calls calls_t;

/* The next stream that has calls; *PLACE, at first 0, is where to go on after it. NULL beyond the
 * last, or without memory. */
calls_t *calls_open(reader_t *reader, size_t *place);
uint32_t calls_stream(const calls_t *calls);
uint64_t calls_lost(const calls_t *calls); /* events that are said to be missing, so far */

/* The next step; false at the end of the stream, when the calls still open had not ended. */
bool calls_next(calls_t *calls, call_step_t *out);

/* The last time of the stream, once it has ended. */
uint64_t calls_last_time(const calls_t *calls);
void calls_close(calls_t *calls);

/* Bytes of chunks of calls in the recording. */
uint64_t calls_bytes(const reader_t *reader);

/* Nanoseconds since the start of the recording of CLOCK, as of call_step_t, and nanoseconds a unit
 * of it. */
double reader_clock_ns(const reader_t *reader, uint64_t clock);
double reader_clock_rate(const reader_t *reader);

/* What tracing one call adds, in units of the clock: in all, and as seen within the call. Zeros
 * where the recording does not tell. */
typedef struct call_cost {
  double pair, inside;
} call_cost_t;
call_cost_t reader_call_cost(const reader_t *reader);

#endif
