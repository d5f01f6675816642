/* SPDX-License-Identifier: MIT
 *
 * Stacks for the work of signal handlers.
 *
 * The stack that a handler finds itself on is as small as the program made it: an alternate one of
 * SIGSTKSZ (8 KB; Rust gives one to each thread), of which the kernel's frame takes 3.4 KB on a
 * processor with AVX-512, or a fiber's. So work that takes more than a few hundred bytes is done on
 * a stack of ours. There are as many as handlers were ever at work at once, at most STACKS; beyond
 * that, or without memory, the work is done where the handler is.
 *
 * Meanwhile every other signal but a fault's must be blocked: the kernel does not see that the
 * thread is still on its alternate stack, and would lay the next frame over what stands there.
 */
#include "arch/call_on.h"
#include "base/bits.h"
#include "os/os.h"

#define STACKS      256u
#define STACK_BYTES (64u << 10)

static void *stacks[STACKS];  /* made when they are first needed, and kept */
static uint32_t *stacks_used; /* 1: somebody is on it; in a child of fork, nobody */

static uint32_t *used_open(void) {
  uint32_t *known = load_acquire(&stacks_used);
  const size_t size = STACKS * sizeof *known;
  if (LIKELY(known != NULL)) return known;
  uint32_t *mine = os_map(size);
  if (mine == NULL) return NULL;
  (void)os_wipe_on_fork(mine, size);
  if (cas_acq_rel(&stacks_used, &known, mine)) return mine;
  os_unmap(mine, size);
  return known;
}

/* The number of a stack that is now ours; STACKS when there is none. */
static uint32_t take_stack(uint32_t *used) {
  for (uint32_t i = 0; used != NULL && i < STACKS; i++) {
    uint32_t none = 0;
    if (load_relaxed(&used[i]) || !cas_acq_rel(&used[i], &none, 1u)) continue;
    if (stacks[i] == NULL) stacks[i] = os_map(STACK_BYTES);
    if (stacks[i] != NULL) return i;
    store_release(&used[i], 0u);
    break;
  }
  return STACKS;
}

void os_run_on_handler_stack(void (*run)(void *), void *argument) {
  uint32_t *used = used_open(), i = take_stack(used);
  if (i == STACKS) {
    run(argument);
    return;
  }
  arch_call_on((uint8_t *)stacks[i] + STACK_BYTES, run, argument);
  store_release(&used[i], 0u);
}
