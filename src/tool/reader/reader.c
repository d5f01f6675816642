/* SPDX-License-Identifier: MIT
 *
 * Opens a recording: reads the header and builds an index of the chunks.
 *
 * The index walks the file chunk by chunk. Where no chunk begins (a killed process left a hole, or
 * the bytes are damaged), it searches for the next magic at each multiple of eight bytes and counts
 * the gap. If a chunk is present twice, in the file and in the shared buffers, the index keeps the
 * copy with the correct checksum.
 */
#include "reader/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader/calls.h"
#include "reader/internal.h"
#include "reader/packed.h"
#include "reader/resume.h"
#include "record/shm.h"
#include "sonde/status.h"

size_t reader_read_fd(int fd, uint64_t offset, void *out, size_t size) {
  size_t done = 0;
  while (done < size) {
    ssize_t n = pread(fd, (char *)out + done, size - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += (size_t)n;
  }
  return done;
}

size_t reader_read(const reader_t *r, bool shm, uint64_t offset, void *out, size_t size) {
  const uint8_t *data = shm ? r->shm : r->data;
  uint64_t whole = shm ? r->shm_size : r->size;
  if (!data) return shm ? 0 : reader_read_fd(r->fd, offset, out, size);
  if (offset >= whole) return 0;
  if (size > whole - offset) size = (size_t)(whole - offset);
  memcpy(out, data + offset, size);
  return size;
}

/* ---- one chunk ---------------------------------------------------------------------------- */

static uint32_t size_limit(const chunk_header_t *h) {
  return h->flags & CHUNK_PACKED ? PACKED_UNPACKED_MAX : CHUNK_MAX_BYTES;
}

static bool has_valid_fields(const chunk_header_t *h) {
  return h->magic == CHUNK_MAGIC && h->size >= sizeof *h && h->size % 8 == 0 &&
         h->used <= h->size - sizeof *h && h->address_shift < 64;
}

static bool is_valid(const chunk_header_t *h) {
  return has_valid_fields(h) && h->size <= size_limit(h);
}

static bool unpack(chunk_buffer_t *b, uint32_t used, uint64_t *damaged) {
  chunk_buffer_t unpacked = {0};
  unpacked.size = packed_unpack(b->bytes + sizeof(chunk_header_t), used, &unpacked.bytes,
                                &unpacked.capacity, READ_PADDING);
  free(b->bytes);
  *b = unpacked;
  if (!b->size) (*damaged)++;
  return b->size != 0;
}

bool reader_place(reader_t *r, const chunk_place_t *place, chunk_buffer_t *b) {
  return reader_read_place(r, place, b, &r->damage.damaged_chunks);
}

bool reader_read_place(const reader_t *r, const chunk_place_t *place, chunk_buffer_t *b,
                       uint64_t *damaged) {
  chunk_header_t h;
  size_t need = (size_t)place->size + READ_PADDING;
  b->size = b->at = 0;
  b->heads = place->from_shm ? r->heads + place->offset : NULL;
  if (b->capacity < need) {
    free(b->bytes);
    b->bytes = malloc(need);
    b->capacity = b->bytes ? need : 0;
    if (!b->bytes) return false;
  }
  size_t n = reader_read(r, place->from_shm, place->offset, b->bytes, place->size);
  memset(b->bytes + n, 0, need - n);
  memcpy(&h, b->bytes, sizeof h);
  if (n < sizeof h || !is_valid(&h)) {
    (*damaged)++;
    return false;
  }
  bool whole = n == place->size && h.size == place->size;
  if (whole && h.flags & CHUNK_CLOSED && !chunk_is_intact(b->bytes, place->size)) {
    (*damaged)++;
    return false;
  }
  if (!whole) (*damaged)++; /* truncated: read as far as it goes */
  b->size = n;
  if (!(h.flags & CHUNK_PACKED)) return true;
  if (!whole || place->from_shm) return false;
  return unpack(b, h.used, damaged);
}

bool reader_chunk(chunk_buffer_t *b, chunk_header_t *h, const uint8_t **payload,
                  const uint8_t **end) {
  size_t left = b->size - b->at;
  if (left < sizeof *h) return false;
  memcpy(h, b->bytes + b->at, sizeof *h);
  /* The tables of a summary are one chunk, which may be larger than those of a recording. */
  if (!has_valid_fields(h) || h->flags & CHUNK_PACKED) return false;
  *payload = b->bytes + b->at + sizeof *h;
  size_t used = left - sizeof *h;
  if (h->flags & CHUNK_CLOSED && h->used < used) used = h->used;
  *end = *payload + used;
  b->at += h->size < left ? h->size : left;
  return true;
}

/* ---- the index ---------------------------------------------------------------------------- */

static void note_place(reader_t *r, uint16_t exec_index, uint64_t time) {
  if (exec_index > r->programs) r->programs = exec_index;
  if (exec_index > r->exec_index && (!r->next_program || exec_index < r->next_program))
    r->next_program = exec_index;
  if (time > r->last_time) r->last_time = time;
}

static int add_place(reader_t *r, const chunk_header_t *h, uint64_t offset, uint32_t size,
                     bool shm) {
  chunk_place_t *place = ARRAY_ADD(r->chunks);
  if (!place) return SONDE_ENOMEM;
  *place = (chunk_place_t){.offset = offset,
                           .base_time = h->base_time,
                           .size = size,
                           .stream = h->stream,
                           .sequence = h->sequence,
                           .span = h->flags & CHUNK_PACKED && h->records ? h->records : 1,
                           .exec_index = h->exec_index,
                           .type = (uint8_t)(h->type > 255 ? 255 : h->type),
                           .from_shm = shm};
  note_place(r, h->exec_index,
             h->close_time            ? h->close_time
             : h->type == CHUNK_CALLS ? 0
                                      : h->base_time);
  return 0;
}

/* An unfinished recording lasts until its last chunk, which may be later than the last update of
 * the header. The clock's rate stays as it is. */
static void extend(reader_t *r) {
  record_header_t *h = &r->header;
  if (h->state != RECORD_OPEN || h->clock_shift > 32 || h->end_ticks <= h->start_ticks ||
      h->end_monotonic_ns <= h->start_monotonic_ns || r->last_time > UINT64_MAX >> h->clock_shift)
    return;
  uint64_t last = r->last_time << h->clock_shift;
  if (last <= h->end_ticks) return;
  double passed = (double)(last - h->end_ticks) * reader_clock_rate(r);
  if (passed > 1e18) return;
  h->end_ticks = last;
  h->end_monotonic_ns += (uint64_t)passed;
}

/* The offset of the next magic after FROM, or the end of the file. */
static uint64_t next_chunk(const reader_t *r, uint64_t from) {
  static const uint32_t magic = CHUNK_MAGIC;
  uint8_t block[1 << 16];
  for (uint64_t at = from; at < r->size;) {
    size_t n = reader_read(r, false, at, block, sizeof block);
    if (n < sizeof(chunk_header_t)) break;
    for (size_t i = 0; i + 4 <= n; i += 8)
      if (!memcmp(block + i, &magic, 4)) return at + i;
    at += n & ~(size_t)7;
  }
  return r->size;
}

/* Only zeros from FROM to TO: the reserved place of a chunk that was not written, as the disk was
 * full or the recorder was killed. Its events follow later, from the shared buffers, or are counted
 * as lost. */
static bool is_hole(const reader_t *r, uint64_t from, uint64_t to) {
  uint8_t block[1 << 12];
  while (from < to) {
    size_t wanted = to - from < sizeof block ? (size_t)(to - from) : sizeof block;
    if (reader_read(r, false, from, block, wanted) != wanted) return false;
    for (size_t i = 0; i < wanted; i++)
      if (block[i]) return false;
    from += wanted;
  }
  return true;
}

/* Whether a writer was stopped, by an error or as it was killed. Each one left zeros in its place.
 */
static bool may_have_holes(const reader_t *r) {
  return r->header.gaps || r->header.state == RECORD_OPEN ||
         (r->header.stop_reason != RECORD_STOP_NONE &&
          r->header.stop_reason != RECORD_STOP_REQUESTED);
}

/* No chunk begins between FROM and TO. In a ring, such a gap is normal between the newest chunk and
 * the oldest, which may be partly overwritten, and in the part that was never used. */
static void note_skipped(reader_t *r, uint64_t from, uint64_t to) {
  uint64_t start = r->header.ring_start, end = start + r->header.ring_bytes;
  if (from >= start && from < end) from = to < end ? to : end;
  if (from == to || (may_have_holes(r) && is_hole(r, from, to))) return;
  if (!r->damage.skipped_bytes) r->damage.first_skipped_at = from;
  r->damage.skipped_bytes += to - from;
}

/* What an earlier reader found. Returns the offset behind it, or a negative status. */
static int64_t index_known(reader_t *r) {
  const struct resume *resume = r->resume;
  if (!resume || r->header.ring_bytes || resume->known_until < r->header.header_size)
    return r->header.header_size;
  for (size_t i = 0; i < resume->known.count; i++) {
    chunk_place_t *place = ARRAY_ADD(r->chunks);
    if (!place) return SONDE_ENOMEM;
    *place = resume->known.items[i];
    note_place(r, place->exec_index, place->base_time);
  }
  return (int64_t)resume->known_until;
}

static int index_file(reader_t *r) {
  int64_t behind = index_known(r);
  if (behind < 0) return (int)behind;
  uint64_t at = (uint64_t)behind;
  r->solid_until = 0;
  while (at < r->size) {
    chunk_header_t h;
    errno = 0;
    size_t n = reader_read(r, false, at, &h, sizeof h);
    if (n < sizeof h && errno) return SONDE_EIO;
    if (n < sizeof h || !is_valid(&h)) {
      uint64_t next = n < sizeof h ? r->size : next_chunk(r, at + 8);
      if (!r->solid_until) r->solid_until = at;
      note_skipped(r, at, next);
      at = next;
      continue;
    }
    int status = add_place(r, &h, at, h.size, false);
    if (status < 0) return status;
    if (!r->solid_until && h.size > r->size - at) r->solid_until = at; /* it is being written */
    at += h.size;
  }
  if (!r->solid_until) r->solid_until = at;
  return 0;
}

/* Whether the pids of H are those that this process sees. */
static bool are_own_pids(const record_header_t *h) {
  struct stat space;
  return h->pid_space && stat("/proc/self/ns/pid", &space) == 0 && h->pid_space == space.st_ino;
}

/* Reads the open chunks of a running recording from the buffers that its recorder shares. */
static void read_shm(reader_t *r) {
  char path[64];
  if (r->header.state != RECORD_OPEN || !r->header.recorder_pid || r->data) return;
  snprintf(path, sizeof path, "/proc/%u/fd/%d", r->header.recorder_pid, r->header.shm_fd);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  bool readable = fd >= 0 || errno == ENOENT;
  if (fd >= 0) {
    reader_copy_shm(r, fd);
    close(fd);
  }
  r->abandoned = readable && !r->shm && are_own_pids(&r->header);
}

static void index_shm(reader_t *r) {
  const shm_control_t *control = (const void *)r->shm;
  for (uint32_t page = SHM_CONTROL_PAGES; control && page < r->shm_size / SHM_PAGE; page++) {
    uint32_t c = control->slot_class[page];
    chunk_header_t h;
    if (!c || c > SHM_CLASSES) continue;
    uint64_t offset = (uint64_t)page * SHM_PAGE;
    if (reader_read(r, true, offset, &h, sizeof h) != sizeof h || h.magic != CHUNK_MAGIC) continue;
    if (add_place(r, &h, offset, shm_class_pages(c - 1) * SHM_PAGE, true) < 0) break;
  }
}

static int by_stream_and_sequence(const void *left, const void *right) {
  const chunk_place_t *a = left, *b = right;
  if (a->type != b->type) return a->type < b->type ? -1 : 1;
  if (a->exec_index != b->exec_index) return a->exec_index < b->exec_index ? -1 : 1;
  if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
  if (a->sequence != b->sequence) return a->sequence < b->sequence ? -1 : 1;
  if (a->from_shm != b->from_shm) return a->from_shm ? 1 : -1;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static bool same_chunk(const chunk_place_t *a, const chunk_place_t *b) {
  return a->type == b->type && a->exec_index == b->exec_index && a->stream == b->stream &&
         a->sequence == b->sequence;
}

/* The bytes of records in the chunk at PLACE; -1: it is damaged. An open chunk ends where the zeros
 * begin. */
static int64_t records_of(reader_t *r, const chunk_place_t *place) {
  chunk_buffer_t buffer = {0};
  chunk_header_t h;
  const uint8_t *payload, *end;
  uint64_t before = r->damage.damaged_chunks;
  int64_t bytes = -1;
  if (reader_place(r, place, &buffer) && r->damage.damaged_chunks == before) {
    bytes = 0;
    while (reader_chunk(&buffer, &h, &payload, &end)) {
      while (!(h.flags & CHUNK_CLOSED) && end > payload && !end[-1])
        end--;
      bytes += end - payload;
    }
  }
  r->damage.damaged_chunks = before;
  free(buffer.bytes);
  return bytes;
}

/* Whether PLACE was read before, or is not read in parts. Otherwise sets *EXPECTED, unless it is
 * NULL, to the sequence number of the first chunk of its stream that was not read to its end. */
static bool is_read(const reader_t *r, const chunk_place_t *place, uint32_t *expected) {
  if (!r->resume || place->type == CHUNK_TABLES) return false;
  if (place->type != CHUNK_EVENTS) return true;
  const stream_place_t *until = reader_resumed(r, place->stream);
  if (until && place->sequence < until->sequence) return true;
  /* the next chunk is there, and the one that was read may be overwritten */
  if (until && expected) *expected = until->sequence + (place->sequence > until->sequence);
  return false;
}

/* Selects the chunks of the program that is read, one copy of each, and counts gaps. */
static void select_chunks(reader_t *r) {
  size_t kept = 0;
  chunk_place_t *c = r->chunks.items;
  if (r->chunks.count) qsort(c, r->chunks.count, sizeof *c, by_stream_and_sequence);
  for (size_t i = 0; i < r->chunks.count; i++) {
    if (c[i].exec_index != r->exec_index) continue;
    if (kept && same_chunk(&c[kept - 1], &c[i])) {
      if (records_of(r, &c[i]) > records_of(r, &c[kept - 1])) c[kept - 1] = c[i];
      continue;
    }
    bool follows = kept && c[kept - 1].type == c[i].type && c[kept - 1].stream == c[i].stream;
    uint32_t expected = follows ? c[kept - 1].sequence + c[kept - 1].span : 0;
    if (is_read(r, &c[i], follows ? NULL : &expected)) continue;
    if (!follows && c[i].type != CHUNK_TABLES && r->header.ring_bytes) {
      r->damage.dropped_chunks += c[i].sequence - expected;
      if (c[i].sequence && c[i].base_time > r->damage.complete_from)
        r->damage.complete_from = c[i].base_time;
    } else
      r->damage.missing_chunks += c[i].sequence - expected;
    c[kept++] = c[i];
  }
  r->chunks.count = kept;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int check_header(const reader_t *r, size_t n, char *error, size_t size) {
  const record_header_t *h = &r->header;
  if (n < 8 || memcmp(h->magic, RECORD_MAGIC, 8)) {
    snprintf(error, size, n ? "not a sonde recording" : "the file is empty");
    return SONDE_EFORMAT;
  }
  if (n < sizeof *h) {
    snprintf(error, size, "the recording is truncated within its header");
    return SONDE_EFORMAT;
  }
  if (h->version > RECORD_VERSION || h->features & ~RECORD_FEATURES) {
    snprintf(error, size, "the recording has format version %u; this sonde reads up to %u",
             h->version, RECORD_VERSION);
    return SONDE_EUNSUPPORTED;
  }
  if (h->byte_order != RECORD_BYTE_ORDER || h->header_size < sizeof *h ||
      h->header_size > (1u << 20) || h->header_size % 8 || h->clock_shift > 32) {
    snprintf(error, size, "the recording's header is damaged");
    return SONDE_EFORMAT;
  }
  return 0;
}

/* The kernel wrote the whole header at once, so a shorter file was cut. */
static int check_size(reader_t *r, char *error, size_t size) {
  uint64_t whole = r->header.file_bytes;
  if (r->size < r->header.header_size) {
    snprintf(error, size, "the recording is truncated within its header");
    return SONDE_EFORMAT;
  }
  if (whole == RECORD_INCOMPLETE)
    r->damage.truncated_bytes = whole;
  else if (whole > r->size)
    r->damage.truncated_bytes = whole - r->size;
  return 0;
}

/* Selects the program to read; false if it has no chunks. */
static bool choose_program(reader_t *r) {
  if (!r->exec_index) r->exec_index = r->programs;
  if (r->resume && r->resume->has_begun) return true;
  for (size_t i = 0; i < r->chunks.count; i++)
    if (r->chunks.items[i].exec_index == r->exec_index) return true;
  return r->exec_index == r->programs;
}

static int open_reader(reader_t *r, char *error, size_t error_size) {
  errno = 0;
  size_t n = reader_read(r, false, 0, &r->header, sizeof r->header);
  if (n < sizeof r->header && errno) {
    snprintf(error, error_size, "%s", strerror(errno));
    return SONDE_EIO;
  }
  int status = check_header(r, n, error, error_size);
  if (status < 0) return status;
  struct stat s;
  read_shm(r);
  if (!r->data && fstat(r->fd, &s) == 0) r->size = (uint64_t)s.st_size;
  if ((status = check_size(r, error, error_size)) < 0) return status;
  status = index_file(r);
  if (status == 0) {
    index_shm(r);
    extend(r);
    if (!choose_program(r)) {
      snprintf(error, error_size, "the recording has no program %u", r->exec_index);
      return SONDE_ENOTFOUND;
    }
    select_chunks(r);
    status = reader_tables(r);
    if (status == 0) status = reader_name_code(r);
    if (status == 0 && r->resume) resume_name_frames(r->resume, r->frames.items, r->frames.count);
  }
  if (status < 0) snprintf(error, error_size, "%s", sonde_strerror(status));
  return status;
}

reader_t *reader_new(void) {
  reader_t *r = calloc(1, sizeof *r);
  if (r) r->fd = -1;
  return r;
}

static int finish_open(reader_t **out, reader_t *r, char *error, size_t error_size) {
  int status = open_reader(r, error, error_size);
  if (status < 0) {
    reader_close(r);
    return status;
  }
  *out = r;
  return 0;
}

reader_loss_t reader_recorder_loss(const reader_t *r) {
  if (r->abandoned) return READER_LOST_NEWEST;
  return r->header.stop_reason == RECORD_STOP_RECORDER ? READER_LOST_RECORDER : READER_LOST_NOTHING;
}

int reader_open(reader_t **out, const char *path, char *error, size_t error_size) {
  return reader_open_program(out, path, 0, error, error_size);
}

int reader_open_program(reader_t **out, const char *path, uint32_t program, char *error,
                        size_t error_size) {
  reader_t *r = reader_new();
  if (!r) return SONDE_ENOMEM;
  r->exec_index = (uint16_t)(program < UINT16_MAX ? program : UINT16_MAX);
  return reader_open_path(out, r, path, error, error_size);
}

int reader_open_path(reader_t **out, reader_t *r, const char *path, char *error,
                     size_t error_size) {
  struct stat s;
  /* Non-blocking: opening a pipe must not wait for a writer. */
  r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (r->fd < 0 || fstat(r->fd, &s) < 0 || !S_ISREG(s.st_mode)) {
    snprintf(error, error_size, "%s", r->fd < 0 ? strerror(errno) : "not a regular file");
    reader_close(r);
    return SONDE_EIO;
  }
  r->size = (uint64_t)s.st_size;
  return finish_open(out, r, error, error_size);
}

int reader_open_bytes(reader_t **out, const void *data, uint64_t size, char *error,
                      size_t error_size) {
  reader_t *r = reader_new();
  if (!r) return SONDE_ENOMEM;
  r->data = data;
  r->size = size;
  return finish_open(out, r, error, error_size);
}

void reader_close(reader_t *r) {
  if (!r) return;
  if (r->fd >= 0) close(r->fd);
  free(r->shm);
  free(r->heads);
  while (r->texts) {
    text_block_t *next = r->texts->next;
    free(r->texts);
    r->texts = next;
  }
  free(r->chunks.items);
  free(r->images.items);
  free(r->threads.items);
  free(r->frames.items);
  free(r->nodes.items);
  free(r->links.items);
  free(r->chain_nodes.items);
  free(r->merged_stacks.items);
  free(r->python_calls.items);
  free(r->arguments.items);
  free(r->sensor_records.items);
  free(r->frame_texts.items);
  free(r->frame_functions.items);
  free(r->functions.items);
  free(r->reached.items);
  reader_free_code(r);
  ids_free(&r->image_ids);
  ids_free(&r->thread_ids);
  ids_free(&r->frame_ids);
  ids_free(&r->node_ids);
  ids_free(&r->chain_ids);
  free(r);
}

uint32_t reader_program(const reader_t *r) { return r->exec_index; }

uint32_t reader_programs(const reader_t *r) {
  return r->header.exec_count > r->programs ? r->header.exec_count : r->programs;
}

bool reader_is_agentless(const reader_t *r) { return r->is_agentless; }

const record_header_t *reader_header(const reader_t *r) { return &r->header; }
const reader_damage_t *reader_damage(const reader_t *r) { return &r->damage; }

uint64_t reader_ns(const reader_t *r, uint64_t ticks) {
  const record_header_t *h = &r->header;
  uint64_t start = h->start_ticks >> h->clock_shift;
  if (ticks <= start) return 0;
  double span_ticks = (double)(h->end_ticks - h->start_ticks);
  double span_ns = (double)(h->end_monotonic_ns - h->start_monotonic_ns);
  double per_tick = h->end_ticks > h->start_ticks && span_ns > 0 ? span_ns / span_ticks : 1.0;
  double ns = (double)(ticks - start) * (double)(UINT64_C(1) << h->clock_shift) * per_tick;
  return ns < 9e18 ? (uint64_t)ns : UINT64_MAX;
}
