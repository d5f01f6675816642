/* SPDX-License-Identifier: MIT
 *
 * Methods on Apple's runtime: while a policy names methods, a trampoline wraps objc_msgSend and its
 * variants (trace/apple/objc_msgsend.h) and audits messages that reach one of them. The table of a
 * policy, 400 KB of address space, stays mapped as the policy does.
 */
#include "arch/keep.h"
#include "os/os.h"
#include "sensor/trace/apple/objc_msgsend.h"
#include "sensor/audit/objc_methods.h"
#include "sensor/trace/objc_methods.h"

_Static_assert(AUDIT_LOOKUPS == OBJC_MSGSENDS, "the same functions");

typedef struct known {
  objc_msgsend_table_t table;
  const audit_policy_t *policy;
} known_t;

static known_t *known; /* of the last policy */

const char *audit_lookup_name(uint32_t number) { return objc_msgsend_names[number]; }

static uint64_t number_of(const objc_msgsend_table_t *table, uint64_t method, uint64_t class,
                          uint64_t selector) {
  const audit_policy_t *p = ((const known_t *)(const void *)table)->policy;
  char name[METHOD_NAME_MAX];
  bool left, has_name = objc_methods_name(method, class, selector, name, &left);
  uint32_t number = has_name ? audit_method_number(p, name, true, &left) : 0;
  if (left) audit_method_left();
  return number;
}

static void called(uint64_t number, uint64_t at, uint64_t c, uint64_t d) {
  (void)c, (void)d;
  audit_method_called((uint32_t)number, *(const caller_t *)(uintptr_t)at);
}

static bool before_call(call_t *call, const uint64_t *arguments) {
  known_t *k = load_acquire(&known);
  uint32_t send = call->trampoline->data;
  if (audit_methods_policy() != k->policy) return false;
  uint64_t class = objc_msgsend_class(send, arguments);
  uint64_t number =
      class ? objc_msgsend_value(&k->table, class, objc_msgsend_selector(send, arguments)) : 0;
  const caller_t at = {call->return_address, call->sp, call->caller_fp};
  if (number) arch_call_keeping(number, (uintptr_t)&at, 0, 0, called);
  return false;
}

static const trampoline_handlers_t calls = {.before = before_call};

static bool prepare(const audit_policy_t *p) {
  if (known && known->policy == p) return true;
  known_t *new = os_map(sizeof *new);
  if (!new) return false;
  *new = (known_t){.table = {.meet = number_of, .left = audit_method_left}, .policy = p};
  if (!objc_msgsend_table_make(&new->table)) return false;
  store_release(&known, new);
  return true;
}

/* The tracer uses other trampolines. */
void *audit_lookup(uint32_t number, void ***original) {
  bool is_ready = objc_msgsend_find_runtime() && prepare(audit_methods_policy());
  trampoline_t *t = is_ready ? trampoline_new((uintptr_t)audit_lookup_name(number)) : NULL;
  if (!t) return NULL;
  t->data = number;
  t->flags = TRAMPOLINE_ENTRY_ONLY;
  trampoline_set(t, &calls);
  *original = (void **)(uintptr_t)&t->target;
  return (void *)(uintptr_t)trampoline_thunk(t);
}
