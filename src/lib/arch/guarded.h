/* SPDX-License-Identifier: MIT
 *
 * A copy out of memory that may go away at any moment: it ends where the memory does, provided that
 * the handler of SIGSEGV and SIGBUS asks arch_guarded_fault. On Apple's systems, where no handler
 * is ours, it is a plain copy of what its caller knows to be there.
 */
#ifndef SONDE_ARCH_GUARDED_H
#define SONDE_ARCH_GUARDED_H

#include "arch/arch.h"

#if defined(__APPLE__)
static inline uint64_t arch_copy_guarded(void *out, const void *from, uint64_t size, bool text) {
  uint64_t done = 0;
  for (; done < size && !(text && !((const char *)from)[done]); done++)
    ((char *)out)[done] = ((const char *)from)[done];
  return done;
}
#else

/* Copies at most SIZE bytes from FROM to OUT and returns how many it could. With TEXT it ends
 * before a byte that is 0. */
extern __attribute__((visibility("hidden"))) uint64_t arch_copy_guarded(void *out, const void *from,
                                                                        uint64_t size, bool text);

/* Where it reads, and where it goes on when that fails, from its begin. They are no symbols, since
 * a symbol within a function is a name of its own to whoever lists them. */
extern __attribute__((visibility("hidden"))) const uint32_t arch_guarded_places[2];

/* Whether a fault at UCONTEXT is one of arch_copy_guarded's; then it ends there. */
static inline bool arch_guarded_fault(void *ucontext) {
  uint64_t begin = (uint64_t)(uintptr_t)arch_copy_guarded;
  if (arch_context_frame(ucontext).pc != begin + arch_guarded_places[0]) return false;
  arch_context_go_on(ucontext, begin + arch_guarded_places[1]);
  return true;
}
#endif

#endif
