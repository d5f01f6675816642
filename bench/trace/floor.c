/* SPDX-License-Identifier: MIT
 *
 * The lower bound for this kind of tracer: hooks that read the clock and store 8 bytes per event,
 * into a ring of the thread that is never read.
 */
#include <stdint.h>

#define RING 8192u

static __thread uint64_t ring[RING] __attribute__((tls_model("initial-exec")));
static __thread uint32_t at __attribute__((tls_model("initial-exec")));

static inline uint32_t clock_low(void) {
#if defined(__x86_64__)
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return low;
#else
  uint64_t value;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
  return (uint32_t)value;
#endif
}

static inline void put(void *function, uint32_t kind) {
  ring[at++ % RING] = (uint64_t)((uint32_t)(uintptr_t)function | kind) << 32 | clock_low();
}

void __cyg_profile_func_enter(void *function, void *call_site);
void __cyg_profile_func_exit(void *function, void *call_site);

void __cyg_profile_func_enter(void *function, void *call_site) {
  (void)call_site;
  put(function, 0);
}
void __cyg_profile_func_exit(void *function, void *call_site) {
  (void)call_site;
  put(function, 1);
}
