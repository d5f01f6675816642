/* SPDX-License-Identifier: MIT
 *
 * Objective-C messages on Apple's runtime. A message is a call of objc_msgSend, which goes on in
 * the method by a jump, with all registers as they are. A trampoline (hook/trampoline.h) stands
 * before it while calls are traced, so the runtime still does all that it does for a message: it
 * resolves, initialises, forwards. Which method that will be is asked of the runtime by public
 * functions, once for a class and a selector; that answer is kept in a table that only grows, so a
 * method exchanged later goes by the name that it had.
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

/* Its code stands for the method in the recording, which has its name then; 0. */
static uint64_t name_method(const objc_msgsend_table_t *t, uint64_t method, uint64_t class,
                            uint64_t selector) {
  shm_control_t *control = writer_control(); /* a forked child's own, when it has one */
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
