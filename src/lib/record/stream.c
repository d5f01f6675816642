/* SPDX-License-Identifier: MIT
 *
 * The state of a thread: created at its first event, reclaimed some time after the thread has
 * ended.
 *
 * There is no thread destructor: a thread frees memory after all destructors have run, and those
 * events count too. Instead, a thread that needs a state first examines a few old ones. It claims
 * the state of an ended thread by swapping its tid, closes its chunks, and uses the memory again.
 */
#include "record/writer.h"

#define CLAIMED ((pid_t)-1)
/* States examined for each one created; so the number of dead ones stays bounded. */
#define RECLAIM_TRIES 2

static void init_stream(stream_t *s, writer_t *w, chunk_type_t type, uint32_t *predicted) {
  memset(s, 0, sizeof *s);
  s->type = (uint16_t)type;
  s->address_shift = 4;
  s->writer = w;
  s->predicted = predicted;
}

static void init_writer(writer_t *w, shm_control_t *control) {
  w->depth = 0;
  w->sampled_as = w->sample_bytes = 0;
  w->until_sample = 0;
  w->loop = NULL;
  w->realloc_old = 0;
  w->tick_ns = w->no_tick_until_ns = 0;
  w->left_out_ns = w->left_out = 0;
  w->cycles = control->clock != RECORD_CLOCK_MONOTONIC;
  w->clock_shift = (uint8_t)control->clock_shift;
  for (int i = 0; i < WRITER_LEVELS; i++) {
    init_stream(&w->events[i], w, CHUNK_EVENTS, w->predicted[i]);
    init_stream(&w->tables[i], w, CHUNK_TABLES, NULL);
  }
  w->control = control;
}

static void close_all(writer_t *w) {
  for (int i = 0; i < WRITER_LEVELS; i++) {
    writer_close(&w->events[i]);
    writer_close(&w->tables[i]);
    if (w->more[i]) writer_close(w->more[i]);
  }
}

static bool claim_if_dead(writer_t *w, pid_t self) {
  pid_t tid = load_acquire(&w->tid);
  if (tid == CLAIMED || (tid != self && os_thread_alive(tid))) return false;
  return cas_acq_rel(&w->tid, &tid, CLAIMED);
}

/* The state of an ended thread, closed; NULL if none of those examined is free. */
static writer_t *reclaim(writer_global_t *g, pid_t self) {
  writer_t *at = load_acquire(&g->reclaim_next);
  for (int i = 0; i < RECLAIM_TRIES; i++) {
    if (!at) at = load_acquire(&g->writers);
    if (!at) return NULL;
    writer_t *next = at->next;
    store_release(&g->reclaim_next, next);
    if (claim_if_dead(at, self)) {
      close_all(at);
      return at;
    }
    at = next;
  }
  return NULL;
}

/* A new state. A forked child uses its parent's, which it finds zeroed. */
static writer_t *map_state(void) {
  writer_t *w = writer_tls;
  if (w && !w->control && !w->tid) return w;
  if (!(w = os_map(sizeof *w))) return NULL;
  if (os_wipe_on_fork(w, sizeof *w)) return w;
  os_unmap(w, sizeof *w);
  return NULL;
}

static writer_t *make(writer_global_t *g) {
  writer_t *w = map_state();
  if (!w) return NULL;
  w->tid = CLAIMED;
  writer_t *head = load_acquire(&g->writers);
  do
    w->next = head;
  while (!cas_acq_rel(&g->writers, &head, w));
  return w;
}

writer_t *writer_enter_slow(void) {
  writer_global_t *g = writer_global;
  if (!g) return NULL;
  if (!g->control) {
    if (!writer_on_fork || !writer_on_fork()) return NULL;
    g = writer_global;
  }
#if defined(SONDE_ATTACHED)
  if (!os_thread_slots_claim()) {
    writer_lost_event(g->control);
    return NULL;
  }
#endif
  pid_t self = os_tid();
  writer_t *w = reclaim(g, self);
  if (!w) w = make(g);
  if (!w) {
    writer_lost_event(g->control);
    return NULL;
  }
  init_writer(w, g->control);
  store_release(&w->tid, self);
  SLOT_SET(writer_tls, SLOT_WRITER, w);
  return w;
}

uint32_t writer_mute(void) {
  writer_t *w = writer_tls;
  if (!w || !w->control) w = writer_enter_slow();
  if (!w || w->depth >= WRITER_LEVELS) return WRITER_MUTED;
  uint32_t depth = w->depth;
  w->depth = WRITER_MUTED;
  signal_fence();
  return depth;
}

void writer_unmute(uint32_t muted) {
  signal_fence();
  if (muted != WRITER_MUTED) writer_tls->depth = muted;
}

static void rename_streams(const writer_t *w, pid_t tid, const char *name) {
  for (uint32_t i = 0; i < WRITER_LEVELS; i++) {
    const stream_t *more = load_acquire(&w->more[i]);
    if (load_relaxed(&w->events[i].id)) writer_thread_name(&w->events[i], tid, i, name);
    if (more && load_relaxed(&more->id)) writer_thread_name(more, tid, 2 + i, name);
  }
}

static const writer_t *writer_of_thread(pid_t tid) {
  const writer_t *w = writer_tls;
  if (w && load_relaxed(&w->tid) == tid) return w;
  w = load_acquire(&writer_global->writers);
  while (w && load_acquire(&w->tid) != tid)
    w = w->next;
  return w;
}

void writer_thread_renamed(pid_t tid, const char *name) {
  if (!writer_global || !writer_global->control) return;
  const writer_t *w = writer_of_thread(tid);
  writer_t *own = writer_tls;
  if (!w) return; /* it has recorded nothing yet, and will read its name itself */
  if (!own || !own->control) own = writer_enter_slow();
  if (!own || own->depth >= WRITER_LEVELS) return;
  own->depth++; /* a separate level: a signal handler may have interrupted a record */
  signal_fence();
  rename_streams(w, tid, name);
  signal_fence();
  own->depth--;
}

HIDDEN void (*writer_on_request)(shm_control_t *control);
HIDDEN bool (*writer_on_fork)(void);
HIDDEN void (*writer_on_gap_end)(void);

void writer_poll(shm_control_t *c) {
  writer_global_t *g = writer_global;
  uint32_t wanted = load_acquire(&c->request), seen = load_relaxed(&g->requests_seen);
  if (LIKELY(wanted == seen) || !writer_on_request) return;
  if (!cas_acq_rel(&g->requests_seen, &seen, wanted)) return;
  writer_on_request(c);
  store_release(&c->request_seen, wanted);
}

void writer_lost_event(shm_control_t *control) { add_relaxed(&control->lost_events, 1); }

static bool is_busy(const writer_t *w, const writer_t *own) {
  uint32_t depth = load_relaxed(&w->depth);
  pid_t tid = load_relaxed(&w->tid);
  return w != own && depth && depth != WRITER_MUTED && tid > 0 && os_thread_alive(tid);
}

bool writer_quiesce(uint64_t timeout_ns) {
  const uint32_t never = 0;
  uint64_t deadline = os_monotonic_ns() + timeout_ns;
  os_barrier(); /* a thread that has not seen the new mode is now seen inside an event */
  for (const writer_t *w = load_acquire(&writer_global->writers); w; w = w->next)
    while (is_busy(w, writer_tls)) {
      if (os_monotonic_ns() > deadline) return false;
      (void)os_futex_wait(&never, 0, 100000);
    }
  return true;
}

/* A thread may be about to read the mode through its state, so the state and the shared buffers
 * stay as they are, but for the streams: they continue in another recording. */
static void leave_streams(writer_t *w) {
  for (int i = 0; i < WRITER_LEVELS; i++) {
    init_stream(&w->events[i], w, CHUNK_EVENTS, w->predicted[i]);
    init_stream(&w->tables[i], w, CHUNK_TABLES, NULL);
    if (w->more[i]) init_stream(w->more[i], w, (chunk_type_t)w->more[i]->type, NULL);
  }
  w->audit = NULL; /* it refers to places in the buffers */
  w->sampled_as = 0;
}

bool writer_leave_program(uint64_t timeout_ns) {
  writer_global_t *g = writer_global;
  if (!g || !g->control) return true;
  if (!writer_quiesce(timeout_ns)) return false;
  if (g->file_fd >= 0) os_close(g->file_fd);
  for (writer_t *w = g->writers; w; w = w->next)
    leave_streams(w);
  *g = (writer_global_t){.file_fd = -1, .left = g->control, .writers = g->writers};
  return true;
}

static void renew_stream(stream_t *s) {
  s->id = s->sequence = s->records = s->last_stack = 0;
  s->last_time = s->last_address = s->sampling = 0;
  s->address_shift = 4;
}

void writer_restart(void) {
  for (writer_t *w = load_acquire(&writer_global->writers); w; w = w->next)
    for (int i = 0; i < WRITER_LEVELS; i++) {
      renew_stream(&w->events[i]);
      renew_stream(&w->tables[i]);
    }
}

void writer_finish(void) {
  writer_global_t *g = writer_global;
  if (!g || !g->control) return;
  gap_retry_now(g->control);
  for (writer_t *w = load_acquire(&g->writers); w; w = w->next)
    close_all(w);
}
