/* SPDX-License-Identifier: MIT
 *
 * libsonde-agent.so, preloaded into a program that nobody rebuilt.
 *
 * It stands between the program and its allocator by having the allocator's names itself; the real
 * functions are found in the images that follow it. It needs no library and no symbol, so that one
 * file serves every libc. What it does at start it does at the first call of any of its functions
 * or in its constructor, whichever comes first: ld.so itself calls malloc before any constructor.
 *
 * Its settings come in the environment and are taken out of it at once, with the preload, so that
 * children of the program run as if nothing were there. They are put back for one purpose: when the
 * recorded process itself replaces its program by execve, the next one is recorded as well.
 */
#ifndef SONDE_AGENT_AGENT_H
#define SONDE_AGENT_AGENT_H

#include "base/bits.h"

#define AGENT_SETTINGS "SONDE_RECORD"

/* Prepares the agent; a load and a branch once that is done. */
extern HIDDEN bool agent_ready;
NOINLINE void agent_start(void);
static ALWAYS_INLINE void agent_enter(void) {
  if (UNLIKELY(!agent_ready)) agent_start();
}

/* ---- the environment ---------------------------------------------------------------------- */

/* Takes what the recorder put there out of the program's environment. SETTINGS (which has room for
 * SIZE bytes) and PRELOAD, the agent's own path, are copied out; false when there were none. */
bool environment_take(char *settings, char *preload, uint64_t size);

/* The pointers of an environment as ENVIRONMENT, with what was taken put back; NULL without memory,
 * and when it is all there.
 * Release with environment_free. */
char **environment_with_agent(char *const *environment);
/* The opposite: without the agent and its settings; NULL without memory, and when there are none.
 */
char **environment_without_agent(char *const *environment);
void environment_free(char **environment);
bool environment_has(char *const *environment, const char *name);

/* ---- emulators (emulator.c) --------------------------------------------------------------- */

/* Whether this process runs programs of another machine, by qemu's user mode. */
bool emulator_is_this(void);

/* Whether what is executed with ENVIRONMENT is valgrind. */
bool emulator_is_next(char *const *environment);

/* Tells the recorder that the emulator NAME takes over, and with NULL that it did not. */
void emulator_tell(const char *name);

/* ---- children ----------------------------------------------------------------------------- */

/* Whether SETTINGS say that children are recorded too, and whether those taken did. */
bool follow_in(const char *settings);
bool follow_is_on(void);

/* The settings of this process's own recording, which may have to be asked for, to OWN, which has
 * room for ROOM bytes. False when there is none. */
bool follow_settings(const char *settings, char *own, uint64_t room);

/* ---- the real functions ------------------------------------------------------------------- */

/* Finds what follows the agent under each of NAMES. */
void agent_real(const char *const *names, uint64_t *addresses, int count);

/* Called by agent_start. malloc_try calls the allocator; should it come back to us by name, as
 * musl's calloc does, agent_calls_back is set. */
extern HIDDEN bool agent_calls_back;
void malloc_find_real(void);
bool malloc_is_executables(void); /* it defines malloc: then ours are not called */
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

/* True in the process that is recorded, false in its children, vfork ones included. */
bool agent_in_recorded_process(void);

#endif
