/* SPDX-License-Identifier: MIT
 *
 * Copies memory that another thread may unmap at any moment. The copy ends where the mapped memory
 * ends, provided that the handler of SIGSEGV and SIGBUS calls arch_guarded_fault. On Apple's
 * systems sonde installs no such handler, so there the copy is a plain one and the caller must know
 * that the memory stays mapped.
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

/* Copies at most SIZE bytes from FROM to OUT and returns the number of bytes copied. With TEXT the
 * copy ends before the first 0. */
extern __attribute__((visibility("hidden"))) uint64_t arch_copy_guarded(void *out, const void *from,
                                                                        uint64_t size, bool text);

/* Offsets from arch_copy_guarded: of the instruction that reads, and of the instruction to continue
 * at after a fault. They are not symbols, because a symbol inside a function would look like a
 * function to tools that list symbols. */
extern __attribute__((visibility("hidden"))) const uint32_t arch_guarded_places[2];

/* Returns true if the fault at UCONTEXT happened in arch_copy_guarded, and makes the copy end. */
static inline bool arch_guarded_fault(void *ucontext) {
  uint64_t begin = (uint64_t)(uintptr_t)arch_copy_guarded;
  if (arch_context_frame(ucontext).pc != begin + arch_guarded_places[0]) return false;
  arch_context_set_pc(ucontext, begin + arch_guarded_places[1]);
  return true;
}
#endif

#endif
