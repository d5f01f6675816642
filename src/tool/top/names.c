/* SPDX-License-Identifier: MIT */
#include "top/names.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "analysis/called_name.h"
#include "report/own_code.h"
#include "symbol/language.h"
#include "symbol/short_name.h"

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_program(const target_t *target, const module_t *module) {
  return target->exe && strcmp(module->path, target->exe) == 0;
}

int top_names(stack_symbolizer_t *symbolizer, const target_t *target, const frame_t *frames,
              uint32_t count, top_frame_t *out, int max) {
  int made = 0;
  for (uint32_t i = 0; i < count && made < max; i++) {
    const symbolized_pc_t *named = stack_symbolizer_lookup(symbolizer, &frames[i]);
    if (!named || frames[i].folded) continue;
    const module_t *module = named->module;
    bool is_own =
        module && !named->system && (is_program(target, module) || own_image(module->path));
    top_frame_t frame = {.library = module ? base_name(module->path) : "",
                         .is_system = named->system};
    if (named->count == 0) out[made++] = frame;
    for (int k = 0; k < named->count && made < max; k++) {
      const symbol_frame_t *function = &named->functions[k];
      frame.function = function->function;
      frame.file = function->file ? base_name(function->file) : NULL;
      frame.line = function->line;
      frame.is_own =
          frame.function &&
          (named->language ? language_is_own(named->language, function->file)
                           : !module || (is_own && own_function(frame.function, function->file)));
      out[made++] = frame;
    }
  }
  return made;
}

/* ---- calls -------------------------------------------------------------------------------- */

void top_plain_name(const char *name, char *out, size_t size) {
  short_name(called_name(name), (unsigned)size - 1, out, size);
  out[strcspn(out, "@")] = 0;
}

/* The function of the system that the program's innermost frame called; NULL: none is known. */
static const char *called(const top_frame_t *frames, int count) {
  const char *name = NULL;
  for (int i = 0; i < count && frames[i].is_system; i++) {
    if (frames[i].function && called_is_start(frames[i].function)) break;
    if (frames[i].function) name = frames[i].function;
  }
  return name;
}

/* The number of descriptors of a poll, if it is not 1; else the descriptor. */
static void add_polled(const thread_t *thread, target_t *target, char *out, size_t size) {
  const wait_t *wait = &thread->wait;
  struct pollfd first;
  if (!wait->syscall || (strcmp(wait->syscall, "poll") && strcmp(wait->syscall, "ppoll"))) return;
  if (wait->args[1] > 1)
    snprintf(out, size, " of %llu descriptors", (unsigned long long)wait->args[1]);
  else if (wait->args[1] == 1 &&
           target->memory->read(target->memory, wait->args[0], &first, sizeof first))
    snprintf(out, size, " fd %d", first.fd);
}

/* The variable of a lock or condition, without the offset in it, and the lock's owner. */
static void add_futex(stack_symbolizer_t *symbolizer, const wait_t *wait, char *out, size_t size) {
  char variable[64] = "", owner[32] = "";
  if (wait->is_gil)
    snprintf(variable, sizeof variable, "GIL");
  else if (stack_symbolizer_variable(symbolizer, wait->address, variable, sizeof variable))
    variable[strcspn(variable, "+")] = 0;
  if (wait->is_mutex && wait->owner) snprintf(owner, sizeof owner, " held by %d", (int)wait->owner);
  snprintf(out, size, "%s%s%s", *variable ? " " : "", variable, owner);
}

void top_call(stack_symbolizer_t *symbolizer, target_t *target, const thread_t *thread,
              const top_frame_t *frames, int count, char *out) {
  const wait_t *wait = &thread->wait;
  char name[96] = "";
  const char *function = called(frames, count);
  if (function)
    top_plain_name(function, name, sizeof name);
  else if (wait->syscall)
    snprintf(name, sizeof name, "%s", wait->syscall);
  if (wait->is_mutex && wait->owner) snprintf(name, sizeof name, "lock"); /* the holder must fit */
  int n = snprintf(out, TOP_CALL_MAX, "%s", name);
  size_t room = TOP_CALL_MAX - (size_t)n;
  if (wait->address)
    add_futex(symbolizer, wait, out + n, room);
  else if (wait->fd >= 0 && wait->path)
    snprintf(out + n, room, " fd %d %.48s", wait->fd, wait->path);
  else if (wait->fd >= 0)
    snprintf(out + n, room, " fd %d", wait->fd);
  else
    add_polled(thread, target, out + n, room);
}
