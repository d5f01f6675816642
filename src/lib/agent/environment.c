/* SPDX-License-Identifier: MIT
 *
 * The program's environment, edited in place before the program reads it.
 *
 * The C library's `environ` points to the array that the kernel put on the initial stack, above the
 * arguments. The kernel reports that address (os_initial_stack). Under valgrind the kernel's stack
 * is valgrind's; the program's address is the one that ld.so got. Removed entries are overwritten
 * by the following ones.
 */
#include "agent/agent.h"

#include <string.h>

#include "agent/seccomp.h"
#include "arch/arch.h"
#include "base/text.h"
#include "image/elf/sanitizer.h"
#include "os/os.h"

#define PRELOAD "LD_PRELOAD"

static char taken_settings[4096], taken_preload[4096];

static bool copy_text(char *out, const char *from, uint64_t count, uint64_t size) {
  if (count + 1 > size) return false;
  memcpy(out, from, count);
  out[count] = 0;
  return true;
}

/* The value of VARIABLE if it is NAME=value, otherwise NULL. */
static char *value_of(char *variable, const char *name) {
  uint64_t n = text_length(name);
  for (uint64_t i = 0; i < n; i++)
    if (variable[i] != name[i]) return NULL;
  return variable[n] == '=' ? variable + n + 1 : NULL;
}

static uint64_t start_of_stack(void) {
  os_initial_stack_t beginning;
  return os_initial_stack(&beginning) ? beginning.stack : 0;
}

/* glibc's ld.so keeps the address of argc; valgrind runs no other. */
static uint64_t start_of_stack_on_valgrind(void) {
  static const char *const names[] = {"__libc_stack_end"};
  uint64_t variable, at = 0;
  os_symbols(0, names, &variable, 1);
  if (!variable || os_read_memory(variable, &at, sizeof at) != sizeof at) return 0;
  return at;
}

static char **initial_environment(void) {
  uint64_t at = arch_on_valgrind() ? start_of_stack_on_valgrind() : start_of_stack(), argc = 0;
  if (!at || at % 8 || os_read_memory(at, &argc, 8) != 8 || argc > (1u << 20)) return NULL;
  return (char **)(uintptr_t)(at + 8 * (argc + 2));
}

/* The length of the first path of the list in VALUE. */
static uint64_t first_path(const char *value) {
  uint64_t n = 0;
  while (value[n] && value[n] != ':' && value[n] != ' ')
    n++;
  return n;
}

/* The agent's path, as the loader has it; "" if unknown. */
static const char *own_path(void) {
  os_image_t self;
  bool known = os_image_of_pc((uint64_t)(uintptr_t)&agent_start, &self) && self.path;
  return known ? self.path : "";
}

/* The agent's path in the list VALUE, which may start with others: valgrind prepends its own. NULL:
 * not found; the agent was loaded in another way, and the list is the program's. */
static char *agent_in(char *value) {
  const char *path = own_path();
  uint64_t n;
  if (!*path) return value; /* the recorder puts it first */
  for (char *at = value; *at; at += n + (at[n] != 0))
    if ((n = first_path(at)) && n == text_length(path) && memcmp(at, path, n) == 0) return at;
  return NULL;
}

/* Removes the sanitizer's runtime that the launcher put before the agent in the list in VALUE. All
 * preloads of the user's come after the agent. */
static void remove_runtime(char *value) {
  char *at = agent_in(value), *runtime = at;
  if (!at || at == value) return;
  for (runtime--; runtime > value && runtime[-1] != ':' && runtime[-1] != ' ';)
    runtime--;
  if (sanitizer_is_runtime(runtime)) memmove(runtime, at, text_length(at) + 1);
}

/* Removes the agent's path from the list in VALUE. */
static void remove_preload(char *value) {
  char *at = agent_in(value);
  if (!at) return;
  char *rest = at + first_path(at);
  if (*rest) rest++;
  if (!*rest && at > value) at--; /* and the separator before it */
  memmove(at, rest, text_length(rest) + 1);
}

/* Closes the descriptor by which the loader opened the agent (next.c); true if there was one. */
static bool close_inherited(const char *path) {
  const char *number = text_after(path, NEXT_DESCRIPTORS);
  if (number) os_close((int)decimal_read(&number));
  return number != NULL;
}

bool environment_take(char *settings, char *preload, uint64_t size) {
  char **from = initial_environment(), **to = from, *value;
  bool have_settings = false;
  settings[0] = 0;
  const char *path = own_path();
  if (!copy_text(preload, path, text_length(path), size)) preload[0] = 0;
  for (char **at = from; at && *at && !have_settings; at++)
    if ((value = value_of(*at, AGENT_SETTINGS)))
      have_settings = copy_text(settings, value, text_length(value), size);
  bool inherited = close_inherited(path);
  bool stays = have_settings && follow_in(settings) && !emulator_is_this() && !inherited;
  for (; from && *from; from++) {
    bool keep = true;
    if (value_of(*from, AGENT_SETTINGS)) {
      keep = stays;
    } else if (value_of(*from, AGENT_SECCOMP)) {
      keep = false;
    } else if ((value = value_of(*from, PRELOAD))) {
      remove_runtime(value);
      if (!*preload) copy_text(preload, value, first_path(value), size);
      if (!stays) remove_preload(value);
      keep = *value != 0;
    }
    if (keep) *to++ = *from;
  }
  if (to) *to = NULL;
  if (!have_settings || !*preload) return false;
  copy_text(taken_settings, settings, text_length(settings), sizeof taken_settings);
  copy_text(taken_preload, preload, text_length(preload), sizeof taken_preload);
  return true;
}

/* ---- copies with and without the agent ------------------------------------------------------ */

/* The head of an environment's mapping. A vfork child that has called exec leaves its environment
 * in its parent's memory: it is freed by a later call, when the child has ended. */
typedef struct block {
  struct block *next;
  uint64_t bytes;
  pid_t maker; /* 0: no longer used */
} block_t;

static block_t *blocks; /* except those that a thread is examining */

static void push_block(block_t *b) {
  b->next = load_acquire(&blocks);
  while (!cas_acq_rel(&blocks, &b->next, b)) {
  }
}

static void free_unused_blocks(void) {
  block_t *b = __atomic_exchange_n(&blocks, NULL, __ATOMIC_ACQ_REL);
  while (b) {
    block_t *next = b->next;
    if (b->maker && os_process_alive(b->maker))
      push_block(b);
    else
      os_unmap(b, b->bytes);
    b = next;
  }
}

/* Allocates COUNT pointers and a NULL, then TEXTS bytes. */
static char **new_environment(uint64_t count, uint64_t texts, char **text) {
  uint64_t bytes = sizeof(block_t) + 8 * (count + 1) + texts;
  free_unused_blocks();
  block_t *block = os_map(bytes);
  if (!block) return NULL;
  block->bytes = bytes;
  block->maker = os_pid();
  push_block(block);
  char **environment = (char **)(void *)(block + 1);
  *text = (char *)(environment + count + 1);
  return environment;
}

static char *append(char *out, const char *text) {
  uint64_t n = text_length(text);
  memcpy(out, text, n + 1);
  return out + n;
}

static bool is_readable(const void *p) {
  return os_readable(ALIGN_DOWN((uint64_t)(uintptr_t)p, (uint64_t)8));
}

/* An invalid environment is passed on; the kernel refuses it. */
static bool can_be_read(char *const *environment) {
  for (; environment; environment++) {
    if (!is_readable(environment)) return false;
    if (!*environment) return true;
    if (!is_readable(*environment)) return false;
  }
  return true;
}

/* The value of NAME in a readable environment; *COUNT is its number of entries. */
static char *find(char *const *environment, const char *name, uint64_t *count) {
  char *found = NULL;
  uint64_t n = 0;
  for (; environment && environment[n]; n++) {
    char *value = value_of(environment[n], name);
    if (value) found = value;
  }
  *count = n;
  return found;
}

bool environment_has(char *const *environment, const char *name) {
  uint64_t count;
  return can_be_read(environment) && find(environment, name, &count);
}

const char *environment_agent(void) { return taken_preload; }

static bool starts_with_path(const char *list, const char *path) {
  uint64_t n = text_length(path);
  return first_path(list) == n && memcmp(list, path, n) == 0;
}

/* The preloads in VALUE behind the agent, which is the first. */
static const char *other_preloads(const char *value) {
  if (!starts_with_path(value, taken_preload)) return value;
  uint64_t n = text_length(taken_preload);
  return value[n] ? value + n + 1 : "";
}

/* Appends the preload for a program whose sanitizer's RUNTIME, a list that starts with it, comes
 * first. OTHERS are the program's own preloads. */
static void append_preload(char *text, const char *runtime, const char *agent, const char *others) {
  text = append(text, PRELOAD "=");
  uint64_t n = first_path(runtime);
  memcpy(text, runtime, n);
  text += n;
  if (n) *text++ = ':';
  text = append(text, agent);
  if (*others) append(append(text, ":"), others);
}

/* A copy of ENVIRONMENT, of COUNT variables, with the description of the seccomp filters. */
static char **environment_with_hint(char *const *environment, uint64_t count, const char *hint) {
  char *text, **out = new_environment(count + 1, text_length(hint) + 64, &text);
  if (!out) return NULL;
  memcpy(out, environment, count * sizeof *out);
  out[count] = text;
  append(append(text, AGENT_SECCOMP "="), hint);
  return out;
}

char **environment_with_agent(char *const *environment, const char *program, const char *agent) {
  uint64_t count, n = 0;
  char name[SANITIZER_NAME_MAX];
  if (!can_be_read(environment)) return NULL;
  const char *settings = find(environment, AGENT_SETTINGS, &count);
  const char *preload = find(environment, PRELOAD, &count);
  const char *others = preload ? other_preloads(preload) : "";
  bool needs = program && sanitizer_of_program(program, name);
  const char *runtime = needs ? name : sanitizer_in_list(others);
  const char *hint = seccomp_hint();
  bool is_there = settings && text_equal(agent, taken_preload);
  if (is_there && (!runtime || others == preload))
    return *hint ? environment_with_hint(environment, count, hint) : NULL;
  if (!runtime) runtime = "";
  char *text, **out = new_environment(count + 3,
                                      text_length(taken_settings) + text_length(agent) +
                                          text_length(others) + first_path(runtime) +
                                          text_length(hint) + 128,
                                      &text);
  if (!out) return NULL;
  for (uint64_t i = 0; i < count; i++)
    if (!value_of(environment[i], PRELOAD)) out[n++] = environment[i];
  if (*hint) {
    out[n++] = text;
    text = append(append(text, AGENT_SECCOMP "="), hint) + 1;
  }
  if (!settings) {
    out[n++] = text;
    text = append(append(text, AGENT_SETTINGS "="), taken_settings) + 1;
  }
  out[n++] = text;
  append_preload(text, runtime, agent, others);
  return out;
}

char **environment_without_agent(char *const *environment) {
  uint64_t count, n = 0;
  if (!can_be_read(environment) || !find(environment, AGENT_SETTINGS, &count)) return NULL;
  const char *preload = find(environment, PRELOAD, &count);
  const char *others = preload ? other_preloads(preload) : "";
  char *text, **out = new_environment(count, text_length(others) + 64, &text);
  if (!out) return NULL;
  for (uint64_t i = 0; i < count; i++)
    if (!value_of(environment[i], PRELOAD) && !value_of(environment[i], AGENT_SETTINGS))
      out[n++] = environment[i];
  if (*others) {
    out[n] = text;
    append(append(text, PRELOAD "="), others);
  }
  return out;
}

void environment_free(char **environment) {
  block_t *block = (block_t *)(void *)environment - 1;
  store_relaxed(&block->maker, 0);
  free_unused_blocks();
}
