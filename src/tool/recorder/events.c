/* SPDX-License-Identifier: MIT
 *
 * The recorder's own stream of events: changes of mode, markers, mappings, and in mode `live`
 * snapshots of the live blocks.
 *
 * A snapshot reads the table of live blocks (live_table.h) while the program runs. It reads each
 * piece twice and accepts a block that is equal both times. So all blocks of a snapshot were live
 * at some time while it was taken, and it contains all blocks that were live all that time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#include "base/varint.h"
#include "record/shm.h"
#include "record/live_table.h"
#include "recorder/recording_file.h"
#include "sonde/status.h"

#define CHUNK_BYTES (256u << 10)
/* The largest encoded block. */
#define BLOCK_BYTES (5u * VARINT_MAX_SIZE)
/* Space for the head of an extended record. */
#define HEAD_BYTES 16u
/* Buckets that are read at once. */
#define PIECE        1024u
#define STRAGGLER_NS 2000000
#define MAPS_BYTES   (192u << 10)
#define MAPS_LINE    8192u

/* A chunk with one extended record that is being written. */
typedef struct event_chunk {
  uint8_t *bytes;
  /* bytes of the body */
  uint32_t used;
} event_chunk_t;

static uint8_t *body_of(const event_chunk_t *c) {
  return c->bytes + sizeof(chunk_header_t) + HEAD_BYTES;
}

static void put(event_chunk_t *c, uint64_t value) {
  c->used += varint_put(body_of(c) + c->used, value);
}

/* Appends the chunk: a record of SUBTYPE at TIME with the body so far. */
static int append(recording_t *r, event_chunk_t *c, uint8_t subtype, uint64_t time) {
  uint32_t exec_index = recording_current_program(r);
  if (r->exec_index != exec_index) r->sequence = 0;
  r->exec_index = exec_index;
  uint8_t head[HEAD_BYTES] = {EVENT_EXTENDED, subtype};
  uint32_t head_size = 2 + varint_put(head + 2, c->used);
  uint8_t *chunk = body_of(c) - head_size - sizeof(chunk_header_t);
  uint32_t used = head_size + c->used, size = ALIGN_UP((uint32_t)sizeof(chunk_header_t) + used, 8u);
  memcpy(body_of(c) - head_size, head, head_size);
  memset(body_of(c) + c->used, 0, 8);
  chunk_header_t h = {.magic = CHUNK_MAGIC,
                      .type = CHUNK_EVENTS,
                      .flags = CHUNK_CLOSED | CHUNK_COLLECTED,
                      .size = size,
                      .used = used,
                      .stream = RECORDER_STREAM,
                      .sequence = r->sequence,
                      .base_time = time,
                      .exec_index = (uint16_t)exec_index,
                      .records = 1};
  uint8_t *aligned = c->bytes;
  memmove(aligned + sizeof h, chunk + sizeof h, size - sizeof h);
  memcpy(aligned, &h, sizeof h);
  chunk_seal(aligned, size);
  c->used = 0;
  /* The list of processes is written at the end, also if the recording has stopped. */
  bool may_write = subtype == EXTENDED_PROCESS || gap_should_write(r->control);
  if (!may_write || !recording_append(r, aligned, size)) return SONDE_EIO;
  r->sequence++;
  return 0;
}

static bool begin(event_chunk_t *c) {
  *c = (event_chunk_t){.bytes = malloc(CHUNK_BYTES)};
  return c->bytes != NULL;
}

/* ---- the live blocks ---------------------------------------------------------------------- */

typedef struct snapshot {
  recording_t *recording;
  /* the table or a copy of it */
  int fd;
  event_chunk_t chunk;
  uint64_t time, count, last;
  int status;
} snapshot_t;

static void put_block(snapshot_t *s, uint64_t address, const live_detail_t *d) {
  event_chunk_t *c = &s->chunk;
  put(c, zigzag((int64_t)(address - s->last)));
  put(c, d->size);
  put(c, d->stack);
  put(c, d->stream);
  put(c, zigzag((int64_t)(s->time - d->time)));
  s->last = address;
  s->count++;
  if (c->used < CHUNK_BYTES - sizeof(chunk_header_t) - HEAD_BYTES - BLOCK_BYTES - 16) return;
  s->last = 0;
  s->status = append(s->recording, c, EXTENDED_BLOCKS, s->time);
}

static bool read_piece(int fd, live_bucket_t *out, uint64_t offset) {
  size_t size = PIECE * sizeof *out;
  ssize_t n = pread(fd, out, size, (off_t)offset);
  if (n > 0 && (size_t)n < size) memset((uint8_t *)out + n, 0, size - (size_t)n);
  return n > 0;
}

static void put_bucket(snapshot_t *s, const live_bucket_t *a, const live_bucket_t *b) {
  for (unsigned i = 0; i < LIVE_BUCKET && s->status == 0; i++)
    if (a->address[i] && !(a->address[i] & LIVE_RESERVED) && a->address[i] == b->address[i] &&
        !memcmp(&a->detail[i], &b->detail[i], sizeof a->detail[i]))
      put_block(s, a->address[i], &a->detail[i]);
}

static bool is_empty(const live_bucket_t *piece) {
  uint64_t any = 0;
  for (uint32_t i = 0; i < PIECE; i++)
    for (unsigned k = 0; k < LIVE_BUCKET; k++)
      any |= piece[i].address[k];
  return any == 0;
}

static void put_all(snapshot_t *s) {
  live_bucket_t *once = malloc(2 * PIECE * sizeof *once), *again = once + PIECE;
  if (!once) s->status = SONDE_ENOMEM;
  uint64_t end = live_level_offset(load_acquire(&s->recording->control->live_levels));
  for (uint64_t at = 0; at < end && s->status == 0; at += PIECE * sizeof *once) {
    if (!read_piece(s->fd, once, at) || is_empty(once) || !read_piece(s->fd, again, at)) continue;
    for (uint32_t i = 0; i < PIECE && s->status == 0; i++)
      put_bucket(s, &once[i], &again[i]);
  }
  free(once);
}

static int snapshot(recording_t *r, int fd, snapshot_reason_t reason, uint64_t time,
                    uint64_t *blocks) {
  snapshot_t s = {.recording = r, .fd = fd, .time = time};
  if (!begin(&s.chunk)) return SONDE_ENOMEM;
  put(&s.chunk, reason);
  put(&s.chunk, load_relaxed(&r->control->unknown_frees));
  s.status = append(r, &s.chunk, EXTENDED_SNAPSHOT, time);
  if (s.status == 0) put_all(&s);
  if (s.status == 0 && s.chunk.used) s.status = append(r, &s.chunk, EXTENDED_BLOCKS, time);
  free(s.chunk.bytes);
  *blocks = s.count;
  return s.status;
}

void recording_set_tracing(recording_t *r, bool on) {
  uint32_t *generation = &r->control->trace_generation, now = load_acquire(generation);
  if ((now & 1) == on) return;
  store_release(generation, now + 1);
  __atomic_fetch_add(&r->control->request, 1, __ATOMIC_ACQ_REL);
}

int recording_snapshot(recording_t *r, snapshot_reason_t reason, uint64_t *blocks) {
  *blocks = 0;
  if (!(load_relaxed(&r->control->mode) & RECORD_LIVE) || r->agentless_program) return SONDE_EINVAL;
  return snapshot(r, r->live_fd, reason, recording_now(r), blocks);
}

int recording_copy_live(const recording_t *r) {
  int fd = memfd_create("sonde-live-copy", MFD_CLOEXEC);
  off_t end = (off_t)live_level_offset(load_acquire(&r->control->live_levels)), at = 0, stop;
  bool good = fd >= 0 && ftruncate(fd, end) == 0;
  while (good && (at = lseek(r->live_fd, at, SEEK_DATA)) >= 0 && at < end) {
    stop = lseek(r->live_fd, at, SEEK_HOLE);
    if (stop < 0 || stop > end) stop = end;
    good = lseek(fd, at, SEEK_SET) == at;
    while (good && at < stop)
      good = sendfile(fd, r->live_fd, &at, (size_t)(stop - at)) > 0;
  }
  if (good) return fd;
  if (fd >= 0) close(fd);
  return SONDE_ENOMEM;
}

int recording_snapshot_of_copy(recording_t *r, int fd, uint64_t time) {
  uint64_t blocks;
  return snapshot(r, fd, SNAPSHOT_REQUESTED, time, &blocks);
}

/* Removes all blocks from the table. */
static void empty_table(const recording_t *r) {
  for (uint32_t level = 0; level < load_acquire(&r->control->live_levels); level++) {
    uint64_t bytes = live_level_bytes(level);
    live_bucket_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->live_fd,
                              (off_t)live_level_offset(level));
    if (map == MAP_FAILED) continue;
    for (uint64_t i = 0; i < bytes / sizeof *map; i++)
      for (unsigned k = 0; k < LIVE_BUCKET; k++)
        if (load_relaxed(&map[i].address[k])) store_relaxed(&map[i].address[k], 0);
    munmap(map, bytes);
  }
}

/* ---- mappings ----------------------------------------------------------------------------- */

static int put_maps(recording_t *r, event_chunk_t *c, FILE *maps) {
  uint64_t time = recording_now(r);
  char *text = malloc(MAPS_BYTES), *line;
  int status = text ? 0 : SONDE_ENOMEM;
  for (bool first = true, more = true; status == 0 && more; first = false) {
    /* As many complete lines as fit. */
    size_t used = 0;
    while (used + MAPS_LINE < MAPS_BYTES && (more = fgets(line = text + used, MAPS_LINE, maps)))
      used += strlen(line);
    if (!used) break;
    put(c, first);
    put(c, used);
    memcpy(body_of(c) + c->used, text, used);
    c->used += (uint32_t)used;
    status = append(r, c, EXTENDED_MAPS, time);
  }
  free(text);
  return status;
}

int recording_checkpoint(recording_t *r) {
  char path[40];
  if (!(load_relaxed(&r->control->mode) & RECORD_MAPPINGS) || r->agentless_program)
    return SONDE_EINVAL;
  snprintf(path, sizeof path, "/proc/%u/maps", r->header.pid);
  FILE *maps = fopen(path, "re");
  if (!maps) return SONDE_EPERM;
  event_chunk_t chunk;
  int status = begin(&chunk) ? put_maps(r, &chunk, maps) : SONDE_ENOMEM;
  free(chunk.bytes);
  fclose(maps);
  return status;
}

/* ---- modes and markers -------------------------------------------------------------------- */

int recording_set_mode(recording_t *r, uint32_t mode, uint64_t sample_bytes) {
  shm_control_t *c = r->control;
  uint32_t before = load_relaxed(&c->mode);
  uint64_t time = recording_now(r), blocks;
  if (c->stop_reason) return SONDE_EIO;
  if (before & ~mode & RECORD_MAPPINGS) (void)recording_checkpoint(r);
  if (mode & RECORD_SAMPLED_BLOCKS && sample_bytes != c->sample_bytes) {
    store_relaxed(&c->sample_bytes, sample_bytes);
    store_release(&c->rate_changes, c->rate_changes + 1);
  }
  store_release(&c->mode, mode);
  int status = 0;
  if (before & ~mode & RECORD_LIVE) {
    /* By then, nearly all calls that read the previous mode have ended. */
    const struct timespec moment = {.tv_nsec = STRAGGLER_NS};
    nanosleep(&moment, NULL);
    status = snapshot(r, r->live_fd, SNAPSHOT_MODE, time, &blocks);
    empty_table(r);
  }
  event_chunk_t chunk;
  if (!begin(&chunk)) return SONDE_ENOMEM;
  uint32_t applied = recording_applied_mode(r, mode);
  put(&chunk, applied);
  put(&chunk, applied & RECORD_SAMPLED_BLOCKS ? sample_bytes : 0);
  int written = append(r, &chunk, EXTENDED_MODE, time);
  free(chunk.bytes);
  return status < 0 ? status : written;
}

static void put_text(event_chunk_t *c, const char *text, size_t limit) {
  size_t size = strnlen(text, limit);
  put(c, size);
  memcpy(body_of(c) + c->used, text, size);
  c->used += (uint32_t)size;
}

int recording_add_process(recording_t *r, const recorded_process_t *p) {
  event_chunk_t chunk;
  if (!begin(&chunk)) return SONDE_ENOMEM;
  const uint64_t numbers[] = {p->pid, p->parent, p->start_ns, p->end_ns, p->cpu_ns};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    put(&chunk, numbers[i]);
  put_text(&chunk, p->command, 4096);
  put_text(&chunk, p->file, 4096);
  put_text(&chunk, p->why, 256);
  int status = append(r, &chunk, EXTENDED_PROCESS, recording_now(r));
  free(chunk.bytes);
  return status;
}

int recording_add_numbers(recording_t *r, extended_subtype_t subtype, const uint64_t *numbers,
                          size_t count) {
  event_chunk_t chunk;
  if (!begin(&chunk)) return SONDE_ENOMEM;
  for (size_t i = 0; i < count; i++)
    put(&chunk, numbers[i]);
  int status = append(r, &chunk, (uint8_t)subtype, recording_now(r));
  free(chunk.bytes);
  return status;
}

int recording_add_children(recording_t *r, uint64_t own_cpu_ns, uint64_t children_cpu_ns) {
  const uint64_t numbers[] = {own_cpu_ns, children_cpu_ns};
  return recording_add_numbers(r, EXTENDED_CHILDREN, numbers, 2);
}

int recording_add_marker(recording_t *r, const char *name) {
  event_chunk_t chunk;
  size_t size = strnlen(name, 1024);
  if (!begin(&chunk)) return SONDE_ENOMEM;
  put(&chunk, size);
  memcpy(body_of(&chunk) + chunk.used, name, size);
  chunk.used += (uint32_t)size;
  put(&chunk, 0);
  int status = append(r, &chunk, EXTENDED_MARKER, recording_now(r));
  free(chunk.bytes);
  return status;
}
