/* SPDX-License-Identifier: MIT
 *
 * The program's environment, edited in place before the program looks at it.
 *
 * The C library's `environ` points at the array the kernel put on the initial stack, above the
 * arguments; where that is, /proc/self/stat tells (field 28, startstack, where argc stands). The
 * entries are moved down over those taken out.
 */
#include "agent/agent.h"

#include <string.h>

#include "os/os.h"

#define PRELOAD "LD_PRELOAD"

static char taken_settings[4096], taken_preload[4096];

static uint64_t length(const char *text) {
  uint64_t n = 0;
  while (text[n])
    n++;
  return n;
}

static bool copy_text(char *out, const char *from, uint64_t count, uint64_t size) {
  if (count + 1 > size) return false;
  memcpy(out, from, count);
  out[count] = 0;
  return true;
}

/* The value of VARIABLE when it is NAME=value, else NULL. */
static char *value_of(char *variable, const char *name) {
  uint64_t n = length(name);
  for (uint64_t i = 0; i < n; i++)
    if (variable[i] != name[i]) return NULL;
  return variable[n] == '=' ? variable + n + 1 : NULL;
}

/* Field 28 of /proc/self/stat; the name in field 2 may hold anything, so count from its end. */
static uint64_t start_of_stack(void) {
  char text[1024];
  ssize_t n = os_read_file("/proc/self/stat", text, sizeof text);
  if (n <= 0) return 0;
  const char *p = NULL;
  for (ssize_t i = 0; i < n; i++)
    if (text[i] == ')') p = text + i + 1;
  if (!p) return 0;
  for (int field = 2; field < 28; field++) {
    while (*p && *p != ' ')
      p++;
    if (!*p) return 0;
    p++;
  }
  uint64_t value = 0;
  for (; *p >= '0' && *p <= '9'; p++)
    value = value * 10 + (uint64_t)(*p - '0');
  return value;
}

static char **initial_environment(void) {
  uint64_t at = start_of_stack(), argc = 0;
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

/* Takes the first path out of the list in VALUE, which may be all of it. */
static bool take_preload(char *value, char *preload, uint64_t size) {
  uint64_t n = first_path(value);
  if (!copy_text(preload, value, n, size)) return false;
  uint64_t skip = value[n] ? n + 1 : n;
  memmove(value, value + skip, length(value + skip) + 1);
  return true;
}

static bool copy_preload(const char *value, char *preload, uint64_t size) {
  return copy_text(preload, value, first_path(value), size);
}

bool environment_take(char *settings, char *preload, uint64_t size) {
  char **from = initial_environment(), **to = from, *value;
  bool have_settings = false, have_preload = false;
  settings[0] = preload[0] = 0;
  for (char **at = from; at && *at && !have_settings; at++)
    if ((value = value_of(*at, AGENT_SETTINGS)))
      have_settings = copy_text(settings, value, length(value), size);
  bool stays = have_settings && follow_in(settings);
  for (; from && *from; from++) {
    bool keep = true;
    if (value_of(*from, AGENT_SETTINGS)) {
      keep = stays;
    } else if ((value = value_of(*from, PRELOAD)) && !have_preload) {
      have_preload =
          stays ? copy_preload(value, preload, size) : take_preload(value, preload, size);
      keep = *value != 0;
    }
    if (keep) *to++ = *from;
  }
  if (to) *to = NULL;
  if (!have_settings || !have_preload) return false;
  copy_text(taken_settings, settings, length(settings), sizeof taken_settings);
  copy_text(taken_preload, preload, length(preload), sizeof taken_preload);
  return true;
}

/* ---- putting it back ---------------------------------------------------------------------- */

/* One mapping: the count of its bytes, the pointers, the two texts. */
static char *put(char *out, const char *text) {
  uint64_t n = length(text);
  memcpy(out, text, n + 1);
  return out + n;
}

static bool is_readable(const void *p) {
  return os_readable(ALIGN_DOWN((uint64_t)(uintptr_t)p, (uint64_t)8));
}

/* An environment that is none is the kernel's to refuse. */
static bool can_be_read(char *const *environment) {
  for (; environment; environment++) {
    if (!is_readable(environment)) return false;
    if (!*environment) return true;
    if (!is_readable(*environment)) return false;
  }
  return true;
}

char **environment_with_agent(char *const *environment) {
  const char *others = "";
  uint64_t count = 0;
  if (!can_be_read(environment)) return NULL;
  for (; environment && environment[count]; count++) {
    if (value_of(environment[count], AGENT_SETTINGS)) return NULL;
    char *value = value_of(environment[count], PRELOAD);
    if (value) others = value;
  }
  uint64_t texts = length(taken_settings) + length(taken_preload) + length(others) + 64;
  uint64_t bytes = 8 * (count + 4) + texts;
  uint64_t *block = os_map(bytes);
  if (!block) return NULL;
  *block = bytes;
  char **out = (char **)(block + 1), *text = (char *)(out + count + 3);
  uint64_t n = 0;
  for (uint64_t i = 0; i < count; i++)
    if (!value_of(environment[i], PRELOAD)) out[n++] = environment[i];
  out[n++] = text;
  text = put(put(text, AGENT_SETTINGS "="), taken_settings) + 1;
  out[n++] = text;
  text = put(put(text, PRELOAD "="), taken_preload);
  if (*others) put(put(text, ":"), others);
  return out;
}

void environment_free(char **environment) {
  uint64_t *block = (uint64_t *)environment - 1;
  os_unmap(block, *block);
}
