/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "target/births.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/bits.h"

#define RING_PAGES 4u

typedef struct ring {
  int fd;
  uint8_t *map; /* the kernel's page, then the ring; NULL: none */
} ring_t;

struct births {
  size_t page, count;
  /* read from the rings, not reported yet */
  ARRAY(birth_t) waiting;
  ring_t rings[];
};

static int open_event(pid_t pid, int cpu) {
  struct perf_event_attr attr = {
      .type = PERF_TYPE_SOFTWARE,
      .size = sizeof attr,
      .config = PERF_COUNT_SW_DUMMY,
      .exclude_kernel = 1,
      .exclude_hv = 1,
      .inherit = 1,
      .task = 1,
      .comm = 1,
      .comm_exec = 1,
      .sample_id_all = 1,
      .sample_type = PERF_SAMPLE_TIME,
      .watermark = 1,
      .wakeup_watermark = UINT32_MAX,
      .use_clockid = 1,
      .clockid = CLOCK_MONOTONIC,
  };
  return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* A CPU that is offline has no ring. */
births_t *births_open(pid_t pid) {
  size_t cpus = (size_t)sysconf(_SC_NPROCESSORS_CONF), open = 0;
  births_t *b = calloc(1, sizeof *b + cpus * sizeof *b->rings);
  if (!b) return NULL;
  b->page = (size_t)sysconf(_SC_PAGESIZE);
  for (size_t i = 0; i < cpus; i++) {
    ring_t *r = &b->rings[b->count++];
    r->fd = open_event(pid, (int)i);
    if (r->fd < 0) continue;
    void *map =
        mmap(NULL, b->page * (1 + RING_PAGES), PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (map != MAP_FAILED) r->map = map;
    open += r->map != NULL;
  }
  if (open) return b;
  births_close(b);
  return NULL;
}

void births_close(births_t *b) {
  for (size_t i = 0; b && i < b->count; i++) {
    if (b->rings[i].map) munmap(b->rings[i].map, b->page * (1 + RING_PAGES));
    if (b->rings[i].fd >= 0) close(b->rings[i].fd);
  }
  if (b) free(b->waiting.items);
  free(b);
}

/* The body of a record: of a fork and an exit pid, parent, tid, parent's tid, time; of a name pid,
 * tid, name; at its end the time. False for threads. */
static bool parse(const struct perf_event_header *h, const uint8_t *body, size_t size,
                  birth_t *out) {
  uint32_t words[4] = {0};
  memset(out, 0, sizeof *out);
  if (size < 24) return false;
  memcpy(words, body, sizeof words);
  memcpy(&out->time_ns, body + size - 8, 8);
  out->pid = (pid_t)words[0];
  if (h->type == PERF_RECORD_COMM) {
    out->kind = BIRTH_EXEC;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(size - 16), body + 8);
    return h->misc & PERF_RECORD_MISC_COMM_EXEC;
  }
  if (h->type != PERF_RECORD_FORK && h->type != PERF_RECORD_EXIT) return false;
  out->kind = h->type == PERF_RECORD_FORK ? BIRTH_FORK : BIRTH_EXIT;
  out->parent = (pid_t)words[1];
  return words[0] == words[2];
}

static void read_ring(births_t *b, const ring_t *r) {
  struct perf_event_mmap_page *page = (void *)r->map;
  size_t bytes = b->page * RING_PAGES;
  uint64_t head = load_acquire(&page->data_head), tail = page->data_tail;
  uint8_t record[256];
  struct perf_event_header h;
  for (; head - tail >= sizeof h; tail += h.size) {
    for (size_t i = 0; i < sizeof record; i++)
      record[i] = r->map[b->page + (tail + i) % bytes];
    memcpy(&h, record, sizeof h);
    if (h.size < sizeof h || h.size > head - tail) break;
    size_t size = h.size < sizeof record ? h.size : sizeof record;
    birth_t birth;
    birth_t *place =
        parse(&h, record + sizeof h, size - sizeof h, &birth) ? ARRAY_ADD(b->waiting) : NULL;
    if (place) *place = birth;
  }
  store_release(&page->data_tail, head);
}

static int by_time(const void *left, const void *right) {
  const birth_t *a = left, *b = right;
  return a->time_ns < b->time_ns ? -1 : a->time_ns > b->time_ns;
}

static void read_rings(births_t *b) {
  for (size_t i = 0; i < b->count; i++)
    if (b->rings[i].map) read_ring(b, &b->rings[i]);
}

/* A child runs on another CPU than its parent, so the first pass may find its end and not its
 * start. The second pass finds all that precedes an event of the first. */
void births_read(births_t *b, void (*each)(void *context, const birth_t *birth), void *context) {
  size_t done = 0;
  uint64_t newest = 0;
  read_rings(b);
  for (size_t i = 0; i < b->waiting.count; i++)
    if (b->waiting.items[i].time_ns > newest) newest = b->waiting.items[i].time_ns;
  if (!b->waiting.count) return;
  read_rings(b);
  qsort(b->waiting.items, b->waiting.count, sizeof *b->waiting.items, by_time);
  for (; done < b->waiting.count && b->waiting.items[done].time_ns <= newest; done++)
    each(context, &b->waiting.items[done]);
  b->waiting.count -= done;
  memmove(b->waiting.items, b->waiting.items + done, b->waiting.count * sizeof *b->waiting.items);
}
