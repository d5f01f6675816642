/* SPDX-License-Identifier: MIT
 *
 * The thread fills batches, which all streams share, for the stream with the fewest decoded ones.
 * All fields are guarded by one lock, which is taken three times a batch: 0.3 ns an event.
 *
 * The batch that was given back first is filled first. The other processor has just read the newest
 * ones, and to write to its cache lines would cost a transfer of each: 13 ns an event.
 *
 * The thread never waits for the caller to give back a batch: it sleeps NAP_NS and looks again. By
 * that time the caller has consumed a small part of the batches. A wake-up would cost the caller
 * several microseconds.
 */
#define _GNU_SOURCE
#include "reader/read_ahead.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* The batches take 1.8 MB: more than a second-level cache, less than the last one. */
#define BATCHES 192
#define STREAMS 16
/* Batches that the thread leaves to the caller. */
#define CALLERS     (2 * STREAMS + 1)
#define NAP_NS      50000
#define STACK_BYTES (256u << 10)

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
  /* for the thread: a stream was added, or `stop`; for the caller: a batch was filled */
  pthread_cond_t work, filled;
  bool stop, caller_waits;
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
  s->has_ended = status == DECODE_END;
  if (status == DECODE_EVENTS)
    s->used[batch->buffer]++;
  else
    give_back(a, batch);
  return status == DECODE_EVENTS;
}

/* ---- the thread --------------------------------------------------------------------------- */

/* The stream with the fewest decoded batches, of those that can be decoded; NULL: none. */
static ahead_stream_t *neediest(read_ahead_t *a, bool *has_any) {
  ahead_stream_t *best = NULL;
  *has_any = false;
  for (size_t i = 0; i < STREAMS; i++) {
    ahead_stream_t *s = &a->streams[i];
    if (!s->decoder || s->has_ended) continue;
    *has_any = true;
    if (s->is_busy || (s->needs_buffer && free_buffer(s) < 0)) continue;
    if (!best || s->ready < best->ready) best = s;
  }
  return best;
}

static void nap(read_ahead_t *a) {
  const struct timespec time = {0, NAP_NS};
  pthread_mutex_unlock(&a->lock);
  (void)nanosleep(&time, NULL);
  pthread_mutex_lock(&a->lock);
}

static void *run(void *context) {
  read_ahead_t *a = context;
  bool has_any;
  pthread_mutex_lock(&a->lock);
  while (!a->stop) {
    ahead_stream_t *s = neediest(a, &has_any);
    event_batch_t *batch = s && a->free_count > CALLERS ? take_free(a) : NULL;
    if (batch) {
      if (fill(a, s, batch)) append(s, batch);
      if (a->caller_waits) pthread_cond_signal(&a->filled);
    } else if (has_any) {
      nap(a);
    } else {
      pthread_cond_wait(&a->work, &a->lock);
    }
  }
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

/* Signals are the caller's. */
static bool start_thread(read_ahead_t *a) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (pthread_attr_init(&attributes) != 0) return false;
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&a->thread, &attributes, run, a) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return started;
}

/* ---- the caller --------------------------------------------------------------------------- */

static void free_all(read_ahead_t *a) {
  for (event_batch_t *batch; (batch = take_free(a));)
    free(batch);
  pthread_mutex_destroy(&a->lock);
  pthread_cond_destroy(&a->work);
  pthread_cond_destroy(&a->filled);
  free(a);
}

read_ahead_t *read_ahead_start(void) {
  read_ahead_t *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->work, NULL);
  pthread_cond_init(&a->filled, NULL);
  bool good = true;
  for (int i = 0; good && i < BATCHES; i++) {
    event_batch_t *batch = batch_new();
    good = batch != NULL;
    if (good) give_back(a, batch);
  }
  if (good && start_thread(a)) return a;
  free_all(a);
  return NULL;
}

void read_ahead_stop(read_ahead_t *a) {
  if (!a) return;
  pthread_mutex_lock(&a->lock);
  a->stop = true;
  pthread_cond_signal(&a->work);
  pthread_mutex_unlock(&a->lock);
  pthread_join(a->thread, NULL);
  free_all(a);
}

ahead_stream_t *read_ahead_add(read_ahead_t *a, decoder_t *decoder) {
  ahead_stream_t *s = NULL;
  pthread_mutex_lock(&a->lock);
  for (size_t i = 0; i < STREAMS && !s; i++)
    if (!a->streams[i].decoder) s = &a->streams[i];
  if (s) {
    *s = (ahead_stream_t){.decoder = decoder};
    pthread_cond_signal(&a->work);
  }
  pthread_mutex_unlock(&a->lock);
  return s;
}

/* Waits until the thread has filled the batch of S that it is at. */
static void wait_filled(read_ahead_t *a, const ahead_stream_t *s) {
  a->caller_waits = true;
  while (s->is_busy)
    pthread_cond_wait(&a->filled, &a->lock);
  a->caller_waits = false;
}

void read_ahead_remove(read_ahead_t *a, ahead_stream_t *s) {
  pthread_mutex_lock(&a->lock);
  s->has_ended = true;
  wait_filled(a, s);
  while (s->oldest)
    give_back(a, take_oldest(s));
  s->decoder = NULL;
  pthread_mutex_unlock(&a->lock);
}

event_batch_t *read_ahead_next(read_ahead_t *a, ahead_stream_t *s) {
  event_batch_t *batch = NULL;
  pthread_mutex_lock(&a->lock);
  if (!s->oldest) wait_filled(a, s);
  if (s->oldest)
    batch = take_oldest(s);
  else if (!s->has_ended && (batch = take_free(a)) && !fill(a, s, batch))
    batch = NULL;
  pthread_mutex_unlock(&a->lock);
  return batch;
}

event_batch_t *read_ahead_ready(read_ahead_t *a, ahead_stream_t *s) {
  pthread_mutex_lock(&a->lock);
  event_batch_t *batch = s->oldest ? take_oldest(s) : NULL;
  pthread_mutex_unlock(&a->lock);
  return batch;
}

void read_ahead_release(read_ahead_t *a, ahead_stream_t *s, event_batch_t *batch) {
  pthread_mutex_lock(&a->lock);
  s->used[batch->buffer]--;
  give_back(a, batch);
  pthread_mutex_unlock(&a->lock);
}
