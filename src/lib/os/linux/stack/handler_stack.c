/* SPDX-License-Identifier: MIT
 *
 * Stacks for the work of signal handlers.
 *
 * A handler runs on a stack whose size the program chose: an alternate stack of SIGSTKSZ (8 KB;
 * Rust allocates one for each thread), of which the kernel's frame takes 3.4 KB on a processor with
 * AVX-512, or the stack of a fiber. So work that needs more than a few hundred bytes runs on a
 * stack of this file. There are as many as handlers have worked at the same time, at most STACKS.
 * If all are in use, or memory is exhausted, the work runs on the handler's own stack.
 *
 * Every signal except faults must be blocked meanwhile: the kernel does not know that the thread
 * still uses its alternate stack, and would place the next frame over live data.
 */
#include "arch/call_on.h"
#include "base/bits.h"
#include "os/os.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#define STACKS      256u
#define STACK_BYTES (64u << 10)

static void *stacks[STACKS];  /* mapped at first use, never unmapped */
static uint32_t *stacks_used; /* 1: in use; a child of fork reads zeros */

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

/* Takes a free stack and returns its number, or STACKS when none is free. */
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

/* In a child of fork the stack may hold frames of a thread that only the parent has.
 * AddressSanitizer would take accesses to what surrounded their variables for overflows. */
static void forget_frames(void *stack) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, STACK_BYTES);
#else
  (void)stack;
#endif
}

void os_run_on_handler_stack(void (*run)(void *), void *argument) {
  uint32_t *used = used_open(), i = take_stack(used);
  if (i == STACKS) {
    run(argument);
    return;
  }
  forget_frames(stacks[i]);
  arch_call_on((uint8_t *)stacks[i] + STACK_BYTES, run, argument);
  store_release(&used[i], 0u);
}
