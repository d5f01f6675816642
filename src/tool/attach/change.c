/* SPDX-License-Identifier: MIT
 *
 * A thread may not be inside of the bytes that change: not with its pc, and not with an address on
 * its stack, where the frame of an interrupted signal handler has the pc that it returns to. A word
 * on a stack that only looks like such an address costs one function, which is not changed. If the
 * stack of one thread cannot be read, nothing is changed.
 *
 * Only stacks that a thread runs on are searched (attach/stack.h). A context that was interrupted
 * by a signal and is kept elsewhere, as some schedulers of coroutines do, is not seen.
 */
#define _GNU_SOURCE
#include "attach/change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/stack.h"
#include "attach/stop_all.h"
#include "attach/tracer.h"
#include "os/os.h"
#include "target/access.h"
#include "target/process.h"

#define RED_ZONE   128u /* x86-64 psABI 3.2.2 */
#define PAGE_BYTES 4096u

/* In memory that the tracer shares with the command. */
typedef struct outcome {
  bool succeeded;
  change_result_t result;
  problem_t problem;
} outcome_t;

typedef struct changer {
  pid_t pid, reader;       /* reader: as of target/access.h */
  int memory_fd;           /* /proc/PID/mem */
  maps_t maps;             /* of the stopped program */
  entry_change_t *changes; /* sorted by place */
  uint8_t *occupied;       /* one for each change */
  uint32_t count;
  outcome_t *outcome;
} changer_t;

/* ---- where threads are -------------------------------------------------------------------- */

/* Notes that a thread may continue at VALUE. */
static void note(changer_t *c, uint64_t value) {
  size_t i = ARRAY_SEARCH(c->count, k, c->changes[k].place < value);
  if (!i) return;
  const entry_change_t *change = &c->changes[i - 1];
  if (value - change->place < change->bytes) c->occupied[i - 1] = 1;
}

static bool note_words(void *context, const uint64_t *words, size_t count) {
  changer_t *c = context;
  uint64_t low = c->changes[0].place, high = c->changes[c->count - 1].place + MOVE_JUMP_BYTES_MAX;
  for (size_t i = 0; i < count; i++)
    if (words[i] - low < high - low) note(c, words[i]);
  return true;
}

static void note_thread(changer_t *c, const cpu_regs_t *regs) {
  const stack_source_t source = {c->memory_fd, &c->maps};
  note(c, cpu_pc(regs));
  if (!stack_search(&source, cpu_sp(regs), RED_ZONE, note_words, c))
    memset(c->occupied, 1, c->count);
}

/* ---- writing ------------------------------------------------------------------------------ */

static uint64_t end_of(const changer_t *c, uint32_t i) {
  return c->changes[i].place + c->changes[i].bytes;
}

/* Makes the changes from FIRST on that begin in one page, and returns the next one. They cost two
 * system calls, not two each. No page is written in which no change is made. */
static uint32_t make_range(changer_t *c, uint32_t first) {
  uint8_t bytes[PAGE_BYTES + MOVE_JUMP_BYTES_MAX];
  change_result_t *result = &c->outcome->result;
  const uint64_t start = c->changes[first].place, page = start / PAGE_BYTES;
  uint64_t size = 0, written = 0;
  uint32_t end = first, made = 0;
  for (; end < c->count && c->changes[end].place / PAGE_BYTES == page; end++)
    if (end_of(c, end) - start > size) size = end_of(c, end) - start;
  ssize_t got = pread(c->memory_fd, bytes, size, (off_t)start);
  size = got < 0 ? 0 : (uint64_t)got;
  for (uint32_t i = first; i < end; i++) {
    const entry_change_t *change = &c->changes[i];
    uint8_t *there = bytes + (change->place - start);
    uint64_t to = end_of(c, i) - start;
    bool is_equal = to <= size && !memcmp(there, change->before, change->bytes);
    result->occupied += c->occupied[i];
    result->unequal += !c->occupied[i] && !is_equal;
    if (c->occupied[i] || !is_equal) continue;
    memcpy(there, change->after, change->bytes);
    written = to > written ? to : written;
    made++;
  }
  bool is_written = made && pwrite(c->memory_fd, bytes, written, (off_t)start) == (ssize_t)written;
  *(is_written ? &result->made : &result->unequal) += made;
  return end;
}

static void change_stopped(void *context) {
  changer_t *c = context;
  stop_all_t all = {0};
  if (stop_all_begin(&all, c->pid, &c->outcome->problem) &&
      process_read_maps(c->pid, c->reader, &c->maps, &c->outcome->problem)) {
    for (size_t i = 0; i < all.threads.count; i++) {
      const stopped_thread_t *thread = &all.threads.items[i];
      if (thread->is_stopped) note_thread(c, &thread->regs);
    }
    for (uint32_t i = 0; i < c->count;)
      i = make_range(c, i);
    c->outcome->succeeded = true;
  }
  uint64_t begun_ns = all.begun_ns;
  stop_all_end(&all);
  c->outcome->result.pause_ns = begun_ns ? os_monotonic_ns() - begun_ns : 0;
}

/* ---- the list ----------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
  const entry_change_t *x = a, *y = b;
  return (x->place > y->place) - (x->place < y->place);
}

static bool read_list(changer_t *c, uint64_t address, problem_t *problem) {
  size_t bytes = c->count * sizeof *c->changes;
  bool good = c->count && c->count <= CHANGE_COUNT_MAX;
  if (good) c->changes = malloc(bytes);
  if (good) c->occupied = calloc(c->count, 1);
  good = c->changes && c->occupied &&
         pread(c->memory_fd, c->changes, bytes, (off_t)address) == (ssize_t)bytes;
  for (uint32_t i = 0; good && i < c->count; i++)
    good = c->changes[i].bytes && c->changes[i].bytes <= MOVE_JUMP_BYTES_MAX;
  if (good)
    qsort(c->changes, c->count, sizeof *c->changes, by_place);
  else
    problem_set(problem, "the list of changes is invalid");
  return good;
}

static bool open_program(changer_t *c, problem_t *problem) {
  char path[64];
  if (!access_check(c->pid, &c->reader, problem)) return false;
  snprintf(path, sizeof path, "/proc/%d/mem", (int)c->reader);
  c->memory_fd = open(path, O_RDWR | O_CLOEXEC);
  if (c->memory_fd < 0) access_explain(c->pid, errno, problem);
  return c->memory_fd >= 0;
}

bool change_code(pid_t pid, uint64_t address, uint32_t count, change_result_t *result,
                 problem_t *problem) {
  changer_t c = {.pid = pid, .memory_fd = -1, .count = count};
  bool good = open_program(&c, problem) && read_list(&c, address, problem);
  c.outcome =
      mmap(NULL, sizeof *c.outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (c.outcome == MAP_FAILED) {
    problem_set(problem, "out of memory");
  } else if (good) {
    problem_set(&c.outcome->problem, "the tracer of process %d ended early", (int)pid);
    good = tracer_run(change_stopped, &c) && c.outcome->succeeded;
    if (!good) *problem = c.outcome->problem;
    *result = c.outcome->result;
  }
  good = good && c.outcome != MAP_FAILED;
  if (c.outcome != MAP_FAILED) munmap(c.outcome, sizeof *c.outcome);
  if (c.memory_fd >= 0) close(c.memory_fd);
  free(c.changes);
  free(c.occupied);
  return good;
}
