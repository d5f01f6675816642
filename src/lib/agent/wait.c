/* SPDX-License-Identifier: MIT
 *
 * The waits of event loops: epoll_wait, poll, select and their variants, which separate the
 * iterations of a loop.
 *
 * A wait without descriptors (poll and select as a timer) is a sleep and not a loop's wait. A wait
 * without a time limit, or with a limit of 0, is a wait like any other: a loop that only polls ends
 * its iteration, too.
 *
 * The functions have other names in C, since the system's headers declare the real ones.
 *
 * A thread that waits here is not signaled to read its registers (sensor/leaks/leaks.h), because
 * all of them have been spilled to its stack.
 *
 * Nothing after the real call can change errno. A call that never returns (a canceled thread, a
 * longjmp out of a handler) leaves its thread in the waiting state.
 */
#include <errno.h>
#include <stddef.h>

#include "agent/agent.h"
#include "sensor/leaks/leaks.h"
#include "sensor/stall/stall.h"

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t word_t;

/* X(name, number of arguments, whether it waits for anything): all arguments are words. */
#define WAIT_TABLE(X)                                                                              \
  X(epoll_wait, 4, true)                                                                           \
  X(epoll_pwait, 5, true)                                                                          \
  X(epoll_pwait2, 5, true)                                                                         \
  X(poll, 3, b != 0)                                                                               \
  X(ppoll, 4, b != 0)                                                                              \
  X(__poll_chk, 4, b != 0)                                                                         \
  X(__ppoll_chk, 5, b != 0)                                                                        \
  X(select, 5, (int)a > 0)                                                                         \
  X(pselect, 6, (int)a > 0)

typedef int (*wait_t)(word_t, word_t, word_t, word_t, word_t, word_t);

enum {
#define NUMBER(name, count, waits) NUMBER_##name,
  WAIT_TABLE(NUMBER) WAITS
#undef NUMBER
};

static const char *const names[WAITS + 1] = {
#define NAME(name, count, waits) #name,
    WAIT_TABLE(NAME)
#undef NAME
        "__errno_location"};

static struct {
  wait_t waits[WAITS];
  int *(*errno_location)(void);
} real;

void wait_find_real(void) { agent_real(names, (uint64_t *)&real, WAITS + 1); }

/* An older C library has no epoll_pwait2. */
static NOINLINE int missing(void) {
  if (real.errno_location) *real.errno_location() = ENOSYS;
  return -1;
}

#define PARAMETERS_3 word_t a, word_t b, word_t c
#define PARAMETERS_4 PARAMETERS_3, word_t d
#define PARAMETERS_5 PARAMETERS_4, word_t e
#define PARAMETERS_6 PARAMETERS_5, word_t f
#define ARGUMENTS_3  a, b, c, 0, 0, 0
#define ARGUMENTS_4  a, b, c, d, 0, 0
#define ARGUMENTS_5  a, b, c, d, e, 0
#define ARGUMENTS_6  a, b, c, d, e, f

#define DEFINE_WAIT(name, count, waits_for_anything)                                               \
  EXPORT int hook_##name(PARAMETERS_##count) __asm__(#name);                                       \
  SPILLING int hook_##name(PARAMETERS_##count) {                                                   \
    SPILLS();                                                                                      \
    agent_enter();                                                                                 \
    wait_t wait = real.waits[NUMBER_##name];                                                       \
    if (UNLIKELY(!wait)) return missing();                                                         \
    wait_site_t place = {(uint64_t)(uintptr_t)__builtin_return_address(0),                         \
                         (uint64_t)(uintptr_t)__builtin_dwarf_cfa()};                              \
    stall_wait_t home = (waits_for_anything) ? stall_wait_begin(place) : NULL;                     \
    int result = wait(ARGUMENTS_##count);                                                          \
    stall_wait_end(home);                                                                          \
    return result;                                                                                 \
  }
WAIT_TABLE(DEFINE_WAIT)
