/* SPDX-License-Identifier: MIT
 *
 * Decodes the events of streams ahead of a merge, in a thread of its own. So decoding and the
 * merge's caller each have a processor.
 *
 * One thread uses the functions below.
 */
#ifndef SONDE_READER_READ_AHEAD_H
#define SONDE_READER_READ_AHEAD_H

#include "reader/decode.h"

typedef struct read_ahead read_ahead_t;

/* Starts the thread. NULL: there is one processor, out of memory, or no thread can be started. */
read_ahead_t *read_ahead_start(void);

/* Ends the thread. Call it after all streams were removed. */
void read_ahead_stop(read_ahead_t *ahead);

/* A stream whose events the thread decodes. */
typedef struct ahead_stream ahead_stream_t;

/* Adds the stream of DECODER, which must stay valid until read_ahead_remove. NULL: there are
 * enough streams, or memory is short; the caller decodes this stream itself. */
ahead_stream_t *read_ahead_add(read_ahead_t *ahead, decoder_t *decoder);
void read_ahead_remove(read_ahead_t *ahead, ahead_stream_t *stream);

/* The next batch of STREAM; NULL at its end. If the thread has decoded none yet, the caller decodes
 * it here, or waits until the thread has. Without WAIT, NULL also means that the thread is decoding
 * one, or that the batches in use refer to all chunk buffers. */
event_batch_t *read_ahead_next(read_ahead_t *ahead, ahead_stream_t *stream, bool wait);

/* Gives back a batch of STREAM. The caller may have two of each stream: the one whose events it
 * consumes, and the next one; and one more while it replaces a batch. */
void read_ahead_release(read_ahead_t *ahead, ahead_stream_t *stream, event_batch_t *batch);

#endif
