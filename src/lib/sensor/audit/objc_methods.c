/* SPDX-License-Identifier: MIT */
#include "sensor/audit/objc_methods.h"

#include "base/glob.h"
#include "os/os.h"
#include "record/writer.h"
#include "sensor/audit/audit.h"

#define METHODS_MAX 8192u
/* For the names of methods that match a glob. */
#define TEXTS_BYTES (1u << 20)

/* A method that the policy names. */
typedef struct method {
  const audit_policy_t *policy;
  uint64_t name; /* 0, or a text: the argument */
  uint32_t function;
  uint32_t next; /* the same method, as another function of the policy; 0: none */
} method_t;

static const audit_policy_t *active;
static method_t *methods; /* METHODS_MAX; [0] is not used */
static char *texts;
static uint32_t method_count, texts_used;

const audit_policy_t *audit_methods_policy(void) { return load_acquire(&active); }

void audit_method_called(uint32_t number, caller_t at) {
  for (uint32_t i = number; i; i = methods[i].next)
    if (methods[i].policy == load_acquire(&active))
      audit_called(methods[i].function, (const uint64_t[AUDIT_ARGUMENTS]){methods[i].name}, at);
}

/* True if function NUMBER of the policy matches the method NAME. */
static bool names(const audit_policy_t *p, uint32_t number, const char *name) {
  const char *glob = audit_string(p, audit_functions(p)[number].name);
  return audit_is_method(glob) && glob_matches(glob, name);
}

/* A permanent copy of NAME; 0: no space is left. */
static uint64_t keep(const char *name) {
  uint32_t size = 1;
  while (name[size - 1])
    size++;
  uint32_t at = add_relaxed(&texts_used, size);
  if (at > TEXTS_BYTES - size) return 0;
  memcpy(texts + at, name, size);
  return (uint64_t)(uintptr_t)(texts + at);
}

/* The number of a new method that is audited as FUNCTION, and also as method NEXT; 0: the table is
 * full. */
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

void audit_method_left(void) {
  shm_control_t *control = writer_control();
  if (control) add_relaxed(&control->messages_left, 1u);
}

uint32_t audit_method_number(const audit_policy_t *p, const char *name, bool can_audit,
                             bool *left) {
  uint32_t number = 0;
  for (uint32_t i = p->function_count; i-- > 0;) {
    if (!names(p, i, name)) continue;
    uint32_t more = can_audit ? number_of(p, i, name, number) : 0;
    *left |= !more;
    if (more) number = more;
  }
  return number;
}

bool audit_methods_start(const audit_policy_t *p) {
  bool any = false;
  for (uint32_t i = 0; i < p->function_count; i++)
    any |= audit_is_method(audit_string(p, audit_functions(p)[i].name));
  if (!any) return false;
  if (!methods) methods = os_map(METHODS_MAX * sizeof *methods);
  if (!texts) texts = os_map(TEXTS_BYTES);
  if (!methods || !texts) return false;
  store_release(&active, p);
  return true;
}

void audit_methods_stop(void) { store_release(&active, NULL); }
