/* SPDX-License-Identifier: MIT */
#include "record/header.h"

#include "arch/arch.h"

#define TICK_SHIFT     7 /* 32 to 128 ns of a counter of 1 to 4 GHz */
#define TICK_SHIFT_MAX 12
#define TICK_NS        128u
#define CALIBRATE_NS   500000u /* 50 ns of error in both readings are 1 in 5000 of it */
#define READINGS       5

/* Whether the kernel itself keeps time by the counter that user code reads. */
static bool counter_is_trusted(void) {
#if defined(__APPLE__)
  return true; /* mach_absolute_time counts it */
#elif defined(__aarch64__)
  return true; /* the architecture promises it: constant rate, the same on all processors */
#else
  char name[32];
  ssize_t n = os_read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", name,
                           sizeof name);
  return n >= 3 && !memcmp(name, "tsc", 3);
#endif
}

/* Of several readings that which took the counter the least time. */
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

void header_begin(record_header_t *h, pid_t pid) {
  memset(h, 0, sizeof *h);
  memcpy(h->magic, RECORD_MAGIC, 8);
  h->version = RECORD_VERSION;
  h->header_size = RECORD_HEADER_SIZE;
  h->byte_order = RECORD_BYTE_ORDER;
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
  h->exec_count = load_relaxed(&c->exec_index);
}

bool header_control(const record_header_t *h, int file_fd, uint64_t ring_bytes, shm_control_t *c) {
  os_file_id_t id;
  if (!os_file_id(file_fd, &id)) return false;
  c->clock = h->clock;
  c->clock_shift = h->clock_shift;
  c->pid = h->pid;
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
