/* SPDX-License-Identifier: MIT
 *
 * libsonde-agent.so, preloaded into a program that was not rebuilt.
 *
 * It interposes the allocator and other functions by defining their names; the real functions are
 * found in the images that follow it. It needs no library and no symbol, so one file serves every
 * libc. It starts at the first call of any of its functions or in its constructor, whichever comes
 * first: ld.so itself calls malloc before any constructor.
 *
 * Its settings come in environment variables, which it removes at once together with the preload,
 * so that children of the program run without it. They are restored for one purpose: if the
 * recorded process replaces its program by execve, the new program is recorded, too.
 */
#ifndef SONDE_AGENT_AGENT_H
#define SONDE_AGENT_AGENT_H

#include "base/bits.h"

#define AGENT_SETTINGS "SONDE_RECORD"

/* Starts the agent; afterwards it costs a load and a branch. */
extern HIDDEN bool agent_ready;
NOINLINE void agent_start(void);
static ALWAYS_INLINE void agent_enter(void) {
  if (UNLIKELY(!agent_ready)) agent_start();
}

/* ---- the environment ---------------------------------------------------------------------- */

/* Removes the recorder's variables from the program's environment. Copies them to SETTINGS, of SIZE
 * bytes, and the agent's path to PRELOAD. Returns false if there were none. */
bool environment_take(char *settings, char *preload, uint64_t size);

/* A copy of ENVIRONMENT with the removed variables restored. NULL on out of memory, and if
 * ENVIRONMENT has them. Release with environment_free. */
char **environment_with_agent(char *const *environment);
/* A copy without the agent and its settings. NULL on out of memory, and if there are none. */
char **environment_without_agent(char *const *environment);
void environment_free(char **environment);
bool environment_has(char *const *environment, const char *name);

/* ---- emulators (emulator.c) --------------------------------------------------------------- */

/* True if this process is qemu's user mode, which runs programs of another machine. */
bool emulator_is_this(void);

/* True if the program executed with ENVIRONMENT is valgrind. */
bool emulator_is_next(char *const *environment);

/* Reports to the recorder that the emulator NAME takes over; NULL: it did not. */
void emulator_report(const char *name);

/* ---- children ----------------------------------------------------------------------------- */

/* True if SETTINGS, or the removed settings, request that children are recorded, too. */
bool follow_in(const char *settings);
bool follow_is_on(void);

/* Copies the settings of this process's recording to OWN, of SIZE bytes; requests a recording from
 * the recorder if necessary. Returns false if there is none. */
bool follow_settings(const char *settings, char *own, uint64_t size);

/* ---- the real functions ------------------------------------------------------------------- */

/* Finds the definitions of NAMES in the images that follow the agent. */
void agent_real(const char *const *names, uint64_t *addresses, int count);

/* Called by agent_start. malloc_try calls the allocator. If the allocator calls the agent by name,
 * as musl's calloc does, agent_calls_back is set. */
extern HIDDEN bool agent_calls_back;
void malloc_find_real(void);
bool malloc_is_executables(void); /* it defines malloc, so the agent's is not called */
void malloc_try(void);
void exec_find_real(void);
void thread_find_real(void);
void thread_name_find_real(void);
void jump_find_real(void);

void region_find_real(void);
void signals_find_real(void);
void dlclose_find_real(void);
void operators_find_real(void);
void wait_find_real(void);

/* True in the recorded process; false in its children, also of vfork. */
bool agent_in_recorded_process(void);

#endif
