/* SPDX-License-Identifier: MIT
 *
 * The exec functions: a recorded process that replaces its program (the last line of a wrapper
 * script, env, nice) stays recorded. In all other processes, vfork children included, and in
 * posix_spawn, these call the real functions: children run without the agent, whose settings were
 * removed from the environment at start, unless children are followed. All of them end in the real
 * execve, execvpe, fexecve or execveat.
 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>

#include "agent/agent.h"
#include "os/os.h"
#include "record/writer.h"

#define EXPORT __attribute__((visibility("default")))

typedef char *const *strings_t;
typedef int spawn_t(pid_t *, const char *, const void *, const void *, strings_t, strings_t);

static struct {
  int (*execve)(const char *, strings_t, strings_t);
  int (*execvpe)(const char *, strings_t, strings_t);
  int (*fexecve)(int, strings_t, strings_t);
  int (*execveat)(int, const char *, strings_t, strings_t, int);
  int *(*errno_location)(void);
  spawn_t *posix_spawn, *posix_spawnp;
  char ***environment;
} real;

void exec_find_real(void) {
  static const char *const names[] = {"execve",           "execvpe",     "fexecve",     "execveat",
                                      "__errno_location", "posix_spawn", "posix_spawnp"};
  static const char *const variable[] = {"__environ"};
  agent_real(names, (uint64_t *)&real, ARRAY_COUNT(names));
  /* The program may hold its own copy of the variable, so the search begins with the program. */
  os_symbols(0, variable, (uint64_t *)&real.environment, 1);
}

static strings_t current(void) { return real.environment ? *real.environment : NULL; }

static int missing(void) {
  if (real.errno_location) *real.errno_location() = ENOSYS;
  return -1;
}

/* Lets the recorder report a program in which the agent did not start. */
static void set_executing(uint32_t is) {
  if (agent_in_recorded_process()) store_relaxed(&writer_control()->executing, is);
}

/* The environment for the new program. *OWN is to be freed if the exec fails. */
static strings_t prepare_exec(strings_t environment, char ***own) {
  agent_enter();
  bool wanted = agent_in_recorded_process() || follow_is_on();
  *own = NULL;
  if (!wanted) return environment;
  set_executing(1);
  bool emulated = emulator_is_next(environment);
  if (emulated) emulator_report("valgrind");
  *own = emulated ? environment_without_agent(environment) : environment_with_agent(environment);
  return *own ? *own : environment;
}

/* Reached only if the exec has failed. */
static int exec_failed(int result, char **own) {
  emulator_report(NULL);
  set_executing(0);
  if (own) environment_free(own);
  return result;
}

EXPORT int execve(const char *path, strings_t argv, strings_t envp) {
  char **own;
  strings_t environment = prepare_exec(envp, &own);
  return exec_failed(real.execve ? real.execve(path, argv, environment) : missing(), own);
}

EXPORT int execvpe(const char *file, strings_t argv, strings_t envp) {
  char **own;
  strings_t environment = prepare_exec(envp, &own);
  return exec_failed(real.execvpe ? real.execvpe(file, argv, environment) : missing(), own);
}

EXPORT int fexecve(int fd, strings_t argv, strings_t envp) {
  char **own;
  strings_t environment = prepare_exec(envp, &own);
  return exec_failed(real.fexecve ? real.fexecve(fd, argv, environment) : missing(), own);
}

EXPORT int execveat(int fd, const char *path, strings_t argv, strings_t envp, int flags) {
  char **own;
  strings_t environment = prepare_exec(envp, &own);
  return exec_failed(real.execveat ? real.execveat(fd, path, argv, environment, flags) : missing(),
                     own);
}

/* The child gets the agent only if children are followed. */
static int spawn(spawn_t *function, pid_t *pid, const char *path, const void *actions,
                 const void *attributes, strings_t argv, strings_t envp) {
  if (!function) return ENOSYS;
  char **own = follow_is_on() ? environment_with_agent(envp) : NULL;
  int status = function(pid, path, actions, attributes, argv, own ? own : envp);
  if (own) environment_free(own);
  return status;
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const void *actions, const void *attributes,
                       strings_t argv, strings_t envp) {
  agent_enter();
  return spawn(real.posix_spawn, pid, path, actions, attributes, argv, envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const void *actions, const void *attributes,
                        strings_t argv, strings_t envp) {
  agent_enter();
  return spawn(real.posix_spawnp, pid, file, actions, attributes, argv, envp);
}

EXPORT int execv(const char *path, strings_t argv) {
  agent_enter();
  return execve(path, argv, current());
}

EXPORT int execvp(const char *file, strings_t argv) {
  agent_enter();
  return execvpe(file, argv, current());
}

/* Copies the arguments of an execl function, from FIRST through the NULL, to OUT unless that is
 * NULL. Returns their number, including the NULL. Callers count first, since the stack may be
 * small. */
static uint64_t collect(char **out, const char *first, va_list arguments) {
  uint64_t n = 0;
  for (char *at = (char *)(uintptr_t)first;; at = va_arg(arguments, char *)) {
    if (out) out[n] = at;
    n++;
    if (!at) return n;
  }
}

#define COUNT(count, first)                                                                        \
  va_list arguments;                                                                               \
  va_start(arguments, first);                                                                      \
  uint64_t count = collect(NULL, first, arguments);                                                \
  va_end(arguments)

EXPORT int execl(const char *path, const char *first, ...) {
  COUNT(count, first);
  char *argv[count];
  va_start(arguments, first);
  (void)collect(argv, first, arguments);
  va_end(arguments);
  return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *first, ...) {
  COUNT(count, first);
  char *argv[count];
  va_start(arguments, first);
  (void)collect(argv, first, arguments);
  va_end(arguments);
  return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *first, ...) {
  COUNT(count, first);
  char *argv[count];
  va_start(arguments, first);
  (void)collect(argv, first, arguments);
  strings_t environment = va_arg(arguments, strings_t);
  va_end(arguments);
  return execve(path, argv, environment);
}
