/* SPDX-License-Identifier: MIT */
#include "record/header.h"

#include <errno.h>

#include "arch/arch.h"

/* Before calibration: 32 to 128 ns for a counter of 1 to 4 GHz. */
#define TICK_SHIFT     7
#define TICK_SHIFT_MAX 12
#define TICK_NS        128u
/* An error of 50 ns in both readings is 1 in 1000 of this time. Later readings are better. */
#define CALIBRATE_NS 100000u
#define READINGS     5

/* True if the kernel itself keeps time by the counter that user code reads. */
static bool counter_is_trusted(void) {
#if defined(__APPLE__)
  return true; /* mach_absolute_time counts it */
#elif defined(__aarch64__)
  return true; /* the architecture guarantees a constant rate, equal on all processors */
#else
  char name[32];
  ssize_t n = os_read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
                           sizeof name);
  return n >= 3 && !memcmp(name, "tsc", 3);
#endif
}

/* Uses the reading of several that took the fewest ticks. */
void header_clocks(const record_header_t *h, uint64_t *ticks, uint64_t *ns) {
  uint64_t least = UINT64_MAX;
  *ticks = *ns = os_monotonic_ns();
  for (int i = 0; i < READINGS && h->clock != RECORD_CLOCK_MONOTONIC; i++) {
    uint64_t before = arch_cycles(), now = os_monotonic_ns(), took = arch_cycles() - before;
    if (took >= least) continue;
    least = took;
    *ns = now;
    *ticks = before + took / 2;
  }
}

void header_init(record_header_t *h) {
  memset(h, 0, sizeof *h);
  memcpy(h->magic, RECORD_MAGIC, sizeof h->magic);
  h->version = RECORD_VERSION;
  h->header_size = RECORD_HEADER_SIZE;
  h->byte_order = RECORD_BYTE_ORDER;
  h->shm_fd = -1;
}

void header_begin(record_header_t *h, pid_t pid) {
  header_init(h);
#if defined(__aarch64__)
  h->machine = 183;
  h->clock = RECORD_CLOCK_CNTVCT;
#else
  h->machine = 62;
  h->clock = RECORD_CLOCK_TSC;
#endif
  if (!counter_is_trusted()) h->clock = RECORD_CLOCK_MONOTONIC;
  h->clock_shift = TICK_SHIFT;
  h->pid = (uint32_t)pid;
  header_clocks(h, &h->start_ticks, &h->start_monotonic_ns);
  h->start_realtime_ns = os_realtime_ns();
}

void header_calibrate(record_header_t *h) {
  const uint32_t never = 0;
  uint64_t since = os_monotonic_ns() - h->start_monotonic_ns;
  if (since < CALIBRATE_NS && h->clock != RECORD_CLOCK_MONOTONIC)
    (void)os_futex_wait(&never, 0, CALIBRATE_NS - since);
  header_clocks(h, &h->end_ticks, &h->end_monotonic_ns);
  uint64_t ticks = h->end_ticks - h->start_ticks, ns = h->end_monotonic_ns - h->start_monotonic_ns;
  h->clock_shift = 0;
  while (h->clock_shift < TICK_SHIFT_MAX && (ns << (h->clock_shift + 1)) <= TICK_NS * ticks)
    h->clock_shift++;
}

void header_update(record_header_t *h, const shm_control_t *c) {
  header_clocks(h, &h->end_ticks, &h->end_monotonic_ns);
  h->stop_reason = load_acquire(&c->stop_reason);
  h->lost_events = load_relaxed(&c->lost_events);
  h->lost_stacks = load_relaxed(&c->lost_stacks);
  h->lost_definitions = load_relaxed(&c->lost_definitions);
  h->gaps = load_relaxed(&c->gaps);
  h->gap_reason = load_relaxed(&c->gap_reason);
  h->gaps_ns = load_relaxed(&c->gaps_ns);
  if (gap_may_end(h->stop_reason)) h->gaps_ns += os_monotonic_ns() - load_relaxed(&c->gap_start_ns);
  h->exec_count = load_relaxed(&c->exec_index);
  if (h->ring_bytes) h->ring_written = load_relaxed(&c->ring_at);
}

void header_finish(record_header_t *h, const shm_control_t *c, uint32_t exit_status, int fd) {
  os_file_id_t file = {0};
  header_update(h, c);
  if (os_file_id(fd, &file))
    h->file_bytes = file.size > RECORD_HEADER_SIZE ? file.size : RECORD_HEADER_SIZE;
  h->state = RECORD_FINISHED;
  h->exit_status = exit_status;
  h->recorder_pid = 0;
  h->shm_fd = -1;
}

int header_write_at(int fd, const void *data, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    ssize_t n = os_pwrite(fd, (const uint8_t *)data + done, size - done, offset + done);
    if (n == -EINTR) continue;
    if (n <= 0) return n < 0 ? (int)n : -EIO;
    done += (uint64_t)n;
  }
  return 0;
}

int header_write(const record_header_t *h, int fd) {
  uint8_t page[RECORD_HEADER_SIZE] = {0};
  memcpy(page, h, sizeof *h);
  return header_write_at(fd, page, sizeof page, 0);
}

record_stop_t header_stop_reason(int error) {
  switch (error) {
  case ENOSPC: return RECORD_STOP_DISK_FULL;
  case EDQUOT: return RECORD_STOP_QUOTA;
  case EFBIG: return RECORD_STOP_FILE_LIMIT;
  default: return RECORD_STOP_IO;
  }
}

uint64_t header_ring_bytes(uint64_t limit_bytes) {
  if (limit_bytes <= RECORD_HEADER_SIZE) return 0;
  return ALIGN_DOWN((limit_bytes - RECORD_HEADER_SIZE) / 4 * 3, UINT64_C(4096));
}

bool header_control(const record_header_t *h, int file_fd, uint64_t ring_bytes, shm_control_t *c) {
  os_file_id_t id;
  if (!os_file_id(file_fd, &id)) return false;
  c->clock = h->clock;
  c->clock_shift = h->clock_shift;
  c->pid = c->own_pid = h->pid;
  c->recorder_pid = (uint32_t)os_pid();
  c->shm_fd = h->shm_fd;
  c->live_fd = c->policy_fd = -1;
  c->file_fd = file_fd;
  c->file_device = id.device;
  c->file_inode = id.inode;
  c->ring_start = ring_bytes ? RECORD_HEADER_SIZE : 0;
  c->ring_bytes = ring_bytes;
  c->file_end = RECORD_HEADER_SIZE + ring_bytes;
  if (!c->pages_used) c->pages_used = SHM_CONTROL_PAGES;
  shm_calibrate(c, h);
  c->magic = SHM_MAGIC;
  return true;
}
