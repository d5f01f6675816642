/* SPDX-License-Identifier: MIT
 *
 * The functions that an attached agent replaces in the import slots of all images, also of images
 * that are loaded later (hook/linux/dlopen.c).
 *
 * The functions themselves are the preloaded agent's, which call the real ones as it does.
 */
#include "agent/attached/attached.h"

#include <sys/mman.h>

#include "agent/agent.h"
#include "agent/attached/gates.h"
#include "capture/python/python_codes.h"
#include "hook/call_stack.h"
#include "hook/hook.h"
#include "hook/internal.h"
#include "hook/trampoline.h"
#include "os/os.h"

#if defined(mmap64) /* musl has one name for both */
#define REPLACED_64(X)
#else
#define REPLACED_64(X) X(mmap64)
#endif

/* X(name) */
#define REPLACED_TABLE(X)                                                                          \
  X(_dl_find_object)                                                                               \
  X(dl_iterate_phdr)                                                                               \
  X(dlclose)                                                                                       \
  X(sigaction)                                                                                     \
  X(signal)                                                                                        \
  X(bsd_signal)                                                                                    \
  X(sysv_signal)                                                                                   \
  X(sigset)                                                                                        \
  X(prctl)                                                                                         \
  X(pthread_setname_np)                                                                            \
  X(syscall)                                                                                       \
  X(free)                                                                                          \
  X(realloc)                                                                                       \
  X(reallocarray)                                                                                  \
  X(malloc)                                                                                        \
  X(calloc)                                                                                        \
  X(posix_memalign)                                                                                \
  X(aligned_alloc)                                                                                 \
  X(memalign)                                                                                      \
  X(valloc)                                                                                        \
  X(pvalloc)                                                                                       \
  X(munmap)                                                                                        \
  X(mremap)                                                                                        \
  X(mmap)                                                                                          \
  X(mprotect)                                                                                      \
  X(pkey_mprotect)                                                                                 \
  X(madvise)                                                                                       \
  X(brk)                                                                                           \
  X(sbrk)                                                                                          \
  X(__cyg_profile_func_enter)                                                                      \
  X(__cyg_profile_func_exit) REPLACED_64(X)

/* The agent's definitions, by another name: the compiler has its own idea of their types. */
#define DECLARE(name) extern HIDDEN char own_##name[] __asm__(#name);
REPLACED_TABLE(DECLARE)
#undef DECLARE

enum {
#define NUMBER(name) NUMBER_##name,
  REPLACED_TABLE(NUMBER) REPLACED
#undef NUMBER
};
/* The gates that follow those of the table: of the hooks of dlsym, and of Python's deallocator. */
enum { GATE_DLSYM = REPLACED, GATE_PYTHON = GATE_DLSYM + DLSYM_HOOKS, GATES };
_Static_assert(GATES <= GATES_MAX, "one gate each");

static const char *const names[REPLACED] = {
#define NAME(name) #name,
    REPLACED_TABLE(NAME)
#undef NAME
};

static char *const functions[REPLACED] = {
#define FUNCTION(name) own_##name,
    REPLACED_TABLE(FUNCTION)
#undef FUNCTION
};

static sonde_hook_t *hooks[REPLACED];
static void *originals[REPLACED];
static uint64_t addresses[REPLACED]; /* of the program's definitions; 0: there is none */
static uint64_t dlsym_addresses[DLSYM_HOOKS];
static bool is_leading, unwinders_lead; /* gates may lead into the agent */

static uint64_t signature(void) {
  uint64_t hash = GATES;
  for (uint32_t i = 0; i < REPLACED; i++)
    for (const char *c = names[i]; *c; c++)
      hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
  return hash;
}

static uint64_t image_of(uint64_t address) {
  os_image_t image;
  return address && os_image_of_pc(address, &image) ? image.start : 0;
}

/* A program with compiler hooks of its own keeps them. Those of the C library do nothing. */
static void find_compiler_hooks(void) {
  static const uint32_t hooks_of_compiler[] = {NUMBER___cyg_profile_func_enter,
                                               NUMBER___cyg_profile_func_exit};
  for (uint32_t i = 0; i < ARRAY_COUNT(hooks_of_compiler); i++) {
    uint64_t *address = &addresses[hooks_of_compiler[i]];
    if (image_of(*address) != image_of(addresses[NUMBER_syscall])) *address = 0;
  }
}

void replaced_find_real(void) {
  const char *dlsym_names[DLSYM_HOOKS];
  for (uint32_t i = 0; i < DLSYM_HOOKS; i++)
    dlsym_names[i] = dlsym_requests[i].symbol;
  os_symbols(0, names, addresses, REPLACED);
  os_symbols(0, dlsym_names, dlsym_addresses, DLSYM_HOOKS);
  find_compiler_hooks();
  unwinders_find_real();
  dlclose_find_real();
  signals_find_real();
  thread_name_find_real();
  malloc_find_real();
  region_find_real();
}

bool replaced_prepare(void) { return gates_prepare(signature()); }

uint64_t replaced_python_deallocator(void) {
  gate_lead(GATE_PYTHON, (uint64_t)(uintptr_t)python_codes_count_death);
  return (uint64_t)(uintptr_t)gate_address(GATE_PYTHON);
}

/* The hooks of dlsym and dlvsym come with the others. */
static void lead_dlsym(void) {
  static void *own[DLSYM_HOOKS];
  for (uint32_t i = 0; i < DLSYM_HOOKS; i++) {
    if (!own[i]) own[i] = dlsym_requests[i].replacement;
    gate_lead(GATE_DLSYM + i, (uint64_t)(uintptr_t)own[i]);
    dlsym_requests[i].replacement = gate_address(GATE_DLSYM + i);
  }
}

/* All in one step, so that the images are read once. A C library lacks some. */
bool replaced_install(void) {
  sonde_hook_request_t requests[REPLACED];
  sonde_hook_t *made[REPLACED];
  uint32_t numbers[REPLACED], count = 0;
  is_leading = unwinders_lead = true;
  lead_dlsym();
  for (uint32_t i = 0; i < REPLACED; i++) {
    if (hooks[i]) continue; /* an unwinder's, from the last time */
    originals[i] = NULL;
    if (!addresses[i]) continue;
    gate_lead(i, (uint64_t)(uintptr_t)functions[i]);
    numbers[count] = i;
    requests[count++] = (sonde_hook_request_t){
        .symbol = names[i], .replacement = gate_address(i), .original = &originals[i]};
  }
  if (hook_add_local(requests, count, made) != 0) return false;
  for (uint32_t i = 0; i < count; i++)
    hooks[numbers[i]] = made[i];
  return hooks[NUMBER_malloc] && hooks[NUMBER_free];
}

/* ORIGINAL is what a slot held; ADDRESS is the program's definition, if no slot was hooked. */
static void lead_back(uint32_t gate, const void *original, uint64_t address) {
  uint64_t real = original ? (uint64_t)(uintptr_t)original : address;
  if (real) gate_lead(gate, real);
}

static bool is_unwinder(uint32_t number) {
  return number == NUMBER__dl_find_object || number == NUMBER_dl_iterate_phdr;
}

static void remove_hook(uint32_t number) {
  if (hooks[number]) (void)hook_remove_local(hooks[number]);
  hooks[number] = NULL;
}

/* A thread that has read a slot just before arrives at its gate, and so at the real function. So do
 * later calls of a gate's address that the program has kept, also from an earlier agent: every gate
 * leads back, whether slots were hooked or not. */
void replaced_remove(void) {
  uint64_t deallocator = python_codes_stop();
  if (deallocator) gate_lead(GATE_PYTHON, deallocator);
  for (uint32_t i = 0; i < DLSYM_HOOKS && is_leading; i++)
    lead_back(GATE_DLSYM + i, *dlsym_requests[i].original, dlsym_addresses[i]);
  for (uint32_t i = REPLACED; i-- > 0 && is_leading;)
    if (!is_unwinder(i)) lead_back(i, originals[i], addresses[i]);
  is_leading = false;
  for (uint32_t i = REPLACED; i-- > 0;)
    if (!is_unwinder(i)) remove_hook(i);
}

#define PATIENCE_NS UINT64_C(100000000)

void replaced_remove_unwinders(void) {
  if (!unwinders_lead || (trampoline_exists() && call_stack_is_used(PATIENCE_NS))) return;
  unwinders_lead = false;
  for (uint32_t i = REPLACED; i-- > 0;)
    if (is_unwinder(i)) {
      lead_back(i, originals[i], addresses[i]);
      remove_hook(i);
    }
}
