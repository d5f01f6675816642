/* SPDX-License-Identifier: MIT */
#include "record/standalone.h"

#include "record/header.h"
#include "record/live_table.h"
#include "record/writer.h"
#include "sonde/status.h"

/* The shared buffers are created once and stay mapped: a thread may read the control page at any
 * time, also after the recording has ended. The next recording uses them again. */
static struct local {
  record_header_t header;
  shm_control_t *control; /* NULL: not created yet, or this is a child of fork */
  int file_fd, shm_fd, live_fd;
  uint64_t limit_bytes; /* of the next recording; 0: none */
} local;

static void fill_header(record_header_t *h, int shm_fd) {
  header_begin(h, os_pid());
  header_calibrate(h);
  h->pid_space = os_pid_space();
  h->recorder_pid = h->pid;
  h->shm_fd = shm_fd;
}

static bool fill_control(shm_control_t *c) {
  c->stop_reason = c->orphaned = 0;
  c->lost_events = c->lost_stacks = c->lost_definitions = c->unknown_frees = 0;
  c->ring_at = 0;
  if (!header_control(&local.header, local.file_fd, header_ring_bytes(local.limit_bytes), c))
    return false;
  local.header.ring_start = c->ring_start;
  local.header.ring_bytes = c->ring_bytes;
  c->limit_bytes = local.limit_bytes;
  c->live_fd = local.live_fd;
  return true;
}

/* Attaches as under a recorder; the recorder is this process. */
static int attach(void) {
  const settings_t own = {.recorder_pid = local.header.pid,
                          .shm_fd = (uint32_t)local.shm_fd,
                          .file_fd = (uint32_t)local.file_fd};
  int status = writer_attach(&own);
  if (status == 0) local.control = writer_control();
  return status;
}

static int memory_file(const char *name, uint64_t size) {
  int fd = os_memory_file(name);
  if (fd < 0 || os_file_resize(fd, size) == 0) return fd;
  os_close(fd);
  return -1;
}

static int begin_first(void) {
  local.shm_fd = memory_file("sonde-shm", SHM_BYTES);
  local.live_fd = memory_file("sonde-live", live_level_offset(LIVE_LEVELS));
  shm_control_t *c =
      local.shm_fd < 0 || local.live_fd < 0 ? NULL : os_map_shared(local.shm_fd, 0, SHM_BYTES);
  int status = SONDE_ENOMEM;
  if (c) {
    fill_header(&local.header, local.shm_fd);
    status =
        fill_control(c) && header_write(&local.header, local.file_fd) == 0 ? attach() : SONDE_EIO;
    os_unmap(c, SHM_BYTES);
  }
  if (status == 0) return 0;
  if (local.shm_fd >= 0) os_close(local.shm_fd);
  if (local.live_fd >= 0) os_close(local.live_fd);
  return status;
}

static int begin_again(void) {
  fill_header(&local.header, local.shm_fd);
  if (!fill_control(local.control) || header_write(&local.header, local.file_fd) < 0)
    return SONDE_EIO;
  writer_global->file_fd = local.file_fd;
  writer_restart();
  return 0;
}

void standalone_limit(uint64_t bytes) { local.limit_bytes = bytes; }

bool standalone_is_first(void) { return !writer_control() || local.control != writer_control(); }

bool standalone_is_on(void) {
  return local.control && local.control == writer_control() && local.control->file_fd >= 0;
}

const record_header_t *standalone_header(void) { return &local.header; }

uint64_t standalone_now(void) {
  uint64_t ticks, ns;
  header_clocks(&local.header, &ticks, &ns);
  return ticks >> local.header.clock_shift;
}

int standalone_begin(const char *path) {
  int status;
  local.file_fd = os_create_high(path);
  if (local.file_fd < 0) return SONDE_EIO;
  if (standalone_is_first())
    status = begin_first();
  else
    status = begin_again();
  if (status == 0) return 0;
  os_close(local.file_fd);
  os_remove(path);
  return status;
}

int standalone_end(void) {
  shm_control_t *c = local.control;
  writer_finish();
  header_finish(&local.header, c, RECORD_STATUS_UNKNOWN, local.file_fd);
  bool written = header_write(&local.header, local.file_fd) == 0 && !c->stop_reason;
  c->file_fd = -1; /* not recording */
  if (writer_global->file_fd != local.file_fd && writer_global->file_fd >= 0)
    os_close(writer_global->file_fd);
  writer_global->file_fd = -1;
  os_close(local.file_fd);
  return written ? 0 : SONDE_EIO;
}

/* ---- recordings of processes that have ended ------------------------------------------------- */

static bool is_own_file(int fd) {
  os_file_id_t own, other;
  return standalone_is_on() && os_file_id(local.file_fd, &own) && os_file_id(fd, &other) &&
         own.device == other.device && own.inode == other.inode;
}

/* An id may have been reused: a process with the id of the writer counts as the writer. This
 * process knows its file, unless an agent writes it. */
static bool may_be_written(const record_header_t *h, int fd, bool has_agent) {
  const uint32_t own = (uint32_t)os_pid(), writers[] = {h->pid, h->recorder_pid};
  if (h->pid_space != os_pid_space() || is_own_file(fd)) return true;
  for (int i = 0; i < 2; i++)
    if ((writers[i] != own || has_agent) && os_process_alive((pid_t)writers[i])) return true;
  return false;
}

int standalone_remove_orphan(const char *path, bool has_agent) {
  record_header_t h;
  int status = SONDE_EFORMAT, fd = os_open_read(path);
  if (fd < 0) return SONDE_EIO;
  if (os_pread(fd, &h, sizeof h, 0) == sizeof h && !memcmp(h.magic, RECORD_MAGIC, sizeof h.magic))
    status = h.state == RECORD_OPEN && !may_be_written(&h, fd, has_agent);
  os_close(fd);
  if (status == 1) os_remove(path);
  return status;
}
