/* SPDX-License-Identifier: MIT
 *
 * The thread fills batches, which all streams share, for the stream with the fewest decoded ones.
 * All fields are guarded by one lock, which is taken three times a batch.
 *
 * The batch that was given back first is filled first. The other processor has just read the newest
 * ones, and to write to its cache lines would cost a transfer of each: 8 ns an event
 * of 64 bytes (AMD EPYC).
 *
 * The thread does not wait for the caller to give back a batch: it sleeps NAP_NS and looks again,
 * later after longer times. A wake-up would cost the caller a system call. If the thread
 * sleeps for too long, the caller decodes.
 */
#define _GNU_SOURCE
#include "reader/read_ahead.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define STREAMS 16
/* Decoded batches of a stream, at most: 0.6 MB. They are allocated when they are needed. */
#define STREAM_BATCHES 64
/* Batches that the thread leaves to the caller. */
#define CALLERS      (2 * STREAMS + 1)
#define NAP_NS       50000
#define NAP_MOST_NS  3200000
#define WAIT_STEP_NS 5000

struct ahead_stream {
  /* NULL: not in use */
  decoder_t *decoder;
  /* decoded batches */
  event_batch_t *oldest, *newest;
  uint32_t ready;
  /* batches with events of each of the decoder's buffers */
  uint32_t used[DECODER_BUFFERS];
  /* a batch is being filled; the next one needs a buffer; all events are decoded */
  bool is_busy, needs_buffer, has_ended;
};

struct read_ahead {
  pthread_t thread;
  pthread_mutex_t lock;
  bool stop;
  /* in the order in which they were given back */
  event_batch_t *free, *free_newest;
  size_t free_count;
  ahead_stream_t streams[STREAMS];
};

/* ---- batches ------------------------------------------------------------------------------ */

static event_batch_t *take_free(read_ahead_t *a) {
  event_batch_t *batch = a->free;
  if (!batch) return NULL;
  a->free = batch->next;
  a->free_count--;
  return batch;
}

static void give_back(read_ahead_t *a, event_batch_t *batch) {
  batch->next = NULL;
  *(a->free ? &a->free_newest->next : &a->free) = batch;
  a->free_newest = batch;
  a->free_count++;
}

static void append(ahead_stream_t *s, event_batch_t *batch) {
  batch->next = NULL;
  *(s->oldest ? &s->newest->next : &s->oldest) = batch;
  s->newest = batch;
  s->ready++;
}

static event_batch_t *take_oldest(ahead_stream_t *s) {
  event_batch_t *batch = s->oldest;
  s->oldest = batch->next;
  s->ready--;
  return batch;
}

/* A buffer of the decoder to which no batch refers, or -1. */
static int free_buffer(const ahead_stream_t *s) {
  for (int i = 0; i < DECODER_BUFFERS; i++)
    if (!s->used[i]) return i;
  return -1;
}

/* Decodes a batch of S into BATCH, without the lock. Then it is in use, or free again. */
static bool fill(read_ahead_t *a, ahead_stream_t *s, event_batch_t *batch) {
  int buffer = free_buffer(s);
  s->is_busy = true;
  pthread_mutex_unlock(&a->lock);
  decode_status_t status = decoder_fill(s->decoder, batch, buffer);
  pthread_mutex_lock(&a->lock);
  s->is_busy = false;
  s->needs_buffer = status == DECODE_NO_BUFFER;
  s->has_ended |= status == DECODE_END;
  if (status == DECODE_EVENTS)
    s->used[batch->buffer]++;
  else
    give_back(a, batch);
  return status == DECODE_EVENTS;
}

static bool can_fill(const ahead_stream_t *s) {
  return s->decoder && !s->has_ended && !s->is_busy && !(s->needs_buffer && free_buffer(s) < 0);
}

/* ---- the thread --------------------------------------------------------------------------- */

/* The stream with the fewest decoded batches, of those that can be decoded; NULL: none. */
static ahead_stream_t *neediest(read_ahead_t *a) {
  ahead_stream_t *best = NULL;
  for (size_t i = 0; i < STREAMS; i++) {
    ahead_stream_t *s = &a->streams[i];
    if (can_fill(s) && s->ready < STREAM_BATCHES && (!best || s->ready < best->ready)) best = s;
  }
  return best;
}

/* Sleeps without the lock. */
static void nap(read_ahead_t *a, long ns) {
  const struct timespec time = {0, ns};
  pthread_mutex_unlock(&a->lock);
  (void)nanosleep(&time, NULL);
  pthread_mutex_lock(&a->lock);
}

static void *run(void *context) {
  read_ahead_t *a = context;
  long time = NAP_NS;
  pthread_mutex_lock(&a->lock);
  while (!a->stop) {
    ahead_stream_t *s = neediest(a);
    event_batch_t *batch = NULL;
    if (s) batch = a->free_count > CALLERS ? take_free(a) : malloc(sizeof *batch);
    if (batch) {
      time = NAP_NS;
      if (fill(a, s, batch)) append(s, batch);
    } else {
      nap(a, time);
      if (time < NAP_MOST_NS) time *= 2;
    }
  }
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

/* ---- the caller --------------------------------------------------------------------------- */

static bool has_processors(void) {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set) > 1;
#endif
  return sysconf(_SC_NPROCESSORS_ONLN) > 1;
}

static void free_all(read_ahead_t *a) {
  for (event_batch_t *batch; (batch = take_free(a));)
    free(batch);
  pthread_mutex_destroy(&a->lock);
  free(a);
}

read_ahead_t *read_ahead_start(void) {
  read_ahead_t *a = has_processors() ? calloc(1, sizeof *a) : NULL;
  if (!a) return NULL;
  pthread_mutex_init(&a->lock, NULL);
  bool good = true;
  for (int i = 0; good && i < CALLERS; i++) {
    event_batch_t *batch = malloc(sizeof *batch);
    good = batch != NULL;
    if (good) give_back(a, batch);
  }
  if (good && pthread_create(&a->thread, NULL, run, a) == 0) return a;
  free_all(a);
  return NULL;
}

void read_ahead_stop(read_ahead_t *a) {
  if (!a) return;
  pthread_mutex_lock(&a->lock);
  a->stop = true;
  pthread_mutex_unlock(&a->lock);
  pthread_join(a->thread, NULL);
  free_all(a);
}

ahead_stream_t *read_ahead_add(read_ahead_t *a, decoder_t *decoder) {
  ahead_stream_t *s = NULL;
  pthread_mutex_lock(&a->lock);
  for (size_t i = 0; i < STREAMS && !s; i++)
    if (!a->streams[i].decoder) s = &a->streams[i];
  if (s) *s = (ahead_stream_t){.decoder = decoder};
  pthread_mutex_unlock(&a->lock);
  return s;
}

void read_ahead_remove(read_ahead_t *a, ahead_stream_t *s) {
  pthread_mutex_lock(&a->lock);
  s->has_ended = true;
  while (s->is_busy)
    nap(a, WAIT_STEP_NS);
  while (s->oldest)
    give_back(a, take_oldest(s));
  s->decoder = NULL;
  pthread_mutex_unlock(&a->lock);
}

event_batch_t *read_ahead_next(read_ahead_t *a, ahead_stream_t *s, bool wait) {
  event_batch_t *batch = NULL;
  pthread_mutex_lock(&a->lock);
  while (wait && s->is_busy && !s->oldest)
    nap(a, WAIT_STEP_NS);
  if (s->oldest)
    batch = take_oldest(s);
  else if (can_fill(s) && (batch = take_free(a)) && !fill(a, s, batch))
    batch = NULL;
  pthread_mutex_unlock(&a->lock);
  return batch;
}

void read_ahead_release(read_ahead_t *a, ahead_stream_t *s, event_batch_t *batch) {
  pthread_mutex_lock(&a->lock);
  s->used[batch->buffer]--;
  give_back(a, batch);
  pthread_mutex_unlock(&a->lock);
}
