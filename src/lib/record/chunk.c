/* SPDX-License-Identifier: MIT
 *
 * Chunks: opened in a slot of the shared buffers, filled by one thread, closed into the file.
 *
 * A kill at any instruction leaves a readable chunk. Opening: the header is complete before its
 * magic is stored. Closing: the chunk stays in its slot until it is in the file, then loses its
 * magic, then its bytes are zeroed. A kill in between leaves it in both places with the same stream
 * and sequence number; readers count it once.
 *
 * A chunk that was full within GROW_BELOW_NS of its opening is followed by a larger one: 4, 16, 64,
 * 256 KB. So a busy thread writes seldom and an idle one holds little memory. In a ring, a chunk
 * has at most an eighth of the ring, since a chunk is overwritten as a whole.
 *
 * In debug builds (SONDE_DEBUG) an invariant of the stream is checked where chunks open and close.
 */
#include "base/varint.h"
#include "record/writer.h"
#include "record/event.h"

#define GROW_BELOW_NS  20000000u
#define CHUNKS_IN_RING 8u
/* Slots of the largest class: three quarters of the shared buffers. */
#define SPARE_SLOTS 192u

static writer_t *writer_of(const stream_t *s) { return s->writer; }

#if defined(SONDE_DEBUG)
/* The pointers of an open chunk lie in its slot, and a closed one has none. */
static bool chunk_is_valid(const stream_t *s) {
  const chunk_header_t *h = s->chunk;
  if (!h) return !s->next && !s->limit;
  const uint8_t *end = (const uint8_t *)h + (shm_class_pages(s->slot_class) * SHM_PAGE);
  return h->magic == CHUNK_MAGIC && h->type == s->type && h->stream == s->id &&
         s->next >= (const uint8_t *)(h + 1) && s->next <= end && s->limit <= end;
}
#endif

static uint32_t level_of(const stream_t *s) {
  writer_t *w = writer_of(s);
  return (uint32_t)(s->type == CHUNK_EVENTS ? s - w->events : s - w->tables);
}

static uint32_t capacity_of(uint32_t slot_class) { return shm_class_pages(slot_class) * SHM_PAGE; }

static bool class_fits(uint32_t slot_class, uint32_t bytes) {
  return capacity_of(slot_class) >= sizeof(chunk_header_t) + bytes;
}

/* Opens the stream's next chunk in the slot H. */
static void begin(stream_t *s, chunk_header_t *h, uint32_t slot_class) {
  writer_t *w = writer_of(s);
  if (!s->last_time) s->last_time = writer_now(w);
  h->type = s->type;
  h->size = capacity_of(slot_class);
  h->stream = s->id;
  h->sequence = s->sequence;
  h->base_time = s->last_time;
  h->base_address = s->last_address;
  h->exec_index = (uint16_t)writer_global->exec_index;
  h->address_shift = s->address_shift;
  s->open_time = os_monotonic_ns();
  s->last_stack = 0;
  s->records = 0;
  s->sampling = 0;
  s->chunk = h;
  s->slot_class = (uint8_t)slot_class;
  s->limit = (uint8_t *)h + h->size - EVENT_MAX_BYTES;
  if (s->type == CHUNK_EVENTS) memset(s->predicted, 0, sizeof w->predicted[0]);
  store_release(&h->magic, CHUNK_MAGIC);
  s->next = (uint8_t *)(h + 1);
  SONDE_ASSERT(chunk_is_valid(s));
}

/* True if the stream's chunk stays closed in its slot, for the recorder to write. */
static bool is_handed_over(const stream_t *s) {
  return s->records && load_relaxed(&writer_of(s)->control->handed_over);
}

static void detach(stream_t *s) {
  s->chunk = NULL;
  s->next = s->limit = NULL;
}

static void close_chunk(stream_t *s, uint32_t used, uint32_t size, unsigned flags) {
  chunk_header_t *h = s->chunk;
  h->used = used;
  h->close_time = writer_now(writer_of(s));
  h->records = s->records;
  h->size = size;
  h->flags = (uint16_t)flags;
  chunk_seal(h, size);
}

/* Writes the stream's chunk of USED bytes to the file. A kill between the stores of the header
 * leaves a partly closed one: its checksum is wrong, and the recorder finds the slot's size in the
 * directory and the end of the records by the zeros behind them. If the file cannot be written, the
 * chunk is open again. */
static bool write_chunk(stream_t *s, uint32_t used, uint32_t size) {
  chunk_header_t *h = s->chunk;
  if (!gap_should_write(writer_of(s)->control)) return false;
  close_chunk(s, used, size, CHUNK_CLOSED);
  if (writer_append(h, size)) {
    s->sequence++;
    return true;
  }
  h->flags = 0;
  h->size = capacity_of(s->slot_class);
  return false;
}

/* In a gap, drops the events of the stream's chunk. Returns false if the chunk must be kept. */
static bool drop(stream_t *s) {
  shm_control_t *c = writer_of(s)->control;
  if (s->type == CHUNK_TABLES || !gap_may_end(load_relaxed(&c->stop_reason))) return false;
  s->dropped += s->records;
  add_relaxed(&c->lost_events, s->records);
  return true;
}

/* Writes or drops the stream's chunk and zeroes its slot; with HANDED_OVER the recorder does that
 * later. */
static bool flush(stream_t *s, bool handed_over) {
  chunk_header_t *h = s->chunk;
  SONDE_ASSERT(chunk_is_valid(s));
  uint32_t used = (uint32_t)(s->next - (uint8_t *)(h + 1));
  uint32_t size = ALIGN_UP((uint32_t)sizeof *h + used, 8u);
  if (handed_over) {
    close_chunk(s, used, size, CHUNK_CLOSED | CHUNK_HANDED_OVER);
    s->sequence++;
    detach(s);
    return true;
  }
  if (s->records && !write_chunk(s, used, size) && !drop(s)) return false;
  store_release(&h->magic, 0);
  memset(h, 0, size);
  detach(s);
  return true;
}

bool writer_close(stream_t *s) {
  chunk_header_t *slot = s->chunk;
  if (!slot) return true;
  bool handed_over = is_handed_over(s);
  if (!flush(s, handed_over)) return false;
  if (!handed_over) writer_slot_free(slot, s->slot_class);
  return true;
}

/* Writes a copy of an open chunk of tables, which may be another thread's. A record that is being
 * written ends the copy, or is complete in it. */
static void save_copy(const stream_t *s) {
  uint8_t copy[SHM_PAGE];
  const chunk_header_t *from = load_acquire(&s->chunk);
  if (!from || capacity_of(s->slot_class) > sizeof copy) return;
  memcpy(copy, from, sizeof copy);
  chunk_header_t h;
  memcpy(&h, copy, sizeof h);
  if (h.magic != CHUNK_MAGIC || h.type != CHUNK_TABLES) return;
  uint32_t used = (uint32_t)(sizeof copy - sizeof h);
  while (used && !copy[sizeof h + used - 1])
    used--;
  h.used = used;
  h.size = ALIGN_UP((uint32_t)sizeof h + used, 8u);
  h.flags = CHUNK_CLOSED;
  memcpy(copy, &h, sizeof h);
  chunk_seal(copy, h.size);
  (void)writer_append(copy, h.size);
}

/* Without a recorder that collects them, definitions must not stay in the shared buffers for long.
 * Those of other threads are copied once; the thread's own are written with each of its chunks of
 * events. */
static void save_tables_of_orphan(writer_t *w) {
  shm_control_t *c = w->control;
  if (writer_has_recorder(c)) return;
  uint32_t none = 0;
  if (cas_acq_rel(&c->orphaned, &none, 1u))
    for (writer_t *other = load_acquire(&writer_global->writers); other; other = other->next)
      for (int i = 0; other != w && i < WRITER_LEVELS; i++)
        save_copy(&other->tables[i]);
  for (int i = 0; i < WRITER_LEVELS; i++)
    writer_close(&w->tables[i]);
}

/* After a gap, replaces the definitions that were lost in it. */
static void rewrite_definitions(shm_control_t *c) {
  uint32_t lost = 1;
  if (LIKELY(!load_relaxed(&c->gap_rewrite)) || !writer_on_gap_end) return;
  if (!cas_acq_rel(&c->gap_rewrite, &lost, 0u)) return;
  store_relaxed(&c->lost_definitions, 0);
  writer_on_gap_end();
}

static bool open_of_class(stream_t *s, uint32_t slot_class, uint32_t spare) {
  chunk_header_t *slot = writer_slot_alloc(slot_class, spare);
  if (slot) begin(s, slot, slot_class);
  return slot != NULL;
}

/* Opens a chunk of class WANTED, or, if few slots are left, of a smaller one that fits BYTES: a few
 * busy threads must not exhaust the slots of a thousand others. The last slots are allocated in the
 * smallest class that fits. */
static bool open_larger(stream_t *s, uint32_t wanted, uint32_t bytes) {
  for (uint32_t c = wanted + 1; c-- > 0 && class_fits(c, bytes);)
    if (open_of_class(s, c, SPARE_SLOTS)) return true;
  for (uint32_t c = 0; c <= wanted; c++)
    if (class_fits(c, bytes) && open_of_class(s, c, 0)) return true;
  return false;
}

void writer_define_stream(stream_t *s) {
  if (s->id) return;
  s->id = __atomic_add_fetch(&writer_global->next_stream, 1, __ATOMIC_RELAXED);
  if (s->type == CHUNK_EVENTS) writer_thread_record(s, writer_of(s)->tid, level_of(s));
}

/* The class of the chunk that follows the stream's full one. */
static uint32_t next_class(const stream_t *s) {
  uint32_t larger = s->slot_class + 1u;
  uint64_t ring = writer_of(s)->control->ring_bytes;
  if (larger == SHM_CLASSES) return s->slot_class;
  if (s->type == CHUNK_TABLES) return larger;
  if (ring && capacity_of(larger) > ring / CHUNKS_IN_RING) return s->slot_class;
  return os_monotonic_ns() - s->open_time < GROW_BELOW_NS ? larger : s->slot_class;
}

bool writer_reserve(stream_t *s, uint32_t bytes) {
  writer_t *w = writer_of(s);
  if (s->chunk && s->next + bytes <= (uint8_t *)s->chunk + s->chunk->size) return true;
  uint32_t wanted = 0;
  if (s->chunk) {
    chunk_header_t *slot = s->chunk;
    wanted = next_class(s);
    while (!class_fits(wanted, bytes) && wanted + 1 < SHM_CLASSES)
      wanted++;
    bool handed_over = is_handed_over(s);
    if (!flush(s, handed_over)) return false;
    if (s->type != CHUNK_TABLES) {
      save_tables_of_orphan(w);
      rewrite_definitions(w->control);
    }
    if (!handed_over && wanted == s->slot_class) {
      begin(s, slot, wanted);
      return true;
    }
    if (!handed_over) writer_slot_free(slot, s->slot_class);
  }
  while (!class_fits(wanted, bytes) && wanted + 1 < SHM_CLASSES)
    wanted++;
  writer_poll(w->control);
  writer_define_stream(s);
  return open_larger(s, wanted, bytes);
}

bool event_unshift(stream_t *s) {
  if (!writer_close(s)) return false;
  s->last_address <<= s->address_shift;
  s->address_shift = 0;
  return writer_reserve(s, EVENT_MAX_BYTES);
}
