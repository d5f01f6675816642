/* SPDX-License-Identifier: MIT */
#include "sensor/audit/hooks.h"

#include "base/glob.h"
#include "base/text.h"
#include "hook/call_stack.h"
#include "hook/filter.h"
#include "hook/trampoline.h"
#include "image/list.h"
#include "os/os.h"
#include "record/writer.h"
#include "sensor/audit/audit.h"
#include "sensor/audit/objc_methods.h"
#include "sensor/audit/results.h"
#include "sonde/hook.h"

/* The hooks of a policy. `names`, `addresses` and `requests` are needed only to set them. After the
 * functions of the policy come the look-up functions for methods. */
typedef struct audited {
  const audit_policy_t *policy;
  uint32_t size; /* of the policy and its YAML */
  const char **names;
  uint64_t *addresses;
  sonde_hook_request_t *requests;
  uint32_t request_count;
  sonde_hook_t **hooks;
  const char **missing;
  uint32_t *missing_numbers;
  bool *reached; /* the functions that are hooked */
  hook_pending_t pending;
} audited_t;

static audited_t active;

/* A trampoline's data: the number of the function, and its audit_result_t above RESULT_SHIFT. */
#define RESULT_SHIFT 28u
#define NUMBER_MASK  ((1u << RESULT_SHIFT) - 1)

typedef int32_t *errno_location_t(void);
static errno_location_t *errno_location; /* the C library's; NULL: results are not recorded */

static bool before_call(call_t *call, const uint64_t *arguments) {
  uint32_t data = call->trampoline->data;
  return audit_called_keeping(data & NUMBER_MASK, arguments,
                              (caller_t){call->return_address, call->sp, call->caller_fp}) &&
         data >> RESULT_SHIFT;
}

static void after_call(call_t *call, call_end_t end) {
  uint32_t data = call->trampoline->data;
  const uint64_t *results = call_stack_own ? call_stack_own->results : NULL;
  if (end != CALL_RETURNED || !results) return;
  bool is_int = data >> RESULT_SHIFT == AUDIT_INT_RESULT;
  int64_t result = is_int ? (int32_t)results[0] : results[0] != 0;
  bool failed = is_int ? result == -1 : !result;
  if (result >= -1) audit_returned(data & NUMBER_MASK, result, failed ? *errno_location() : 0);
}

static void leave_call(call_t *call, const uint64_t *results) {
  call_stack_t *own = call_stack_own;
  if (own) own->results = results;
  trampoline_leave_slow(call);
  if (own) own->results = NULL;
}

static const trampoline_handlers_t calls = {.before = before_call};
static const trampoline_handlers_t returning_calls = {
    .before = before_call, .after = after_call, .leave = leave_call};

static bool is_of(const char *glob, uint64_t address) {
  const image_entry_t *image = image_entry(image_id_of_pc(address));
  return image && glob_matches(glob, text_base_name(image->path));
}

/* True if the function NAME at ADDRESS is in the library that the policy names. A function with
 * which the agent replaces a library's counts as that library's. */
static bool in_library(const audit_policy_t *p, const audit_function_t *f, const char *name,
                       uint64_t address) {
  const char *glob = audit_string(p, f->library), *const names[] = {name};
  uint64_t behind = 0;
  if (!*glob || is_of(glob, address)) return true;
  if (image_id_of_pc(address) != image_id_of_pc((uintptr_t)is_of)) return false;
  os_symbols(address, names, &behind, 1);
  return is_of(glob, behind);
}

/* The trampoline of function NUMBER. Two names of one function, and functions of two policies, have
 * different trampolines: a program may keep a pointer to a thunk longer than a policy is active. */
static trampoline_t *trampoline_for(const audit_policy_t *p, uint32_t number) {
  return trampoline_new((uintptr_t)&audit_functions(p)[number]);
}

static trampoline_t *make_trampoline(const audit_policy_t *p, uint32_t number, uint64_t address) {
  trampoline_t *t = trampoline_for(p, number);
  if (!t) return NULL;
  const char *name = audit_string(p, audit_functions(p)[number].name);
  audit_result_t result = errno_location ? audit_result_of(name) : AUDIT_NO_RESULT;
  t->target = address;
  t->data = number | (uint32_t)result << RESULT_SHIFT;
  t->flags = result ? 0 : TRAMPOLINE_ENTRY_ONLY;
  trampoline_set(t, result ? &returning_calls : &calls);
  return t;
}

static void add_pending(audited_t *a, uint32_t number) {
  a->missing_numbers[a->pending.count] = number;
  a->missing[a->pending.count++] = a->names[number];
}

static bool is_method(const audit_policy_t *p, uint32_t number) {
  return audit_is_method(audit_string(p, audit_functions(p)[number].name));
}

/* Prepares the hook of function NUMBER. The recording lists functions that could not be hooked. */
static void prepare(audited_t *a, uint32_t number) {
  const audit_function_t *f = &audit_functions(a->policy)[number];
  uint64_t address = a->addresses[number];
  if (is_method(a->policy, number)) return;
  bool is_there = address && in_library(a->policy, f, a->names[number], address);
  trampoline_t *t = is_there ? make_trampoline(a->policy, number, address) : NULL;
  if (!is_there) add_pending(a, number);
  if (!t) return;
  a->reached[number] = true;
  a->requests[a->request_count++] =
      (sonde_hook_request_t){.symbol = a->names[number],
                             .replacement = (void *)(uintptr_t)trampoline_thunk(t),
                             .original = (void **)&t->target};
}

/* The same for look-up function NUMBER. When it is hooked all methods are audited. */
static void prepare_lookup(audited_t *a, uint32_t number) {
  uint32_t count = a->policy->function_count, at = count + number;
  void **original, *replacement = a->addresses[at] ? audit_lookup(number, &original) : NULL;
  if (!replacement) {
    add_pending(a, at);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    if (is_method(a->policy, i)) a->reached[i] = true;
  a->requests[a->request_count++] = (sonde_hook_request_t){
      .symbol = a->names[at], .replacement = replacement, .original = original};
}

/* On Apple's systems the audit calls libSystem, which may change result registers. While system
 * calls are watched, the watcher looks for the functions' return addresses on the stack. */
static void find_errno(void) {
#if !defined(__APPLE__)
  static const char *const names[] = {"__errno_location"};
  const shm_control_t *control = writer_control();
  uint64_t address = 0;
  if (!control || !control->audit.watched) os_symbols(0, names, &address, 1);
  errno_location = (errno_location_t *)(uintptr_t)address;
#endif
}

static int hook_all(audited_t *a) {
  find_errno();
  uint32_t count = a->policy->function_count;
  uint32_t lookups = audit_methods_start(a->policy) ? AUDIT_LOOKUPS : 0;
  for (uint32_t i = 0; i < count; i++)
    a->names[i] = audit_string(a->policy, audit_functions(a->policy)[i].name);
  for (uint32_t i = 0; i < lookups; i++)
    a->names[count + i] = audit_lookup_name(i);
  os_symbols(0, a->names, a->addresses, (int)(count + lookups));
  for (uint32_t i = 0; i < count; i++)
    prepare(a, i);
  for (uint32_t i = 0; i < lookups; i++)
    prepare_lookup(a, i);
  int status = sonde_hook_add(a->requests, a->request_count, a->hooks);
  for (uint32_t i = 0; i < count && status < 0; i++)
    a->reached[i] = false; /* none is hooked */
  return status;
}

static void set_reached(uint32_t number) {
  active.reached[number] = true;
  writer_table(TABLE_AUDITED, (const uint64_t[]){number, 1}, 2, NULL);
}

static void *hook_loaded_lookup(const audit_policy_t *p, uint32_t number, void ***original) {
  void *replacement = audit_lookup(number, original);
  for (uint32_t i = 0; replacement && i < p->function_count; i++)
    if (is_method(p, i)) set_reached(i);
  return replacement;
}

/* An image that defines a missing function has been loaded. */
static void *hook_loaded(const hook_candidate_t *c, uint32_t place, void ***original) {
  const audit_policy_t *p = active.policy;
  uint32_t number = active.missing_numbers[place];
  if (number >= p->function_count)
    return hook_loaded_lookup(p, number - p->function_count, original);
  const char *library = audit_string(p, audit_functions(p)[number].library);
  if (*library && !glob_matches(library, text_base_name(c->path))) return NULL;
  trampoline_t *t = make_trampoline(p, number, c->function);
  if (!t) return NULL;
  set_reached(number);
  *original = (void **)(uintptr_t)&t->target;
  return (void *)(uintptr_t)trampoline_thunk(t);
}

const audit_policy_t *audit_policy_of(const void *data, uint64_t size) {
  const audit_policy_t *p = data;
  if (!p || size < sizeof *p || p->size > size || size > UINT32_MAX) return NULL;
  return audit_policy_valid(p, p->size) ? p : NULL;
}

static uint64_t kept_bytes(const audited_t *a) {
  return (a->policy->function_count + AUDIT_LOOKUPS) *
         (sizeof *a->hooks + sizeof *a->missing + sizeof *a->missing_numbers + sizeof *a->reached);
}

static void write_policy(const audited_t *a) {
  const audit_policy_t *p = a->policy;
  audit_write_policy((const char *)p + p->size, a->size - p->size, a->reached);
}

void audit_hooks_record_again(void) {
  if (active.policy) write_policy(&active);
}

int audit_hooks_set(const audit_policy_t *policy, uint32_t size, bool written) {
  uint64_t count = policy->function_count + AUDIT_LOOKUPS;
  audited_t a = {.policy = policy, .size = size};
  uint64_t bytes = count * (sizeof *a.names + sizeof *a.addresses + sizeof *a.requests);
  char *memory = os_map(bytes), *kept = os_map(kept_bytes(&a));
  if (!memory || !kept)
    return SONDE_ENOMEM; /* one of them stays mapped: memory is exhausted anyway */
  a.requests = (void *)memory;
  a.names = (void *)(a.requests + count);
  a.addresses = (void *)(a.names + count);
  a.hooks = (void *)kept;
  a.missing = (void *)(a.hooks + count);
  a.missing_numbers = (void *)(a.missing + count);
  a.reached = (void *)(a.missing_numbers + count);
  audit_start(policy);
  int status = hook_all(&a);
  if (!written) write_policy(&a);
  os_unmap(memory, bytes);
  a.names = NULL;
  active = a;
  active.pending.names = active.missing;
  active.pending.replace = hook_loaded;
  if (status == 0 && a.pending.count) status = hook_pending_add(&active.pending);
  return status;
}

void audit_hooks_remove(void) {
  const audited_t *a = &active;
  if (!a->policy) return;
  (void)hook_pending_remove();
  audit_methods_stop();
  for (uint32_t i = 0; i < a->request_count; i++)
    if (a->hooks[i]) (void)sonde_hook_remove(a->hooks[i]);
  for (uint32_t i = 0; i < a->policy->function_count; i++) {
    trampoline_t *t = trampoline_for(a->policy, i);
    if (t) trampoline_set(t, NULL);
  }
  os_unmap(active.hooks, kept_bytes(a));
  active = (audited_t){0};
}
