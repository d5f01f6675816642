/* SPDX-License-Identifier: MIT
 *
 * The program does here what the recorder does for other recordings. The shared buffers are private
 * memory, and the file is a memfd, most of which is a ring. Nothing is written to disk before
 * memory_recording_save.
 *
 * Reading while other threads write: closed chunks are checked by their checksum, so a chunk that
 * is being overwritten is skipped. Open chunks are copied, and their records end where the zeros
 * begin.
 */
#include "record/memory_recording.h"

#include "record/chunk_copy.h"
#include "record/header.h"
#include "sonde/status.h"

#define PIECE (UINT64_C(1) << 20)

static struct {
  record_header_t header;
  int file_fd;
} own;

bool memory_recording_is_on(void) {
  const shm_control_t *c = writer_control();
  return c && c->recorder_pid == c->pid && c->shm_fd < 0; /* not a standalone recording */
}

int memory_recording_begin(uint64_t limit_bytes) {
  if (writer_control()) return SONDE_EBUSY;
  writer_global_t *g = os_map(sizeof *g);
  shm_control_t *c = os_map(SHM_BYTES);
  own.file_fd = os_memory_file("sonde");
  header_begin(&own.header, os_pid());
  own.header.mode = RECORD_CALLS;
  bool good = g && c && own.file_fd >= 0 && os_wipe_on_fork(g, sizeof *g) &&
              os_hide_from_fork(c, SHM_BYTES) &&
              header_control(&own.header, own.file_fd, ALIGN_UP(limit_bytes, UINT64_C(4096)), c);
  if (!good) {
    if (g) os_unmap(g, sizeof *g);
    if (c) os_unmap(c, SHM_BYTES);
    if (own.file_fd >= 0) os_close(own.file_fd);
    return SONDE_ENOMEM;
  }
  c->mode = RECORD_CALLS;
  c->exec_index = 1;
  g->file_fd = own.file_fd;
  g->exec_index = 1;
  g->control = c;
  store_release(&writer_global, g);
  writer_process();
  return 0;
}

void memory_recording_start(uint64_t *ticks, uint64_t *ns) {
  *ticks = own.header.start_ticks;
  *ns = own.header.start_monotonic_ns;
}

/* The header keeps the shift that events have. */
void memory_recording_calibrate(void) {
  record_header_t h = own.header;
  header_calibrate(&h);
  shm_calibrate(writer_control(), &h);
}

/* ---- reading it ----------------------------------------------------------------------------- */

typedef struct reading {
  uint8_t *piece; /* PIECE bytes, and 4096 readable ones behind */
  bool (*visit)(void *context, const chunk_header_t *chunk);
  void *context;
} reading_t;

static bool is_valid_chunk(uint8_t *chunk, uint64_t room) {
  chunk_header_t h;
  memcpy(&h, chunk, sizeof h);
  if (h.magic != CHUNK_MAGIC || h.size < sizeof h || h.size > room || h.size % 8 ||
      h.used > h.size - sizeof h)
    return false;
  return chunk_is_intact(chunk, h.size);
}

/* Visits the chunks of the file; a chunk has at most a quarter of a piece. */
static bool visit_file(reading_t *r, uint64_t end) {
  uint64_t at = RECORD_HEADER_SIZE;
  while (at < end) {
    ssize_t n = os_pread(own.file_fd, r->piece, PIECE, at);
    if (n < (ssize_t)sizeof(chunk_header_t)) return true;
    uint64_t i = 0, last = (uint64_t)n < PIECE ? (uint64_t)n : PIECE - PIECE / 4;
    while (i + sizeof(chunk_header_t) <= last) {
      if (is_valid_chunk(r->piece + i, (uint64_t)n - i)) {
        const chunk_header_t *chunk = (const chunk_header_t *)(const void *)(r->piece + i);
        if (!r->visit(r->context, chunk)) return false;
        i += chunk->size;
      } else {
        i += 8;
      }
    }
    at += i ? i : (uint64_t)n;
    if ((uint64_t)n < PIECE) return true;
  }
  return true;
}

static bool visit_open(reading_t *r, const shm_control_t *c) {
  uint32_t used = load_acquire(&c->pages_used);
  for (uint32_t page = SHM_CONTROL_PAGES; page < used && page < SHM_PAGES; page++) {
    uint32_t slot_class = load_acquire(&c->slot_class[page]);
    const uint8_t *slot = (const uint8_t *)c + (uint64_t)page * SHM_PAGE;
    if (!slot_class || slot_class > SHM_CLASSES) continue;
    if (load_acquire(&((const chunk_header_t *)(const void *)slot)->magic) != CHUNK_MAGIC) continue;
    uint32_t size = shm_class_pages(slot_class - 1) * SHM_PAGE;
    memcpy(r->piece, slot, size);
    if (!chunk_close(r->piece, size)) continue;
    if (!r->visit(r->context, (const chunk_header_t *)(const void *)r->piece)) return false;
  }
  return true;
}

bool memory_recording_each(bool (*visit)(void *context, const chunk_header_t *chunk),
                           void *context) {
  const shm_control_t *c = writer_control();
  reading_t r = {os_map(PIECE + 4096), visit, context};
  if (!c || !r.piece) return false;
  bool done = visit_file(&r, load_acquire(&c->file_end)) && visit_open(&r, c);
  os_unmap(r.piece, PIECE + 4096);
  return done;
}

typedef struct saving {
  int fd;
  uint64_t at;
  int status; /* 0 or a negative errno */
} saving_t;

static bool save_chunk(void *context, const chunk_header_t *chunk) {
  saving_t *s = context;
  s->status = header_write_at(s->fd, chunk, chunk->size, s->at);
  s->at += chunk->size;
  return s->status == 0;
}

int memory_recording_save(const char *path) {
  const shm_control_t *c = writer_control();
  if (!c || !memory_recording_is_on()) return SONDE_EINVAL;
  saving_t s = {.fd = os_create_high(path), .at = RECORD_HEADER_SIZE};
  if (s.fd < 0) return SONDE_EIO;
  bool good = memory_recording_each(save_chunk, &s);
  record_header_t h = own.header;
  header_finish(&h, c, 0, s.fd);
  if (good) s.status = header_write(&h, s.fd);
  os_close(s.fd);
  return s.status ? SONDE_EIO : good ? 0 : SONDE_ENOMEM;
}
