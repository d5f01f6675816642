/* SPDX-License-Identifier: MIT
 *
 * Targets "IMAGE!FUNCTION" of sonde/intercept.h: patched entries.
 */
#include "hook/entry.h"
#include "sensor/intercept/intercept.h"
#include "sensor/trace/code.h"
#include "sensor/trace/imports.h"

typedef struct selection {
  const char *target;
  uint32_t number;
  bool is_unacceptable; /* a function that the pattern selects */
  entry_request_t request;
  imports_named_t named; /* of the image that is patched */
} selection_t;

static bool wants(const entry_candidate_t *c, trampoline_t *t, void *context) {
  selection_t *s = context;
  char offset[CODE_OFFSET_NAME];
  const char *name = code_name_of(c, offset);
  if (!imports_select_code(s->target, c->image, name) && !imports_is_named(&s->named, c->start))
    return false;
  if (!intercept_accepts(s->number, name)) {
    s->is_unacceptable = true;
    return false;
  }
  intercept_set(t, s->number);
  return true;
}

static bool patch_image(image_entry_t *e, void *context) {
  selection_t *s = context;
  if (!code_may_be_patched(e) || !imports_select_image(s->target, e)) return true;
  imports_find_named(s->target, e, &s->named);
  entry_patch(e, entry_is_alone(), &s->request);
  return true;
}

int intercept_code(const char *target, uint32_t number) {
  selection_t s = {.target = target, .number = number};
  s.request = (entry_request_t){
      .owner = (entry_owner_t)(ENTRY_OF_OTHERS + number), .wants = wants, .context = &s};
  image_list_each(patch_image, &s);
  if (s.request.patched) return (int)s.request.patched;
  if (s.request.refused[MOVE_THREADS]) return SONDE_EBUSY;
  for (uint32_t i = 1; i < MOVE_FAULT_COUNT; i++)
    s.is_unacceptable |= s.request.refused[i] != 0;
  return s.is_unacceptable ? SONDE_EUNSUPPORTED : SONDE_ENOTFOUND;
}

int intercept_code_restore(uint32_t number) {
  return entry_restore((entry_owner_t)(ENTRY_OF_OTHERS + number)) ? SONDE_EBUSY : SONDE_OK;
}
