/* SPDX-License-Identifier: MIT
 *
 * The layout of a record is that of perf_event_open(2), "PERF_RECORD_SAMPLE", for the sample type
 * below. The kernel writes at data_head, this file reads at data_tail; both only grow.
 *
 * Without the right to sample the kernel (perf_event_paranoid 2), samples in system calls are left
 * out. The next sample then counts for their time, because every sample has the CPU time so far.
 */
#define _GNU_SOURCE
#include "target/perf_ticks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bits.h"

#if defined(__x86_64__)
/* Bits of asm/perf_regs.h and their DWARF numbers; the pc is PC_BIT. */
enum { PC_BIT = 8 };
static const uint8_t bits[] = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
static const uint8_t numbers[] = {0, 3, 2, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
/* x0 to x30 and sp have their DWARF numbers. */
enum { PC_BIT = 32 };
static const uint8_t bits[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                               16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
#define numbers bits
#endif
#define REGS_MAX 33u

static uint64_t register_mask(void) {
  uint64_t mask = UINT64_C(1) << PC_BIT;
  for (size_t i = 0; i < ARRAY_COUNT(bits); i++)
    mask |= UINT64_C(1) << bits[i];
  return mask;
}

/* ---- opening ------------------------------------------------------------------------------ */

static int open_event(pid_t tid, uint64_t interval_ns, uint32_t stack_bytes, bool in_kernel) {
  struct perf_event_attr attr = {
      .type = PERF_TYPE_SOFTWARE,
      .size = sizeof attr,
      .config = PERF_COUNT_SW_CPU_CLOCK,
      .sample_period = interval_ns,
      .sample_type =
          PERF_SAMPLE_TIME | PERF_SAMPLE_READ | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
      .exclude_kernel = !in_kernel,
      .exclude_hv = 1,
      .watermark = 1,
      .wakeup_watermark = UINT32_MAX,
      .use_clockid = 1,
      .clockid = CLOCK_MONOTONIC,
      .sample_regs_user = register_mask(),
      .sample_stack_user = stack_bytes,
  };
  return (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool open_sized(perf_ticks_t *t, pid_t tid, uint64_t interval_ns, uint32_t stack_bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  t->stack_bytes = stack_bytes;
  t->bytes = (size_t)stack_bytes * 16;
  t->fd = open_event(tid, interval_ns, stack_bytes, true);
  if (t->fd < 0 && (errno == EACCES || errno == EPERM))
    t->fd = open_event(tid, interval_ns, stack_bytes, false);
  if (t->fd < 0) return false;
  void *map = mmap(NULL, page + t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
  t->map = map == MAP_FAILED ? NULL : map;
  t->copy = t->map ? malloc(UINT16_MAX + 1) : NULL;
  if (t->copy) return true;
  int error = errno;
  perf_ticks_close(t);
  errno = error;
  return false;
}

/* Rings of unprivileged users share a limit (perf_event_mlock_kb), so a small one is tried too. */
bool perf_ticks_open(perf_ticks_t *ticks, pid_t tid, uint64_t interval_ns) {
  *ticks = (perf_ticks_t){.fd = -1};
  return open_sized(ticks, tid, interval_ns, 32768) ||
         (errno != ESRCH && open_sized(ticks, tid, interval_ns, 8192));
}

void perf_ticks_close(perf_ticks_t *t) {
  if (t->map) munmap(t->map, (size_t)sysconf(_SC_PAGESIZE) + t->bytes);
  if (t->fd >= 0) close(t->fd);
  free(t->copy);
  *t = (perf_ticks_t){.fd = -1};
}

void perf_ticks_set_interval(const perf_ticks_t *ticks, uint64_t interval_ns) {
  (void)ioctl(ticks->fd, PERF_EVENT_IOC_PERIOD, &interval_ns);
}

uint64_t perf_ticks_cpu_ns(const perf_ticks_t *ticks) {
  uint64_t value = 0;
  return read(ticks->fd, &value, sizeof value) == sizeof value ? value : 0;
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Copies SIZE bytes at position AT of the ring. */
static void copy_out(const perf_ticks_t *t, uint64_t at, void *out, size_t size) {
  const uint8_t *ring = t->map + sysconf(_SC_PAGESIZE);
  size_t start = at % t->bytes, first = t->bytes - start < size ? t->bytes - start : size;
  memcpy(out, ring + start, first);
  memcpy((uint8_t *)out + first, ring, size - first);
}

/* The N-th word of the record; 0 beyond its end. */
static uint64_t word(const uint8_t *record, size_t size, size_t n) {
  uint64_t value = 0;
  if ((n + 1) * 8 <= size) memcpy(&value, record + n * 8, 8);
  return value;
}

/* RECORD is the body of a PERF_RECORD_SAMPLE: time, CPU time, ABI, registers, size of the stack,
 * stack, and how much of it is valid. False if the thread has no user mode. */
static bool parse(const uint8_t *record, size_t size, perf_tick_t *out) {
  enum { TIME, CPU_TIME, ABI, REGS };
  memset(out, 0, sizeof *out);
  out->time_ns = word(record, size, TIME);
  out->cpu_ns = word(record, size, CPU_TIME);
  if (word(record, size, ABI) != PERF_SAMPLE_REGS_ABI_64) return false;
  size_t n = REGS, next = 0;
  for (uint64_t mask = register_mask(); mask; mask &= mask - 1, n++) {
    int bit = __builtin_ctzll(mask);
    if (bit == PC_BIT)
      out->regs.pc = word(record, size, n);
    else
      regs_set(&out->regs, numbers[next++], word(record, size, n));
  }
  uint64_t room = word(record, size, n);
  size_t start = (n + 1) * 8;
  if (room == 0 || start + room + 8 > size) return true;
  uint64_t valid = word(record + start + room, 8, 0);
  out->stack = record + start;
  out->stack_size = valid < room ? valid : room;
  return true;
}

void perf_ticks_read(perf_ticks_t *t, void (*each)(void *context, const perf_tick_t *tick),
                     void *context) {
  struct perf_event_mmap_page *page = (void *)t->map;
  uint64_t head = load_acquire(&page->data_head), tail = page->data_tail;
  struct perf_event_header h;
  for (; head - tail >= sizeof h; tail += h.size) {
    copy_out(t, tail, &h, sizeof h);
    if (h.size < sizeof h || h.size > head - tail) break;
    perf_tick_t tick;
    if (h.type != PERF_RECORD_SAMPLE) continue;
    copy_out(t, tail + sizeof h, t->copy, h.size - sizeof h);
    if (parse(t->copy, h.size - sizeof h, &tick)) each(context, &tick);
  }
  store_release(&page->data_tail, head);
}
