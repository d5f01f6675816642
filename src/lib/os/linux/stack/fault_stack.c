/* SPDX-License-Identifier: MIT
 *
 * Alternate signal stacks for threads that have none, so that a handler can run after a stack
 * overflow. A thread keeps its stack until it ends or sets one of its own; then another thread may
 * get it. Handlers of the program that request the alternate stack run there, too, so it has space
 * for them, and a page without access below it.
 */
#include <signal.h>

#include "base/bits.h"
#include "os/linux/calls/call.h"
#include "os/os.h"

#define STACKS      512u
#define GUARD_BYTES 4096u
#define STACK_BYTES (64u << 10)

typedef struct fault_stack {
  uint32_t tid;    /* of the thread that has it; 0: none */
  uint8_t *memory; /* mapped at first use, never unmapped */
} fault_stack_t;

static fault_stack_t stacks[STACKS];

static fault_stack_t *stack_of(uint32_t tid) {
  for (uint32_t i = 0; i < STACKS; i++)
    if (load_relaxed(&stacks[i].tid) == tid) return &stacks[i];
  return NULL;
}

static bool map_stack(fault_stack_t *s) {
  if (s->memory) return true;
  uint8_t *memory = os_map(GUARD_BYTES + STACK_BYTES);
  if (!memory) return false;
  uint64_t start = (uint64_t)(uintptr_t)memory;
  (void)os_protect(start, start + GUARD_BYTES, 0);
  s->memory = memory;
  return true;
}

/* The stack that TID has already, or a free one. */
static fault_stack_t *claim(uint32_t tid) {
  fault_stack_t *own = stack_of(tid);
  for (uint32_t i = 0; !own && i < STACKS; i++) {
    uint32_t none = 0;
    if (!load_relaxed(&stacks[i].tid) && cas_acq_rel(&stacks[i].tid, &none, tid)) own = &stacks[i];
  }
  if (!own || map_stack(own)) return own;
  store_release(&own->tid, 0u);
  return NULL;
}

static bool set(uint8_t *memory) {
  const stack_t on = {.ss_sp = memory, .ss_size = STACK_BYTES}, off = {.ss_flags = SS_DISABLE};
  return call2(sigaltstack_set, memory ? &on : &off, NULL) == 0;
}

bool os_is_fault_stack(uint64_t start) {
  for (uint32_t i = 0; start && i < STACKS; i++)
    if (stacks[i].memory && (uint64_t)(uintptr_t)stacks[i].memory + GUARD_BYTES == start)
      return true;
  return false;
}

void os_fault_stack_give(void) {
  uint64_t start, size;
  if (os_signal_stack(&start, &size)) return;
  fault_stack_t *s = claim((uint32_t)os_tid());
  if (s && !set(s->memory + GUARD_BYTES)) store_release(&s->tid, 0u);
}

void os_fault_stack_take(void) {
  uint64_t start, size;
  fault_stack_t *s = stack_of((uint32_t)os_tid());
  if (!s) return;
  bool is_set = os_signal_stack(&start, &size) && os_is_fault_stack(start);
  if (!is_set || set(NULL)) store_release(&s->tid, 0u);
}

void os_fault_stacks_forked(void) {
  uint64_t start, size;
  if (!os_signal_stack(&start, &size)) start = 0;
  for (uint32_t i = 0; i < STACKS; i++) {
    fault_stack_t *s = &stacks[i];
    bool own = s->memory && (uint64_t)(uintptr_t)s->memory + GUARD_BYTES == start;
    s->tid = own ? (uint32_t)os_tid() : 0;
  }
}
