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

#include <sys/types.h>

#include "base/bits.h"

#define AGENT_SETTINGS "SONDE_RECORD"

#if defined(SONDE_ATTACHED)
/* No slot leads to an attached agent before it has started (agent/attached/attached.c). */
static ALWAYS_INLINE void agent_enter(void) {}
#else
/* Starts the agent; afterwards it costs a load and a branch. */
extern HIDDEN bool agent_ready;
NOINLINE void agent_start(void);
static ALWAYS_INLINE void agent_enter(void) {
  if (UNLIKELY(!agent_ready)) agent_start();
}
#endif

/* The recorded process ends: completes the recording if the recorder was killed. */
void agent_finish(void);

/* ---- the environment ---------------------------------------------------------------------- */

/* Removes the recorder's variables from the program's environment. Copies them to SETTINGS, of SIZE
 * bytes, and the agent's path to PRELOAD. Returns false if there were none. */
bool environment_take(char *settings, char *preload, uint64_t size);

/* The path by which the loader found the agent. */
const char *environment_agent(void);

/* A copy of ENVIRONMENT for the file PROGRAM (NULL: unknown), with the settings, the runtime of the
 * program's sanitizer, and the path AGENT behind it preloaded. NULL on out of memory, and if
 * ENVIRONMENT already contains all of these. Release with environment_free. */
char **environment_with_agent(char *const *environment, const char *program, const char *agent);
/* A copy without the agent and its settings. NULL on out of memory, and if ENVIRONMENT contains
 * neither. */
char **environment_without_agent(char *const *environment);
void environment_free(char **environment);
bool environment_has(char *const *environment, const char *name);

/* ---- emulators (emulator.c) --------------------------------------------------------------- */

/* True if this process is qemu's user mode, which runs programs of another machine. */
bool emulator_is_this(void);

/* True if the program executed with ENVIRONMENT is valgrind. */
bool emulator_is_next(char *const *environment);

/* Reports to the recorder that the emulator NAME takes over; NULL: no emulator took over. */
void emulator_report(const char *name);

/* ---- the next program (next.c) ------------------------------------------------------------ */

#define NEXT_DESCRIPTORS "/proc/self/fd/"

typedef struct next {
  bool wanted;              /* the program is to be recorded */
  char *const *environment; /* for the program */
  char **own;               /* NULL, or the same if it is a copy */
  int agent_fd;             /* a descriptor that it inherits; -1: none */
  bool unreachable;         /* it cannot open the agent's file */
} next_t;

/* Prepares the execution of PROGRAM (NULL: unknown) with ENVIRONMENT. Release NEXT if this process
 * continues. */
void next_prepare(next_t *next, const char *program, char *const *environment);
void next_release(const next_t *next);

/* Tells the recorder that this process executes FILE (false: the recorder cannot be reached); that
 * the process PID of this pid namespace does; or that the call has failed. */
bool next_announce(const next_t *next, const char *file);
void next_announce_spawned(const next_t *next, pid_t pid, const char *file);
void next_announce_failure(void);

/* ---- children ----------------------------------------------------------------------------- */

/* True if SETTINGS, or the removed settings, request that children are recorded, too. */
bool follow_in(const char *settings);
bool follow_is_on(void);

/* If children are followed: a forked child requests its recording at once. After libc's start. */
void follow_forks(void);
/* Sends the request TEXT to the recorder and waits until it has read it. Returns false if the
 * recorder cannot be reached. */
bool follow_notify(const char *text);

/* Requests a descriptor of the agent's file from the recorder; negative on failure. */
int follow_open_agent(void);

/* Copies the settings of this process's recording to OWN, of SIZE bytes; requests a recording from
 * the recorder if necessary. Returns false if this process has no recording. */
bool follow_settings(const char *settings, char *own, uint64_t size);

/* ---- threads (thread.c) -------------------------------------------------------------------- */

/* The calling thread starts. */
void thread_started(void);
/* The process ends: notes the CPU time of all its threads. */
void threads_end(void);

/* ---- the real functions ------------------------------------------------------------------- */

/* Finds the definitions of NAMES in the images that follow the agent. */
void agent_real(const char *const *names, uint64_t *addresses, int count);

/* Called by agent_start. malloc_try calls the allocator. If the allocator calls the agent by name,
 * as musl's calloc does, agent_calls_back is set. */
extern HIDDEN bool agent_calls_back;
void malloc_find_real(void);
bool malloc_is_hidden(void); /* an image before the agent defines malloc, so it is called */
void malloc_try(void);
void exec_find_real(void);
void thread_find_real(void);
void thread_name_find_real(void);
void jump_find_real(void);

void region_find_real(void);
void signals_find_real(void);
void dlopen_find_real(void);
void dlclose_find_real(void);
void operators_find_real(void);
void wait_find_real(void);

/* True in the recorded process; false in its children, also of vfork. */
bool agent_in_recorded_process(void);

#endif
