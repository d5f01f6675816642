/* SPDX-License-Identifier: MIT
 *
 * The shared buffers are a memfd that is sealed against shrinking, so that the program's stores
 * never cause SIGBUS. Its directory of slots is valid at any instant. A slot with the magic number
 * contains a chunk. If the program died while it closed a chunk, the chunk counts as closed if its
 * checksum matches; otherwise it is open, and its records end where the zeros begin.
 */
#define _GNU_SOURCE
#include "recorder/recording_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "record/chunk_copy.h"
#include "record/header.h"
#include "record/live_table.h"
#include "recorder/monitor/filters.h"
#include "recorder/life.h"
#include "recorder/liveness.h"
#include "sonde/status.h"

#define CHECKPOINT_NS UINT64_C(1000000000)

/* ---- creation ----------------------------------------------------------------------------- */

/* Creates memory of a fixed size that only takes up what is written. */
static int make_memory(const char *name, uint64_t size) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, (off_t)size) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    return fd;
  close(fd);
  return -1;
}

static int make_shm(recording_t *r) {
  r->shm_fd = make_memory("sonde-shm", SHM_BYTES);
  r->live_fd = make_memory("sonde-live", live_level_offset(LIVE_LEVELS));
  if (r->shm_fd < 0 || r->live_fd < 0) return SONDE_ENOMEM;
  void *map =
      mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->shm_fd, 0);
  if (map == MAP_FAILED) return SONDE_ENOMEM;
  r->control = map;
  return 0;
}

/* Returns false with errno. */
static bool is_done(int status) {
  if (status < 0) errno = -status;
  return status == 0;
}

/* Writes all that a reader needs, in case the recorder is killed at once. False with errno. */
static bool write_first_header(recording_t *r, uint64_t ring_bytes) {
  if (!header_control(&r->header, r->file_fd, ring_bytes, r->control)) return false;
  r->header.ring_start = r->control->ring_start;
  r->header.ring_bytes = r->control->ring_bytes;
  return is_done(header_write(&r->header, r->file_fd));
}

int recording_create(recording_t *r, const char *path, uint32_t pid, uint32_t mode,
                     uint64_t sample_bytes, uint64_t limit_bytes, char *error, size_t error_size) {
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0600);
  if (fd < 0) {
    snprintf(error, error_size, "cannot create '%s': %s", path, strerror(errno));
    return SONDE_EIO;
  }
  int status =
      recording_create_in(r, fd, path, pid, mode, sample_bytes, limit_bytes, error, error_size);
  if (status < 0) unlink(path);
  return status;
}

int recording_create_in(recording_t *r, int fd, const char *path, uint32_t pid, uint32_t mode,
                        uint64_t sample_bytes, uint64_t limit_bytes, char *error,
                        size_t error_size) {
  memset(r, 0, sizeof *r);
  r->shm_fd = r->live_fd = -1;
  r->file_fd = fd;
  header_begin(&r->header, (pid_t)pid);
  int status = make_shm(r);
  header_calibrate(&r->header); /* the setup time counts */
  r->header.recorder_pid = (uint32_t)getpid();
  r->header.shm_fd = r->shm_fd;
  r->header.mode = mode;
  r->header.pid_space = liveness_pid_space();
  if (status < 0) {
    snprintf(error, error_size, "cannot allocate shared memory for '%s': %s%s", path,
             strerror(errno), errno == EFBIG ? " (ulimit -f)" : "");
  } else if (!write_first_header(r, header_ring_bytes(limit_bytes))) {
    snprintf(error, error_size, "cannot write '%s': %s", path, strerror(errno));
    status = SONDE_EIO;
  }
  if (status < 0) {
    recording_release(r);
    return status;
  }
  r->control->mode = mode;
  r->control->live_fd = r->live_fd;
  r->control->limit_bytes = limit_bytes;
  r->control->sample_bytes = sample_bytes;
  life_begin(r->control);
  return 0;
}

void recording_settings(const recording_t *r, char *out, size_t size) {
  snprintf(out, size, "%u:%d:%d:%u", r->header.recorder_pid, r->shm_fd, r->file_fd, r->header.pid);
}

/* ---- updates and the end -------------------------------------------------------------------- */

uint64_t recording_now(const recording_t *r) {
  uint64_t ticks, ns;
  header_clocks(&r->header, &ticks, &ns);
  return ticks >> r->header.clock_shift;
}

uint64_t recording_now_ns(const recording_t *r) {
  return os_monotonic_ns() - r->header.start_monotonic_ns;
}

/* Records the mappings at doubling intervals. Only this shows mappings that are made below the
 * hooks.
 */
static void checkpoint_when_due(recording_t *r) {
  uint64_t now_ns = recording_now_ns(r);
  if (now_ns < r->next_checkpoint_ns || recording_checkpoint(r) < 0) return;
  r->checkpoint_after_ns = r->checkpoint_after_ns ? 2 * r->checkpoint_after_ns : CHECKPOINT_NS;
  r->next_checkpoint_ns = now_ns + r->checkpoint_after_ns;
}

bool recording_append(recording_t *r, const void *data, uint32_t size) {
  /* The recorder's chunks define what the others use, so they are never overwritten. */
  const chunk_header_t *h = data;
  bool own = h->stream == RECORDER_STREAM || h->stream >= MONITOR_STREAM;
  uint32_t type = own ? CHUNK_TABLES : h->type;
  uint64_t offset = shm_reserve(r->control, type, size);
  int status = header_write_at(r->file_fd, data, size, offset);
  if (status == 0) {
    gap_end(r->control);
    return true;
  }
  gap_begin(r->control, header_stop_reason(-status));
  if (!shm_in_ring(r->control, type, size)) gap_give_back(r->control, r->file_fd, offset, size);
  return is_done(status);
}

static bool collect_slot(recording_t *r, uint32_t page, uint32_t slot_size, uint8_t *buffer) {
  const uint8_t *slot = (const uint8_t *)r->control + (uint64_t)page * SHM_PAGE;
  if (((const chunk_header_t *)slot)->magic != CHUNK_MAGIC) return true;
  memcpy(buffer, slot, slot_size);
  uint32_t size = chunk_close(buffer, slot_size);
  if (!size) return true;
  return recording_append(r, buffer, size);
}

/* Writes the chunks that the program has handed over, and frees their slots. */
static void drain(recording_t *r) {
  uint32_t largest = shm_class_pages(SHM_CLASSES - 1) * SHM_PAGE;
  uint8_t *buffer = load_relaxed(&r->control->handed_over) ? malloc(largest) : NULL;
  for (uint32_t page = SHM_CONTROL_PAGES; buffer && page < SHM_PAGES; page++) {
    uint32_t c = r->control->slot_class[page];
    if (!c || c > SHM_CLASSES) continue;
    uint32_t slot_size = shm_class_pages(c - 1) * SHM_PAGE;
    chunk_header_t *h = (void *)((uint8_t *)r->control + (uint64_t)page * SHM_PAGE), copy;
    if (load_acquire(&h->magic) != CHUNK_MAGIC || !(h->flags & CHUNK_HANDED_OVER)) continue;
    memcpy(buffer, h, slot_size);
    memcpy(&copy, buffer, sizeof copy);
    if (copy.size < sizeof copy || copy.size > slot_size || copy.size % 8 ||
        !chunk_is_intact(buffer, copy.size))
      continue; /* the program is still closing it */
    if (!recording_append(r, buffer, chunk_close(buffer, slot_size))) break;
    memset((uint8_t *)h + sizeof h->magic, 0, slot_size - sizeof h->magic);
    store_release(&h->magic, SLOT_DRAINED);
  }
  free(buffer);
}

/* The free bytes below which recording stops. */
static uint64_t least_free(const recording_t *r, const struct statvfs *disk) {
  const uint64_t most = UINT64_C(512) << 20, part = (uint64_t)disk->f_blocks * disk->f_frsize / 50;
  if (r->keep_free_bytes != RECORDING_KEEP_DEFAULT) return r->keep_free_bytes;
  return part < most ? part : most;
}

/* A full disk harms other programs, too, so recording ends before that. */
static void check_space(recording_t *r) {
  struct statvfs disk;
  uint32_t none = RECORD_STOP_NONE;
  if (!r->keep_free_bytes || fstatvfs(r->file_fd, &disk) != 0 || !disk.f_blocks ||
      (uint64_t)disk.f_bavail * disk.f_frsize >= least_free(r, &disk) ||
      !cas_acq_rel(&r->control->stop_reason, &none, (uint32_t)RECORD_STOP_SPACE))
    return;
  store_release(&r->control->mode, 0);
  recording_set_tracing(r, false);
}

void recording_refresh(recording_t *r) {
  checkpoint_when_due(r);
  check_space(r);
  filters_check(r->control);
  drain(r);
  header_update(&r->header, r->control);
  shm_calibrate(r->control, &r->header);
  (void)header_write(&r->header, r->file_fd);
}

static bool collect(recording_t *r) {
  uint32_t largest = shm_class_pages(SHM_CLASSES - 1) * SHM_PAGE;
  uint8_t *buffer = malloc(largest);
  bool good = buffer != NULL;
  for (uint32_t page = SHM_CONTROL_PAGES; good && page < SHM_PAGES; page++) {
    uint32_t c = r->control->slot_class[page];
    if (c && c <= SHM_CLASSES)
      good = collect_slot(r, page, shm_class_pages(c - 1) * SHM_PAGE, buffer);
  }
  free(buffer);
  return good;
}

int recording_finish(recording_t *r, int wait_status) {
  errno = 0;
  uint64_t blocks;
  /* A gap that lasts until the end, although the recorder could write now. */
  uint32_t reason = load_acquire(&r->control->stop_reason);
  gap_retry_now(r->control);
  int live = recording_snapshot(r, SNAPSHOT_END, &blocks);
  bool collected = collect(r) && (live == 0 || live == SONDE_EINVAL);
  int error = errno;
  if (!collected && !r->control->stop_reason) r->control->stop_reason = header_stop_reason(error);
  header_finish(&r->header, r->control, (uint32_t)wait_status, r->file_fd);
  if (!r->header.stop_reason) r->header.stop_reason = reason;
  return is_done(header_write(&r->header, r->file_fd)) && collected ? 0 : SONDE_EIO;
}

void recording_stop(recording_t *r) {
  uint32_t none = RECORD_STOP_NONE;
  cas_acq_rel(&r->control->stop_reason, &none, (uint32_t)RECORD_STOP_REQUESTED);
  recording_refresh(r);
}

void recording_release(recording_t *r) {
  if (r->control) {
    life_end(r->control);
    munmap(r->control, SHM_BYTES);
  }
  if (r->shm_fd >= 0) close(r->shm_fd);
  if (r->live_fd >= 0) close(r->live_fd);
  if (r->file_fd >= 0) close(r->file_fd);
  r->control = NULL;
  r->shm_fd = r->live_fd = r->file_fd = -1;
}
