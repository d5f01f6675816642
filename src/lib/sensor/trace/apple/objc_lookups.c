/* SPDX-License-Identifier: MIT
 *
 * Objective-C messages on Apple's runtime. A message is a call of objc_msgSend, which jumps to the
 * method with all registers unchanged. A trampoline (hook/trampoline.h) wraps it while calls are
 * traced, so the runtime still resolves, initializes and forwards. Public functions of the runtime
 * say which method a message reaches, once per class and selector. The result is kept in a table
 * that only grows, so a method exchanged later keeps its old name.
 */
#include "sensor/trace/objc_lookups.h"

#include "hook/trampoline.h"
#include "sensor/trace/apple/objc_msgsend.h"
#include "sensor/trace/imports.h"
#include "sensor/trace/objc_methods.h"
#include "sensor/trace/trace.h"

static void count_left(void) {
  if (writer_control()) add_relaxed(&writer_control()->messages_left, 1u);
}

/* Names METHOD in the recording and returns it; 0: it does not match. */
static uint64_t name_method(const objc_msgsend_table_t *t, uint64_t method, uint64_t class,
                            uint64_t selector) {
  shm_control_t *control = writer_control(); /* in a forked child its own, or NULL */
  char name[METHOD_NAME_MAX];
  bool made;
  (void)t;
  if (!objc_methods_name(method, class, selector, name, &made)) {
    if (made) count_left();
    return 0;
  }
  if (!control || !imports_match(control->trace_pattern, name, NULL)) return 0;
  trace_name(method, name);
  add_relaxed(&control->methods_timed, 1u);
  return method;
}

static objc_msgsend_table_t table = {.meet = name_method, .left = count_left};

static bool begins(call_t *call, const uint64_t *arguments) {
  uint32_t generation = trace_on(), number = call->trampoline->data;
  uint64_t class = generation ? objc_msgsend_class(number, arguments) : 0;
  if (!class) return false;
  call->data = objc_msgsend_value(&table, class, objc_msgsend_selector(number, arguments));
  if (call->data) trace_enter_keeping(generation, call->data, call->sp);
  return call->data != 0;
}

static void ends(call_t *call, call_end_t end) {
  uint32_t generation = trace_on();
  if (generation && end != CALL_LOST) trace_exit_keeping(generation, call->data, call->sp);
}

static const trampoline_handlers_t message_calls = {.before = begins, .after = ends};

bool objc_lookups_may_match(const char *pattern, const char *name) {
  return objc_msgsend_number(name) < OBJC_MSGSENDS && imports_may_name_methods(pattern);
}

void *objc_lookups_replace(const hook_candidate_t *c, void ***original) {
  trampoline_t *t = objc_msgsend_find_runtime() && objc_msgsend_table_make(&table)
                        ? trampoline_new(c->function)
                        : NULL;
  if (!t) return NULL;
  t->data = objc_msgsend_number(c->name);
  trampoline_set(t, &message_calls);
  *original = (void **)(uintptr_t)&t->target;
  return (void *)(uintptr_t)trampoline_thunk(t);
}
