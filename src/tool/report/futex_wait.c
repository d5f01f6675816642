/* SPDX-License-Identifier: MIT */
#include "report/futex_wait.h"

#include <string.h>

#include "analysis/called_name.h"

/* The innermost frames, which may be inlined into each other. */
enum { FRAMES_MAX = 6 };

/* The outermost of the innermost functions that belong to system images. Where they do not end, for
 * a library is deep or the thread is its own: the function of the C library that it called. NULL:
 * unknown. */
static const char *called_function(const report_t *r, uint32_t stack) {
  const record_frame_t *frames[FRAMES_MAX];
  const frame_name_t *names;
  const char *found = NULL, *of_libc = NULL;
  bool in_libc = true;
  int depth = reader_stack(r->reader, stack, frames, FRAMES_MAX);
  for (int i = 0; i < depth && i < FRAMES_MAX; i++) {
    if (frame_names_is_marker(frames[i])) return of_libc;
    int count = frame_names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < count; k++) {
      if (!names[k].system) return found;
      if (reader_is_agent(r->reader, frames[i])) continue;  /* a hook of sonde */
      if (!strstr(names[k].library, ".so")) return of_libc; /* inside an interpreter */
      found = names[k].known ? names[k].function : NULL;
      if (found && called_is_start(found)) return of_libc;
      in_libc = in_libc && called_is_libc(names[k].library);
      if (in_libc && found) of_libc = found;
    }
  }
  return of_libc;
}

const char *wait_called(const report_t *r, uint32_t stack, const char *call) {
  const futex_wait_t *wait = stack ? futex_wait_of_stack(r, stack) : NULL;
  if (wait && wait->function) return wait->function;
  const char *function = stack ? called_function(r, stack) : NULL;
  return function ? called_name(function) : call;
}

bool wait_is_shown(const report_t *r, uint32_t stack) {
  const record_frame_t *frame;
  const frame_name_t *names;
  if (!stack || reader_stack(r->reader, stack, &frame, 1) < 1 || frame_names_is_marker(frame))
    return false;
  return frame_names_of_frame(r->names, frame, &names) > 0 && (names[0].known || *names[0].library);
}

const futex_wait_t *futex_wait_of_stack(const report_t *r, uint32_t stack) {
  const record_frame_t *frames[FRAMES_MAX];
  const frame_name_t *names;
  const futex_wait_t *found = NULL;
  int depth = reader_stack(r->reader, stack, frames, FRAMES_MAX);
  for (int i = 0; i < depth && i < FRAMES_MAX; i++) {
    if (frame_names_is_marker(frames[i])) continue;
    int count = frame_names_of_frame(r->names, frames[i], &names);
    for (int k = 0; k < count; k++) {
      const futex_wait_t *wait = futex_wait_of_function(names[k].function);
      if (wait && (names[k].system || !found))
        found = wait;
      else if (found && !names[k].system)
        return found;
    }
  }
  return found;
}
