/* SPDX-License-Identifier: MIT */
#include "sensor/trace/objc_lookups.h"

#include "hook/trampoline.h"
#include "os/os.h"
#include "record/writer.h"
#include "sensor/trace/imports.h"
#include "sensor/trace/objc_methods.h"
#include "sensor/trace/trace.h"

/* trampoline_t.data of a method: not decided, traced, not traced. */
enum { METHOD_NEW, METHOD_TRACED, METHOD_IGNORED };

static void *next_lookup, *next_lookup_super;

/* ---- a method -------------------------------------------------------------------------------- */

/* Creates the trampoline of a method, also if the method is not traced. NULL: it cannot. */
static NOINLINE trampoline_t *add_method(uint64_t method, uint64_t class, uint64_t selector) {
  shm_control_t *control = writer_control(); /* in a forked child its own, or NULL */
  char name[METHOD_NAME_MAX];
  if (!control) return NULL;
  bool made, has_name = objc_methods_name(method, class, selector, name, &made);
  trampoline_t *t = made ? NULL : trampoline_new(method);
  if (!t) {
    add_relaxed(&control->messages_left, 1u);
    return NULL;
  }
  if (!has_name || !imports_match(control->trace_pattern, name, NULL)) {
    store_release(&t->data, METHOD_IGNORED);
    return t;
  }
  trace_name(method, name);
  trampoline_set(t, &imports_timed_calls);
  add_relaxed(&control->methods_timed, 1u);
  store_release(&t->data, METHOD_TRACED);
  return t;
}

static uint64_t replace(uint64_t method, uint64_t class, uint64_t selector) {
  trampoline_t *t = trampoline_find(method);
  if (UNLIKELY(!t || load_acquire(&t->data) == METHOD_NEW)) t = add_method(method, class, selector);
  return t && load_relaxed(&t->data) == METHOD_TRACED ? trampoline_thunk(t) : method;
}

/* ---- replacements of the runtime's functions ------------------------------------------------- */

static uint64_t lookup(const uint64_t *receiver, uint64_t selector) {
  return objc_methods_lookup((const void *)load_acquire(&next_lookup), receiver, selector, false,
                             trace_on() ? replace : NULL);
}

static uint64_t lookup_super(const uint64_t *super, uint64_t selector) {
  return objc_methods_lookup((const void *)load_acquire(&next_lookup_super), super, selector, true,
                             trace_on() ? replace : NULL);
}

/* ---- hooking --------------------------------------------------------------------------------- */

bool objc_lookups_may_match(const char *pattern, const char *name) {
  bool is_super;
  if (!objc_methods_is_lookup(name, &is_super)) return false;
  return imports_may_name_methods(pattern);
}

void *objc_lookups_replace(const hook_candidate_t *c, void ***original) {
  bool is_super;
  if (!objc_methods_is_lookup(c->name, &is_super) || !objc_methods_find_runtime()) return NULL;
  *original = is_super ? &next_lookup_super : &next_lookup;
  return (void *)(uintptr_t)(is_super ? lookup_super : lookup);
}
