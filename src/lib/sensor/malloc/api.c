/* SPDX-License-Identifier: MIT */
#include "sensor/malloc/api.h"

#include "record/extended.h"
#include "sensor/audit/start.h"
#include "sensor/malloc/live.h"
#include "sensor/malloc/standalone.h"
#include "sensor/sensor_table.h"
#include "capture/stack.h"

#define NAME_MAX_BYTES 1000u
#define TIMEOUT_NS     UINT64_C(1000000000)
#define BLOCK_BYTES    (5u * VARINT_MAX_SIZE)

/* A standalone recording that has ended leaves its control page mapped. */
bool malloc_api_is_recording(void) {
  const shm_control_t *c = writer_control();
  return c && load_relaxed(&c->file_fd) >= 0;
}

static const struct {
  uint32_t bits;
  const char *request; /* to the recorder, see recorder/control.h */
} modes[] = {
#define MODE_ENTRY(mode, name, bits) [SONDE_MALLOC_##mode] = {bits, "malloc=" name},
    SENSOR_MALLOC_MODES(MODE_ENTRY)
#undef MODE_ENTRY
};

bool malloc_api_mode_bits(sonde_malloc_mode_t mode, uint32_t *bits) {
  if ((unsigned)mode >= ARRAY_COUNT(modes)) return false;
  *bits = modes[mode].bits;
  return true;
}

/* ---- queries --------------------------------------------------------------------------------- */

static shm_control_t *live_control(void) {
  shm_control_t *c = writer_control();
  return c && load_relaxed(&c->mode) & RECORD_LIVE ? c : NULL;
}

/* The thread that writes STREAM; 0 if it has ended. */
static pid_t tid_of(uint32_t stream) {
  for (writer_t *w = load_acquire(&writer_global->writers); w; w = w->next)
    for (int i = 0; i < WRITER_LEVELS; i++)
      if (w->events[i].id == stream) {
        pid_t tid = load_relaxed(&w->tid);
        return tid > 0 && os_thread_alive(tid) ? tid : 0;
      }
  return 0;
}

static sonde_block_t block_of(const shm_control_t *c, uint64_t address, const live_detail_t *b) {
  return (sonde_block_t){.address = address,
                         .size = b->size,
                         .stack = b->stack,
                         .tid = tid_of(b->stream),
                         .time_ns = shm_monotonic_ns(c, b->time)};
}

int malloc_api_of(const void *address, sonde_block_t *out) {
  shm_control_t *c = live_control();
  live_detail_t block;
  uint64_t start;
  if (!address || !out) return SONDE_EINVAL;
  if (!c) return SONDE_EUNSUPPORTED;
  if (!live_table_find(c, (uintptr_t)address, &start, &block)) return SONDE_ENOTFOUND;
  *out = block_of(c, start, &block);
  return 0;
}

typedef struct visited {
  const shm_control_t *control;
  int (*visit)(const sonde_block_t *block, void *context);
  void *context;
  int64_t count;
} visited_t;

static bool visit_block(void *context, uint64_t address, const live_detail_t *block) {
  visited_t *v = context;
  sonde_block_t b = block_of(v->control, address, block);
  v->count++;
  return v->visit(&b, v->context) == 0;
}

int64_t malloc_api_each(int (*visit)(const sonde_block_t *block, void *context), void *context) {
  shm_control_t *c = live_control();
  visited_t v = {c, visit, context, 0};
  if (!visit) return SONDE_EINVAL;
  if (!c) return SONDE_EUNSUPPORTED;
  live_table_each(c, visit_block, &v);
  return v.count;
}

/* ---- events ---------------------------------------------------------------------------------- */

int malloc_api_pool(int call, const void *address, size_t size, const caller_t *at) {
  if (!address) return SONDE_EINVAL;
  if (!malloc_api_is_recording()) return SONDE_ENOTFOUND;
  stream_t *s = writer_enter(RECORD_BLOCKS);
  if (!s) return 0;
  extended_body_t b;
  b.used = 0;
  uint64_t time = writer_now(s->writer);
  extended_number(&b, (uint64_t)call);
  extended_number(&b, (uintptr_t)address);
  extended_number(&b, size);
  extended_number(&b, sensor_stack_id(s, *at));
  if (!extended_put(s, EXTENDED_POOL, time, &b)) writer_lost_event(s->writer->control);
  writer_leave(s);
  return 0;
}

int malloc_api_marker(const char *name, const caller_t *at) {
  uint64_t size = 0;
  if (!name) return SONDE_EINVAL;
  if (!malloc_api_is_recording()) return SONDE_ENOTFOUND;
  while (size < NAME_MAX_BYTES && name[size])
    size++;
  stream_t *s = writer_enter(UINT32_MAX);
  if (!s) return 0;
  extended_body_t b;
  b.used = 0;
  extended_string(&b, name, size);
  extended_number(&b, sensor_stack_id(s, *at));
  if (!extended_put(s, EXTENDED_MARKER, writer_now(s->writer), &b))
    writer_lost_event(s->writer->control);
  writer_leave(s);
  return 0;
}

/* ---- modes without a recorder ---------------------------------------------------------------- */

typedef struct snapshot {
  stream_t *stream;
  uint64_t time, last;
  extended_body_t body;
} snapshot_t;

static void put_blocks(snapshot_t *s) {
  if (!s->body.used) return;
  if (!extended_put(s->stream, EXTENDED_BLOCKS, s->time, &s->body))
    writer_lost_event(s->stream->writer->control);
  s->body.used = 0;
  s->last = 0;
}

static bool put_block(void *context, uint64_t address, const live_detail_t *d) {
  snapshot_t *s = context;
  extended_number(&s->body, zigzag((int64_t)(address - s->last)));
  extended_number(&s->body, d->size);
  extended_number(&s->body, d->stack);
  extended_number(&s->body, d->stream);
  extended_number(&s->body, zigzag((int64_t)(s->time - d->time)));
  s->last = address;
  if (s->body.used > EXTENDED_BODY_MAX - BLOCK_BYTES) put_blocks(s);
  return true;
}

void malloc_api_snapshot(snapshot_reason_t reason) {
  snapshot_t s = {.stream = writer_enter(UINT32_MAX)};
  if (!s.stream) return;
  shm_control_t *c = s.stream->writer->control;
  s.time = writer_now(s.stream->writer);
  extended_number(&s.body, reason);
  extended_number(&s.body, load_relaxed(&c->unknown_frees));
  if (!extended_put(s.stream, EXTENDED_SNAPSHOT, s.time, &s.body)) writer_lost_event(c);
  s.body.used = 0;
  live_table_each(c, put_block, &s);
  put_blocks(&s);
  writer_leave(s.stream);
}

void malloc_api_switch(uint32_t bits) {
  shm_control_t *c = writer_control();
  uint32_t before = load_relaxed(&c->mode);
  /* The calling thread writes below, whatever the mode is. */
  store_release(&c->mode, bits | RECORD_SWITCHING);
  (void)writer_quiesce(TIMEOUT_NS);
  if (before & ~bits & RECORD_LIVE) {
    malloc_api_snapshot(SNAPSHOT_MODE);
    live_table_empty(c);
  }
  stream_t *s = writer_enter(RECORD_SWITCHING);
  if (s) {
    extended_body_t b;
    b.used = 0;
    extended_number(&b, bits);
    extended_number(&b, 0);
    if (!extended_put(s, EXTENDED_MODE, writer_now(s->writer), &b)) writer_lost_event(c);
    writer_leave(s);
  }
  store_release(&c->mode, bits);
}

/* Under a recorder, the recorder switches. */
int malloc_api_mode(sonde_malloc_mode_t wanted) {
  uint32_t bits;
  char answer[256];
  const shm_control_t *c = writer_control();
  if (!malloc_api_mode_bits(wanted, &bits)) return SONDE_EINVAL;
  if (!malloc_api_is_recording()) return SONDE_ENOTFOUND;
  if (!c->recorder_name[0]) {
    if ((bits & RECORD_MAPPINGS) && !malloc_hooks_see_mappings()) return SONDE_EUNSUPPORTED;
    malloc_api_switch(bits | (load_relaxed(&c->mode) & RECORD_AUDIT));
    if (bits & RECORD_MAPPINGS) malloc_hooks_add_mappings();
    return 0;
  }
  ssize_t n =
      settings_request(c->recorder_name, c->token, modes[wanted].request, answer, sizeof answer);
  return settings_granted(answer, n) ? 0 : SONDE_EIO;
}
