/* SPDX-License-Identifier: MIT
 *
 * Methods on GNU's runtime: the look-up function returns a trampoline, which the program calls as
 * it would call the method.
 */
#include "sensor/audit/objc_methods.h"
#include "sensor/trace/objc_methods.h"

static void *next_lookups[AUDIT_LOOKUPS];

const char *audit_lookup_name(uint32_t number) {
  return number ? "objc_msg_lookup_super" : "objc_msg_lookup";
}

static bool before_call(call_t *call, const uint64_t *arguments) {
  (void)arguments;
  audit_method_called(call->trampoline->data,
                      (caller_t){call->return_address, call->sp, call->caller_fp});
  return false;
}

static const trampoline_handlers_t calls = {.before = before_call};

/* The key of the trampoline of METHOD for policy P; differs from those of functions and of the
 * tracer. */
static uint64_t key_of(uint64_t method, const audit_policy_t *p) {
  return method ^ (uint64_t)(uintptr_t)p << 20 ^ UINT64_C(1) << 63;
}

/* Creates the trampoline of a method, also if the method is not audited. */
static NOINLINE trampoline_t *add_method(const audit_policy_t *p, uint64_t method, uint64_t class,
                                         uint64_t selector) {
  char name[METHOD_NAME_MAX];
  bool left, has_name = objc_methods_name(method, class, selector, name, &left);
  trampoline_t *t = left ? NULL : trampoline_new(key_of(method, p));
  uint32_t number = has_name ? audit_method_number(p, name, t != NULL, &left) : 0;
  if (left) audit_method_left();
  if (number) {
    t->flags = TRAMPOLINE_ENTRY_ONLY;
    store_release(&t->target, method);
    store_release(&t->data, number);
    trampoline_set(t, &calls);
  }
  return t;
}

static uint64_t replace(uint64_t method, uint64_t class, uint64_t selector) {
  const audit_policy_t *p = audit_methods_policy();
  if (!p) return method;
  trampoline_t *t = trampoline_find(key_of(method, p));
  if (UNLIKELY(!t)) t = add_method(p, method, class, selector);
  return t && load_acquire(&t->calls) ? trampoline_thunk(t) : method;
}

static uint64_t lookup(const uint64_t *receiver, uint64_t selector) {
  return objc_methods_lookup((const void *)load_acquire(&next_lookups[0]), receiver, selector,
                             false, replace);
}

static uint64_t lookup_super(const uint64_t *super, uint64_t selector) {
  return objc_methods_lookup((const void *)load_acquire(&next_lookups[1]), super, selector, true,
                             replace);
}

void *audit_lookup(uint32_t number, void ***original) {
  if (!objc_methods_find_runtime()) return NULL;
  *original = &next_lookups[number];
  return (void *)(uintptr_t)(number ? lookup_super : lookup);
}
