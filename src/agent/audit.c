/* SPDX-License-Identifier: MIT
 *
 * The audit of a program that nobody rebuilt: every function of the policy that some image defines
 * is hooked where it is imported (hook/), through a trampoline that tells the sensor and goes
 * straight on. Calls that pass no import slot are not seen; the loader's own come before.
 */
#include "agent/agent.h"
#include "hook/trampoline.h"
#include "image/list.h"
#include "os/os.h"
#include "record/write.h"
#include "sensor/audit.h"
#include "sonde/hook.h"

typedef struct audited {
  const audit_policy_t *policy;
  const char **names;
  uint64_t *addresses;
  bool *reached;
  sonde_hook_request_t *requests;
  uint32_t request_count;
} audited_t;

static bool tell(call_t *call, const uint64_t *arguments) {
  audit_called(call->trampoline->data, arguments,
               (caller_t){call->return_address, call->sp, call->caller_fp});
  return false;
}

static const trampoline_calls_t calls = {.before = tell};

static const char *last_part(const char *path) {
  const char *last = path;
  for (; path && *path; path++)
    if (*path == '/') last = path + 1;
  return last ? last : "";
}

/* Whether the function at ADDRESS is in the library that the policy means. */
static bool in_library(const audit_policy_t *p, const audit_function_t *f, uint64_t address) {
  const char *glob = audit_string(p, f->library);
  const image_entry_t *image = *glob ? image_entry(image_id_of_pc(address)) : NULL;
  return !*glob || (image && audit_glob(glob, last_part(image->path)));
}

/* Prepares a hook of function NUMBER; it may be left out, which the recording tells. */
static void prepare(audited_t *a, uint32_t number) {
  const audit_function_t *f = &audit_functions(a->policy)[number];
  uint64_t address = a->addresses[number];
  if (!address || !in_library(a->policy, f, address)) return;
  /* Two names of one function are told apart, so the key is no address. */
  trampoline_t *t = trampoline_take(number + 1u);
  if (!t) return;
  t->target = address;
  t->data = number;
  t->flags = TRAMPOLINE_ENTRY_ONLY;
  trampoline_set(t, &calls);
  a->reached[number] = true;
  a->requests[a->request_count++] =
      (sonde_hook_request_t){.symbol = a->names[number],
                             .replacement = (void *)(uintptr_t)trampoline_thunk(t),
                             .original = (void **)&t->target};
}

static void hook_all(audited_t *a) {
  uint32_t count = a->policy->function_count;
  for (uint32_t i = 0; i < count; i++)
    a->names[i] = audit_string(a->policy, audit_functions(a->policy)[i].name);
  os_symbols(0, a->names, a->addresses, (int)count);
  for (uint32_t i = 0; i < count; i++)
    prepare(a, i);
  if (sonde_hook_add(a->requests, a->request_count, NULL) < 0)
    for (uint32_t i = 0; i < count; i++)
      a->reached[i] = false;
}

/* The policy that the recorder offers, mapped for good; NULL when it is none. */
static const audit_policy_t *map_policy(uint32_t size) {
  int fd = write_open_of_recorder(write_control(), write_control()->policy_fd);
  if (fd < 0) return NULL;
  const audit_policy_t *p = os_map_shared(fd, 0, size);
  os_close(fd);
  return p && size >= sizeof *p && p->size <= size && audit_policy_valid(p, p->size) ? p : NULL;
}

void agent_audit_start(void) {
  scratch_control_t *control = write_control();
  if (!control || !control->policy_size || trampoline_ready()) return;
  audited_t a = {.policy = map_policy(control->policy_size)};
  if (!a.policy) return;
  uint64_t count = a.policy->function_count;
  uint64_t bytes =
      count * (sizeof *a.names + sizeof *a.addresses + sizeof *a.reached + sizeof *a.requests);
  char *memory = os_map(bytes + 1);
  if (!memory) return;
  a.requests = (void *)memory;
  a.names = (void *)(a.requests + count);
  a.addresses = (void *)(a.names + count);
  a.reached = (void *)(a.addresses + count);
  audit_start(a.policy);
  hook_all(&a);
  audit_write_policy((const char *)a.policy + a.policy->size, control->policy_size - a.policy->size,
                     a.reached);
  os_unmap(memory, bytes + 1);
}
