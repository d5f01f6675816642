/* SPDX-License-Identifier: MIT
 *
 * The program that a process is about to execute: how it gets the agent, and what the recorder
 * hears of it. The recorder lists each program, also one in which the agent does not start.
 *
 * The agent's file may be invisible to the next program: it runs in another root directory or mount
 * namespace, or as a user who cannot enter the folder. The process then inherits a descriptor of
 * the file, which ld.so opens as /proc/self/fd/N, and the agent closes. Without /proc the program
 * runs without the agent; ld.so would print an error about a file that it cannot open.
 */
#include "agent/agent.h"
#include "base/text.h"
#include "os/os.h"
#include "record/writer.h"

/* The longest path that the recorder gets; it shows a longer one truncated. */
#define FILE_TEXT_MAX 4096u

static bool can_open(const char *path) {
  int fd = os_open_read(path);
  if (fd >= 0) os_close(fd);
  return fd >= 0;
}

/* The agent's path as the next program finds it; NULL: it cannot. TEXT has space for 32 bytes. */
static const char *find_agent(next_t *n, char *text) {
  const char *path = environment_agent();
  n->agent_fd = -1;
  if (can_open(path)) return path;
  n->agent_fd = follow_open_agent();
  if (n->agent_fd < 0) return NULL;
  *decimal_append(text_append(text, NEXT_DESCRIPTORS), (uint64_t)n->agent_fd) = 0;
  if (can_open(text) && os_keep_at_exec(n->agent_fd)) return text;
  os_close(n->agent_fd);
  n->agent_fd = -1;
  return NULL;
}

void next_prepare(next_t *n, const char *program, char *const *environment) {
  char text[32];
  bool emulated = emulator_is_next(environment);
  if (emulated) emulator_report("valgrind");
  const char *agent = find_agent(n, text);
  n->unreachable = !agent;
  n->own = agent && !emulated ? environment_with_agent(environment, program, agent)
                              : environment_without_agent(environment);
  n->environment = n->own ? n->own : environment;
}

void next_release(const next_t *n) {
  if (n->own) environment_free(n->own);
  if (n->agent_fd >= 0) os_close(n->agent_fd);
}

/* Appends FILE, of the program's memory, as far as it can be read. */
static void append_file(char *out, const char *file) {
  ssize_t n = file ? os_read_memory((uint64_t)(uintptr_t)file, out, FILE_TEXT_MAX) : 0;
  out[n > 0 ? n : 0] = 0;
  for (; *out; out++)
    if (*out == '\n') *out = '?'; /* the recorder reads one line */
}

static char *append_reach(char *out, const next_t *n) {
  return text_append(out, n->unreachable ? "unreachable " : "reachable ");
}

bool next_announce(const next_t *n, const char *file) {
  char request[FILE_TEXT_MAX + 64];
  append_file(append_reach(text_append(request, "executes "), n), file);
  return follow_notify(request);
}

void next_announce_spawned(const next_t *n, pid_t pid, const char *file) {
  char request[FILE_TEXT_MAX + 96];
  char *p = decimal_append(text_append(request, "spawned "), (uint64_t)(uint32_t)pid);
  append_file(append_reach(text_append(p, " "), n), file);
  (void)follow_notify(request);
}

void next_announce_failure(void) { (void)follow_notify("stays"); }
