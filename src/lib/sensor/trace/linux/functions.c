/* SPDX-License-Identifier: MIT
 *
 * Functions of images that nobody rebuilt, patched at run time (hook/entry.h).
 *
 * While tracing is off the functions have their own bytes. They are patched again when tracing is
 * switched on, if that is safe: a thread may be anywhere in them, also the only thread of a
 * process, which a signal of the recorder interrupts. So a recorder stops the threads and looks
 * where they are. Without it, a process with one thread changes its code itself. Code that has not
 * run yet is changed at once.
 *
 * Never patched: the loader, which runs before threads have their thread-local storage, the vDSO,
 * and the image that contains this code.
 */
#include "base/text.h"
#include "hook/entry.h"
#include "sensor/trace/code.h"
#include "sensor/trace/imports.h"
#include "sensor/trace/trace.h"

typedef struct choice {
  const char *pattern;
  bool is_new; /* the images that were not seen before have not run yet */
  code_result_t *result;
  imports_named_t named; /* of the image that is patched */
} choice_t;

/* Images that were patched; and those whose patched functions this recording has counted: a bit
 * each. */
static uint8_t seen[IMAGE_ID_MAX / 8 + 1], counted[IMAGE_ID_MAX / 8 + 1];

/* Writes "+0x1a2b". */
static void name_offset(uint64_t offset, char *out) {
  unsigned shift = 60;
  *out++ = '+', *out++ = '0', *out++ = 'x';
  while (shift && !(offset >> shift & 15))
    shift -= 4;
  for (;; shift -= 4) {
    *out++ = "0123456789abcdef"[offset >> shift & 15];
    if (!shift) break;
  }
  *out = 0;
}

const char *code_name_of(const entry_candidate_t *c, char *out) {
  if (c->name) return c->name;
  name_offset(c->start - c->image->image.slide, out);
  return out;
}

static bool wants(const entry_candidate_t *c, trampoline_t *t, void *context) {
  const choice_t *choice = context;
  char offset[CODE_OFFSET_NAME];
  const char *name = code_name_of(c, offset);
  if (!imports_select_code(choice->pattern, c->image, name) &&
      !imports_is_named(&choice->named, c->start))
    return false;
  imports_verdict_t verdict = imports_verdict(name);
  if (verdict == IMPORTS_NEVER) return false;
  if (verdict == IMPORTS_CALLED) t->flags |= TRAMPOLINE_ENTRY_ONLY;
  trampoline_set(t, verdict == IMPORTS_CALLED ? &imports_called_calls : &imports_timed_calls);
  return true;
}

bool code_may_be_patched(const image_entry_t *e) {
  uint64_t here = (uint64_t)(uintptr_t)seen;
  if (e->is_vdso || !e->path || (here >= e->image.start && here < e->image.end)) return false;
  return !text_after(text_base_name(e->path), "ld-");
}

static bool patch_image(image_entry_t *e, void *context) {
  choice_t *choice = context;
  uint8_t *byte = &seen[e->id / 8], *count = &counted[e->id / 8], bit = (uint8_t)(1u << e->id % 8);
  entry_request_t request = {.owner = ENTRY_OF_TRACER, .wants = wants, .context = context};
  if (!code_may_be_patched(e) || !imports_select_image(choice->pattern, e)) return true;
  bool is_known = *byte & bit;
  bool is_safe = choice->is_new ? !is_known : !entry_change_stopped && entry_is_alone();
  if (is_known) {
    choice->result->unmoved[MOVE_THREADS] += entry_patch_again(e, ENTRY_OF_TRACER, is_safe);
    if (!(*count & bit)) choice->result->moved += entry_count(e, ENTRY_OF_TRACER);
    *count |= bit;
    return true;
  }
  *byte |= bit;
  *count |= bit;
  imports_find_named(choice->pattern, e, &choice->named);
  entry_patch(e, is_safe, &request);
  choice->result->moved += request.patched;
  for (uint32_t i = 0; i < MOVE_FAULT_COUNT; i++)
    choice->result->unmoved[i] += request.refused[i];
  return true;
}

void functions_patch(const char *pattern, bool is_new, code_result_t *result) {
  choice_t choice = {.pattern = pattern, .is_new = is_new, .result = result};
  if (*pattern && !trampoline_ready()) image_list_each(patch_image, &choice);
}

void functions_unpatch(void) { entry_suspend(ENTRY_OF_TRACER); }

/* The stubs of an equal pattern are used again, so that they do not grow with the recordings. */
void functions_begin(const char *pattern) {
  static char last[sizeof((shm_control_t *)0)->trace_pattern];
  memset(counted, 0, sizeof counted);
  if (text_equal(last, pattern)) return;
  if (last[0]) (void)entry_restore(ENTRY_OF_TRACER);
  memset(seen, 0, sizeof seen);
  (void)text_append(last, pattern);
}
