/* SPDX-License-Identifier: MIT */
#include "sensor/audit_methods.h"

#include "os/os.h"
#include "record/write.h"
#include "sensor/audit.h"
#include "sensor/methods.h"

#define METHODS_MAX 8192u
#define TEXTS_BYTES (1u << 20) /* of the names that stand for a glob */

/* A method that the policy names. */
typedef struct method {
  const audit_policy_t *policy;
  uint64_t name; /* 0, or a text: the argument */
  uint32_t function;
  uint32_t next; /* the same method, as another function of the policy; 0: none */
} method_t;

const char *const audit_lookups[AUDIT_LOOKUPS] = {"objc_msg_lookup", "objc_msg_lookup_super"};

static const audit_policy_t *in_force;
static void *next_lookups[AUDIT_LOOKUPS];
static method_t *methods; /* METHODS_MAX, from the second on */
static char *texts;
static uint32_t method_count, texts_used;

static bool tell(call_t *call, const uint64_t *arguments) {
  const caller_t at = {call->return_address, call->sp, call->caller_fp};
  (void)arguments;
  for (uint32_t i = call->trampoline->data; i; i = methods[i].next)
    if (methods[i].policy == load_acquire(&in_force))
      audit_called(methods[i].function, (const uint64_t[AUDIT_ARGUMENTS]){methods[i].name}, at);
  return false;
}

static const trampoline_calls_t calls = {.before = tell};

/* ---- a method ------------------------------------------------------------------------------- */

/* Whether function NUMBER of the policy is the method NAME. */
static bool names(const audit_policy_t *p, uint32_t number, const char *name) {
  const char *glob = audit_string(p, audit_functions(p)[number].name);
  return audit_is_method(glob) && audit_glob(glob, name);
}

/* A copy of NAME that stays; 0: there is no room. */
static uint64_t keep(const char *name) {
  uint32_t size = 1;
  while (name[size - 1])
    size++;
  uint32_t at = add_relaxed(&texts_used, size);
  if (at > TEXTS_BYTES - size) return 0;
  memcpy(texts + at, name, size);
  return (uint64_t)(uintptr_t)(texts + at);
}

/* The number of a method that is to be told as FUNCTION, and as NEXT, or 0. */
static uint32_t number_of(const audit_policy_t *p, uint32_t function, const char *name,
                          uint32_t next) {
  uint32_t number = add_relaxed(&method_count, 1u) + 1;
  if (number >= METHODS_MAX) {
    store_relaxed(&method_count, METHODS_MAX);
    return 0;
  }
  bool is_glob = audit_functions(p)[function].text < AUDIT_ARGUMENTS;
  uint64_t text = is_glob ? keep(name) : 0;
  if (is_glob && !text) return 0;
  methods[number] = (method_t){p, text, function, next};
  return number;
}

/* Of one method for one policy; apart from that of a function, and from the tracer's. */
static uint64_t key_of(uint64_t method, const audit_policy_t *p) {
  return method ^ (uint64_t)(uintptr_t)p << 20 ^ UINT64_C(1) << 63;
}

static void count_left(void) {
  scratch_control_t *control = write_control();
  if (control) add_relaxed(&control->messages_left, 1u);
}

/* A method that has no trampoline yet gets one, be it that it is not to be told. */
static NOINLINE trampoline_t *meet(const audit_policy_t *p, uint64_t method, uint64_t class,
                                   uint64_t selector) {
  char name[METHOD_NAME_MAX];
  bool made, has_name = methods_name(method, class, selector, name, &made);
  trampoline_t *t = made ? NULL : trampoline_take(key_of(method, p));
  uint32_t number = 0;
  bool left = made;
  for (uint32_t i = p->function_count; has_name && i-- > 0;)
    if (names(p, i, name)) {
      uint32_t more = t ? number_of(p, i, name, number) : 0;
      left |= !more;
      if (more) number = more;
    }
  if (left) count_left();
  if (number) {
    t->flags = TRAMPOLINE_ENTRY_ONLY;
    store_release(&t->target, method);
    store_release(&t->data, number);
    trampoline_set(t, &calls);
  }
  return t;
}

static uint64_t stand_in(uint64_t method, uint64_t class, uint64_t selector) {
  const audit_policy_t *p = load_acquire(&in_force);
  if (!p) return method;
  trampoline_t *t = trampoline_find(key_of(method, p));
  if (UNLIKELY(!t)) t = meet(p, method, class, selector);
  return t && load_acquire(&t->calls) ? trampoline_thunk(t) : method;
}

/* ---- the functions in place of the runtime's ------------------------------------------------ */

static uint64_t lookup(const uint64_t *receiver, uint64_t selector) {
  return methods_lookup((const void *)load_acquire(&next_lookups[0]), receiver, selector, false,
                        stand_in);
}

static uint64_t lookup_super(const uint64_t *super, uint64_t selector) {
  return methods_lookup((const void *)load_acquire(&next_lookups[1]), super, selector, true,
                        stand_in);
}

void *audit_lookup(uint32_t number, void ***original) {
  if (!methods_find_runtime()) return NULL;
  *original = &next_lookups[number];
  return (void *)(uintptr_t)(number ? lookup_super : lookup);
}

bool audit_methods_start(const audit_policy_t *p) {
  bool any = false;
  for (uint32_t i = 0; i < p->function_count; i++)
    any |= audit_is_method(audit_string(p, audit_functions(p)[i].name));
  if (!any) return false;
  if (!methods) methods = os_map(METHODS_MAX * sizeof *methods);
  if (!texts) texts = os_map(TEXTS_BYTES);
  if (!methods || !texts) return false;
  store_release(&in_force, p);
  return true;
}

void audit_methods_stop(void) { store_release(&in_force, NULL); }
