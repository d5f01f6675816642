/* SPDX-License-Identifier: MIT
 *
 * Objective-C messages on Apple's runtime. A message is a call of objc_msgSend, which goes on in
 * the method by a jump, with all registers as they are. A trampoline (hook/trampoline.h) stands
 * before it while calls are traced, so the runtime still does all that it does for a message: it
 * resolves, initialises, forwards. Which method that will be is asked of the runtime by public
 * functions, once for a class and a selector; that answer is kept in a table that only grows, so a
 * method exchanged later goes by the name that it had.
 *
 * x86_64 has variants for results in memory and on the x87 stack, both machines those for super.
 * A receiver's class is asked of the runtime each time (object_getClass: the word that an object
 * begins with is no plain pointer there, and some objects are no memory at all), with the vector
 * registers of the arguments put aside. What is rare goes through arch_call_keeping.
 */
#include "sensor/messages.h"

#include "arch/keep.h"
#include "hook/trampoline.h"
#include "image/slots.h"
#include "os/os.h"
#include "sensor/imports.h"
#include "sensor/methods.h"
#include "sensor/trace.h"

#define PAIRS_MAX  (1u << 14)
#define PROBES_MAX 32u
#define ABOVE      1u /* in a class: the search begins in the one it inherits from */

/* How a function is given its receiver. */
typedef struct variant {
  const char *name;
  uint8_t first;         /* of the receiver among the arguments */
  bool is_super, is_own; /* struct objc_super, whose class is where to begin, or the method's own */
} variant_t;

static const variant_t variants[] = {
    {"objc_msgSend", 0, false, false},       {"objc_msgSend_stret", 1, false, false},
    {"objc_msgSend_fpret", 0, false, false}, {"objc_msgSend_fp2ret", 0, false, false},
    {"objc_msgSendSuper", 0, true, false},   {"objc_msgSendSuper_stret", 1, true, false},
    {"objc_msgSendSuper2", 0, true, true},   {"objc_msgSendSuper2_stret", 1, true, true},
};

/* A class and a selector, and what stands for the method in the recording. */
typedef struct pair {
  uint64_t class; /* 0: free; published last */
  uint64_t selector;
  uint64_t function; /* its code; 0: it is not to be told */
} pair_t;

static pair_t *pairs;
static uint64_t (*class_of)(uint64_t object);
static uint32_t lock; /* of who adds to the table */

/* ---- the table ------------------------------------------------------------------------------ */

static uint32_t place_of(uint64_t class, uint64_t selector) {
  return (uint32_t)((class ^ selector << 7) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % PAIRS_MAX;
}

/* The pair, or where it would go; NULL: there is no room for it. */
static pair_t *find(uint64_t class, uint64_t selector) {
  uint32_t place = place_of(class, selector);
  for (uint32_t i = 0; i < PROBES_MAX; i++) {
    pair_t *pair = &pairs[(place + i) % PAIRS_MAX];
    uint64_t known = load_acquire(&pair->class);
    if (!known || (known == class && pair->selector == selector)) return pair;
  }
  return NULL;
}

/* The address that stands for the method, which has its name in the recording then; 0. */
static uint64_t name_method(uint64_t class, uint64_t selector) {
  scratch_control_t *control = write_control(); /* a forked child's own, when it has one */
  char name[METHOD_NAME_MAX];
  bool made;
  if (!control) return 0;
  if (class & ABOVE) class = methods_above(class - ABOVE);
  uint64_t method = class ? methods_code(class, selector) : 0;
  if (!method) return 0;
  if (!methods_name(method, class, selector, name, &made)) {
    if (made) add_relaxed(&control->messages_left, 1u);
    return 0;
  }
  if (!imports_match(control->trace_pattern, name, NULL)) return 0;
  trace_name(method, name);
  add_relaxed(&control->methods_timed, 1u);
  return method;
}

/* The runtime is asked without the lock: it may call the program. */
static void meet(uint64_t class, uint64_t selector, uint64_t c, uint64_t d) {
  uint32_t none = 0;
  (void)c, (void)d;
  uint64_t function = name_method(class, selector);
  if (!cas_acq_rel(&lock, &none, 1u)) return; /* met again at the next message */
  pair_t *pair = find(class, selector);
  if (pair && !pair->class) {
    pair->selector = selector;
    pair->function = function;
    store_release(&pair->class, class);
  } else if (!pair && write_control()) {
    add_relaxed(&write_control()->messages_left, 1u);
  }
  store_release(&lock, 0u);
}

/* ---- at a message --------------------------------------------------------------------------- */

/* struct objc_super of objc/message.h: the receiver, and a class. */
static uint64_t class_for(const variant_t *v, uint64_t receiver) {
  const uint64_t *super = (const uint64_t *)(uintptr_t)receiver;
  if (!receiver || !v->is_super) return receiver ? arch_ask_keeping(receiver, class_of) : 0;
  return super[0] ? super[1] + (v->is_own ? ABOVE : 0) : 0;
}

static bool begins(call_t *call, const uint64_t *arguments) {
  uint32_t generation = trace_on();
  const variant_t *v = &variants[call->trampoline->data];
  uint64_t class = generation ? class_for(v, arguments[v->first]) : 0;
  uint64_t selector = arguments[v->first + 1];
  if (!class) return false;
  const pair_t *pair = find(class, selector);
  if (UNLIKELY(!pair || !pair->class)) {
    if (pair) arch_call_keeping(class, selector, 0, 0, meet);
    pair = find(class, selector);
    if (!pair || !load_acquire(&pair->class)) return false;
  }
  if (!pair->function) return false;
  call->data = pair->function;
  trace_enter_keeping(generation, call->data, call->sp);
  return true;
}

static void ends(call_t *call, call_end_t end) {
  uint32_t generation = trace_on();
  if (generation && end != CALL_LOST) trace_exit_keeping(generation, call->data, call->sp);
}

static const trampoline_calls_t message_calls = {begins, ends};

/* ---- hooking -------------------------------------------------------------------------------- */

static uint32_t variant_of(const char *name) {
  uint32_t i = 0;
  while (i < ARRAY_COUNT(variants) && !slots_text_equal(variants[i].name, name))
    i++;
  return i;
}

bool messages_may_want(const char *pattern, const char *name) {
  return variant_of(name) < ARRAY_COUNT(variants) && imports_may_name_methods(pattern);
}

static bool prepare(void) {
  static const char *const name[] = {"object_getClass"};
  uint64_t found = 0;
  if (pairs) return true;
  os_symbols(0, name, &found, 1);
  if (!found || !methods_find_runtime()) return false;
  class_of = (uint64_t(*)(uint64_t))(uintptr_t)found;
  pairs = os_map(PAIRS_MAX * sizeof(pair_t));
  return pairs != NULL;
}

void *messages_replace(const hook_candidate_t *c, void ***original) {
  trampoline_t *t = prepare() ? trampoline_take(c->function) : NULL;
  if (!t) return NULL;
  t->data = variant_of(c->name);
  trampoline_set(t, &message_calls);
  *original = (void **)(uintptr_t)&t->target;
  return (void *)(uintptr_t)trampoline_thunk(t);
}
