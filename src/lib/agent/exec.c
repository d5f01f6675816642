/* SPDX-License-Identifier: MIT
 *
 * The exec functions: a recorded process that replaces its program (the last line of a wrapper
 * script, env, nice) stays recorded. In all other processes, vfork children included, and in
 * posix_spawn, these functions only call the real ones. Children then run without the agent, whose
 * settings were removed from the environment at start, unless children are followed. All exec
 * functions end in the real execve, execvpe, fexecve or execveat.
 *
 * The new program's file is read before the call, since a sanitizer's runtime must be preloaded
 * before the agent (image/elf/sanitizer.h).
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>

#include "agent/agent.h"
#include "base/text.h"
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
  int (*system)(const char *);
  void *(*popen)(const char *, const char *);
  char ***environment;
} real;

void exec_find_real(void) {
  static const char *const names[] = {"execve",       "execvpe",          "fexecve",
                                      "execveat",     "__errno_location", "posix_spawn",
                                      "posix_spawnp", "system",           "popen"};
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

static bool has_slash(const char *file) { return text_base_name(file) != file; }

/* Appends the end of a path at AT in OUT; false if it does not fit. */
static bool append_name(char out[PATH_MAX], char *at, const char *name) {
  for (; at < out + PATH_MAX; at++, name++)
    if (!(*at = *name)) return true;
  return false;
}

/* The path of FILE, as execvp searches it in PATH; OUT if it is found there, NULL if not. */
static const char *search(const char *file, char out[PATH_MAX]) {
  const char *path = NULL;
  if (has_slash(file)) return file;
  for (strings_t e = current(); e && *e && !path; e++)
    path = text_after(*e, "PATH=");
  while (path && *path) {
    char *at = out;
    for (; *path && *path != ':' && at < out + PATH_MAX - 1; path++)
      *at++ = *path;
    path += *path == ':';
    if (at > out) *at++ = '/'; /* otherwise the current folder */
    int fd = append_name(out, at, file) ? os_open_read(out) : -1;
    if (fd < 0) continue;
    os_close(fd);
    return out;
  }
  return NULL;
}

/* The path of PATH in the folder FD; of FD itself if PATH is empty. */
static const char *path_of(int fd, const char *path, char out[PATH_MAX]) {
  if (fd < 0 || *path == '/') return path;
  char *at = decimal_append(text_append(out, NEXT_DESCRIPTORS), (uint64_t)fd);
  if (*path) *at++ = '/';
  return append_name(out, at, path) ? out : NULL;
}

/* The environment for the new program, the file PROGRAM. Release NEXT if the exec fails. */
static strings_t prepare_exec(const char *program, strings_t environment, next_t *next) {
  agent_enter();
  next->wanted = agent_in_recorded_process() || follow_is_on();
  if (!next->wanted) return environment;
  next_prepare(next, program, environment);
  set_executing(next_announce(next, program) ? SHM_EXECUTING : SHM_EXECUTING_APART);
  return next->environment;
}

/* Reached only if the exec has failed. */
static int exec_failed(int result, const next_t *next) {
  if (!next->wanted) return result;
  emulator_report(NULL);
  set_executing(0);
  next_announce_failure();
  next_release(next);
  return result;
}

EXPORT int execve(const char *path, strings_t argv, strings_t envp) {
  next_t next;
  strings_t environment = prepare_exec(path, envp, &next);
  return exec_failed(real.execve ? real.execve(path, argv, environment) : missing(), &next);
}

EXPORT int execvpe(const char *file, strings_t argv, strings_t envp) {
  next_t next;
  char path[PATH_MAX];
  strings_t environment = prepare_exec(search(file, path), envp, &next);
  return exec_failed(real.execvpe ? real.execvpe(file, argv, environment) : missing(), &next);
}

EXPORT int fexecve(int fd, strings_t argv, strings_t envp) {
  next_t next;
  char path[PATH_MAX];
  strings_t environment = prepare_exec(path_of(fd, "", path), envp, &next);
  return exec_failed(real.fexecve ? real.fexecve(fd, argv, environment) : missing(), &next);
}

EXPORT int execveat(int fd, const char *path, strings_t argv, strings_t envp, int flags) {
  next_t next;
  char program[PATH_MAX];
  strings_t environment = prepare_exec(path_of(fd, path, program), envp, &next);
  return exec_failed(real.execveat ? real.execveat(fd, path, argv, environment, flags) : missing(),
                     &next);
}

/* The child gets the agent only if children are followed. */
static int spawn(spawn_t *function, pid_t *pid, const char *path, const void *actions,
                 const void *attributes, strings_t argv, strings_t envp) {
  char program[PATH_MAX];
  if (!function) return ENOSYS;
  if (!follow_is_on()) return function(pid, path, actions, attributes, argv, envp);
  const char *found = function == real.posix_spawnp ? search(path, program) : path;
  next_t next;
  pid_t child;
  next_prepare(&next, found, envp);
  int status = function(&child, path, actions, attributes, argv, next.environment);
  if (status == 0) next_announce_spawned(&next, child, found);
  if (status == 0 && pid) *pid = child;
  next_release(&next);
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

/* system and popen pass the variable `environ`, which lacks the agent where the agent's file is
 * hidden. Meanwhile the variable points to a copy with the agent, as it does for all followed
 * processes otherwise. Returns what it pointed to; NULL: nothing was changed. */
static char **lend_environment(next_t *next) {
  if (!follow_is_on() || !real.environment) return NULL;
  char **before = *real.environment;
  next_prepare(next, "/bin/sh", before);
  if (next->own)
    *real.environment = next->own;
  else
    next_release(next);
  return next->own ? before : NULL;
}

/* Unless the program has replaced it: then its variables are in the program's new array. */
static void return_environment(const next_t *next, char **before) {
  if (*real.environment != next->own) return;
  *real.environment = before;
  next_release(next);
}

EXPORT int system(const char *command) {
  next_t next;
  agent_enter();
  if (!real.system) return missing();
  char **before = command ? lend_environment(&next) : NULL;
  if (!before) return real.system(command);
  int status = real.system(command);
  return_environment(&next, before);
  return status;
}

EXPORT void *popen(const char *command, const char *type) {
  next_t next;
  agent_enter();
  if (!real.popen) return missing(), NULL;
  char **before = lend_environment(&next);
  if (!before) return real.popen(command, type);
  void *stream = real.popen(command, type);
  return_environment(&next, before);
  return stream;
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
