/* SPDX-License-Identifier: MIT
 *
 * C++ operators new and delete. If the allocator's library defines its own operators (jemalloc,
 * tcmalloc, mimalloc), these do not call malloc and free. The operators of libstdc++ and libc++ do;
 * for them each function here is one jump to the real operator and leaves no frame on the stack. So
 * is it for blocks that are not sampled. For the others it continues in hook_…, as in malloc.c.
 *
 * A real operator new may throw through the agent, so nothing needs to be undone after its call. A
 * real operator delete may call free by name and is muted meanwhile.
 *
 * The names are the Itanium C++ ABI's: nw and na new, dl and da delete; m a size, RKSt9nothrow_t
 * std::nothrow, St11align_val_t an alignment.
 */
#include <stddef.h>

#include "agent/agent.h"
#include "os/os.h"
#include "sensor/malloc/malloc.h"

#define PUBLIC __attribute__((visibility("default")))
#define TARGET __attribute__((used)) HIDDEN
#define CALLER uint64_t pc, uint64_t sp, uint64_t fp
#define AT     ((caller_t){pc, sp, fp})

/* X(name, number of arguments): all arguments are words. */
#define NEW_TABLE(X)                                                                               \
  X(_Znwm, 1)                                                                                      \
  X(_Znam, 1)                                                                                      \
  X(_ZnwmRKSt9nothrow_t, 2)                                                                        \
  X(_ZnamRKSt9nothrow_t, 2)                                                                        \
  X(_ZnwmSt11align_val_t, 2)                                                                       \
  X(_ZnamSt11align_val_t, 2)                                                                       \
  X(_ZnwmSt11align_val_tRKSt9nothrow_t, 3)                                                         \
  X(_ZnamSt11align_val_tRKSt9nothrow_t, 3)

#define DELETE_TABLE(X)                                                                            \
  X(_ZdlPv, 1)                                                                                     \
  X(_ZdaPv, 1)                                                                                     \
  X(_ZdlPvm, 2)                                                                                    \
  X(_ZdaPvm, 2)                                                                                    \
  X(_ZdlPvRKSt9nothrow_t, 2)                                                                       \
  X(_ZdaPvRKSt9nothrow_t, 2)                                                                       \
  X(_ZdlPvSt11align_val_t, 2)                                                                      \
  X(_ZdaPvSt11align_val_t, 2)                                                                      \
  X(_ZdlPvmSt11align_val_t, 3)                                                                     \
  X(_ZdaPvmSt11align_val_t, 3)                                                                     \
  X(_ZdlPvSt11align_val_tRKSt9nothrow_t, 3)                                                        \
  X(_ZdaPvSt11align_val_tRKSt9nothrow_t, 3)

typedef void *(*function_t)(uint64_t, uint64_t, uint64_t);

enum {
#define NUMBER(name, count) NUMBER_##name,
  NEW_TABLE(NUMBER) DELETE_TABLE(NUMBER) OPERATORS
#undef NUMBER
};

static const char *const names[OPERATORS] = {
#define NAME(name, count) #name,
    NEW_TABLE(NAME) DELETE_TABLE(NAME)
#undef NAME
};

static function_t real[OPERATORS];
static bool own_operators; /* the allocator's library defines them */

/* True if both addresses are in one image. */
static bool same_image(uint64_t a, uint64_t b) {
  os_image_t image;
  return a && b && os_image_of_pc(a, &image) && b >= image.start && b < image.end;
}

void operators_find_real(void) {
  static const char *const malloc_name[] = {"malloc"};
  uint64_t real_malloc;
  agent_real(names, (uint64_t *)real, OPERATORS);
  agent_real(malloc_name, &real_malloc, 1);
  own_operators = same_image((uint64_t)(uintptr_t)real[NUMBER__Znwm], real_malloc);
}

/* A library loaded later may be the first to define one. */
static NOINLINE function_t find_late(int number) {
  agent_real(&names[number], (uint64_t *)&real[number], 1);
  return real[number];
}

static ALWAYS_INLINE function_t real_of(int number) {
  agent_enter();
  return LIKELY(real[number] != NULL) ? real[number] : find_late(number);
}

static ALWAYS_INLINE void *allocated(void *block, uint64_t size, caller_t at) {
  if (LIKELY(block)) malloc_on_alloc(EVENT_MALLOC, block, size, at);
  return block;
}

static ALWAYS_INLINE void *freed(function_t function, uint64_t a, uint64_t b, uint64_t c,
                                 caller_t at) {
  if (a) malloc_on_free((void *)(uintptr_t)a, at);
  uint32_t muted = writer_mute();
  void *nothing = function(a, b, c);
  writer_unmute(muted);
  return nothing;
}

#define PARAMETERS_1 uint64_t a
#define PARAMETERS_2 uint64_t a, uint64_t b
#define PARAMETERS_3 uint64_t a, uint64_t b, uint64_t c
#define ARGUMENTS_1  a, 0, 0
#define ARGUMENTS_2  a, b, 0
#define ARGUMENTS_3  a, b, c
#define VALUES_1     a
#define VALUES_2     a, b
#define VALUES_3     a, b, c

/* The unrecorded path is a tail call: a jump. */
#define DEFINE(name, count, skips, recorded)                                                       \
  TARGET void *hook##name(PARAMETERS_##count, CALLER);                                             \
  void *hook##name(PARAMETERS_##count, CALLER) {                                                   \
    function_t function = real_of(NUMBER_##name);                                                  \
    if (!own_operators) return function(ARGUMENTS_##count);                                        \
    return recorded;                                                                               \
  }                                                                                                \
  __asm__(HIDE_SYMBOL(record##name));                                                              \
  ENTRY_##count(record##name, hook##name);                                                         \
  HIDDEN void *record##name(PARAMETERS_##count);                                                   \
  PUBLIC void *name(PARAMETERS_##count);                                                           \
  void *name(PARAMETERS_##count) {                                                                 \
    function_t function = real[NUMBER_##name];                                                     \
    if (LIKELY(function != NULL) && (LIKELY(!own_operators) || skips))                             \
      return function(ARGUMENTS_##count);                                                          \
    return record##name(VALUES_##count);                                                           \
  }

#define DEFINE_NEW(name, count)                                                                    \
  DEFINE(name, count, malloc_skips_alloc(a), allocated(function(ARGUMENTS_##count), a, AT))
NEW_TABLE(DEFINE_NEW)

#define DEFINE_DELETE(name, count)                                                                 \
  DEFINE(name, count, malloc_skips_free((void *)(uintptr_t)a),                                     \
         freed(function, ARGUMENTS_##count, AT))
DELETE_TABLE(DEFINE_DELETE)
