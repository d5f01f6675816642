/* SPDX-License-Identifier: MIT
 *
 * The functions that an attached agent replaces in the import slots of all images, also of images
 * that are loaded later (hook/linux/dlopen.c).
 *
 * The functions themselves are the preloaded agent's, which call the real ones as it does. The
 * functions that free are hooked first, so that the free of each recorded block is recorded.
 */
#include "agent/attached/attached.h"

#include "agent/agent.h"
#include "agent/attached/gates.h"
#include "hook/hook.h"

typedef enum need { NEED_ALWAYS, NEED_MAPPINGS } need_t;

/* X(name, need) */
#define REPLACED_TABLE(X)                                                                          \
  X(_dl_find_object, NEED_ALWAYS)                                                                  \
  X(dl_iterate_phdr, NEED_ALWAYS)                                                                  \
  X(dlclose, NEED_ALWAYS)                                                                          \
  X(sigaction, NEED_ALWAYS)                                                                        \
  X(signal, NEED_ALWAYS)                                                                           \
  X(bsd_signal, NEED_ALWAYS)                                                                       \
  X(sysv_signal, NEED_ALWAYS)                                                                      \
  X(sigset, NEED_ALWAYS)                                                                           \
  X(prctl, NEED_ALWAYS)                                                                            \
  X(pthread_setname_np, NEED_ALWAYS)                                                               \
  X(syscall, NEED_ALWAYS)                                                                          \
  X(free, NEED_ALWAYS)                                                                             \
  X(realloc, NEED_ALWAYS)                                                                          \
  X(reallocarray, NEED_ALWAYS)                                                                     \
  X(malloc, NEED_ALWAYS)                                                                           \
  X(calloc, NEED_ALWAYS)                                                                           \
  X(posix_memalign, NEED_ALWAYS)                                                                   \
  X(aligned_alloc, NEED_ALWAYS)                                                                    \
  X(memalign, NEED_ALWAYS)                                                                         \
  X(valloc, NEED_ALWAYS)                                                                           \
  X(pvalloc, NEED_ALWAYS)                                                                          \
  X(munmap, NEED_MAPPINGS)                                                                         \
  X(mremap, NEED_MAPPINGS)                                                                         \
  X(mmap, NEED_MAPPINGS)                                                                           \
  X(mmap64, NEED_MAPPINGS)                                                                         \
  X(mprotect, NEED_MAPPINGS)                                                                       \
  X(pkey_mprotect, NEED_MAPPINGS)                                                                  \
  X(madvise, NEED_MAPPINGS)                                                                        \
  X(brk, NEED_MAPPINGS)                                                                            \
  X(sbrk, NEED_MAPPINGS)

/* The agent's definitions, by another name: the compiler has its own idea of their types. */
#define DECLARE(name, need) extern HIDDEN char own_##name[] __asm__(#name);
REPLACED_TABLE(DECLARE)
#undef DECLARE

enum {
#define NUMBER(name, need) NUMBER_##name,
  REPLACED_TABLE(NUMBER) REPLACED
#undef NUMBER
};
_Static_assert(REPLACED <= GATES_MAX, "one gate each");

static const char *const names[REPLACED] = {
#define NAME(name, need) #name,
    REPLACED_TABLE(NAME)
#undef NAME
};

static const uint8_t needs[REPLACED] = {
#define NEED(name, need) need,
    REPLACED_TABLE(NEED)
#undef NEED
};

static char *const functions[REPLACED] = {
#define FUNCTION(name, need) own_##name,
    REPLACED_TABLE(FUNCTION)
#undef FUNCTION
};

static sonde_hook_t *hooks[REPLACED];
static void *originals[REPLACED];

static uint64_t signature(void) {
  uint64_t hash = REPLACED;
  for (uint32_t i = 0; i < REPLACED; i++)
    for (const char *c = names[i]; *c; c++)
      hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
  return hash;
}

void replaced_find_real(void) {
  unwinders_find_real();
  dlclose_find_real();
  signals_find_real();
  thread_name_find_real();
  malloc_find_real();
  region_find_real();
}

static bool install(uint32_t i) {
  const sonde_hook_request_t request = {
      .symbol = names[i], .replacement = gate_address(i), .original = &originals[i]};
  gate_lead(i, (uint64_t)(uintptr_t)functions[i]);
  if (hook_add_local(&request, 1, &hooks[i]) == 0) return true;
  hooks[i] = NULL;
  return false;
}

bool replaced_install(bool with_mappings) {
  if (!gates_prepare(signature())) return false;
  for (uint32_t i = 0; i < REPLACED; i++)
    if (needs[i] == NEED_ALWAYS || with_mappings) (void)install(i);
  return hooks[NUMBER_malloc] && hooks[NUMBER_free];
}

/* A thread that has read a slot just before arrives at its gate, and so at the real function. */
void replaced_remove(void) {
  for (uint32_t i = REPLACED; i-- > 0;)
    if (hooks[i]) gate_lead(i, (uint64_t)(uintptr_t)originals[i]);
  for (uint32_t i = REPLACED; i-- > 0;) {
    if (hooks[i]) (void)hook_remove_local(hooks[i]);
    hooks[i] = NULL;
  }
}
