/* SPDX-License-Identifier: MIT
 *
 * sonde/intercept.h. Each interception has its own trampolines, so interceptions of one function
 * are links of one chain: a hook's (hook/chain.c), an exchanged method's (hook/objc.c), or a
 * patched entry's, whose stub continues at an older stub (hook/linux/entry.c).
 *
 * The trampoline of an import or a method is found by the target's text, and used again when the
 * target is intercepted again and the older interception has ended. Pointers to its thunk may exist
 * anywhere; without an interception it leads to the function.
 *
 * Cost of a call, besides the trampoline: arch_call_keeping for each callback.
 */
#include "sensor/intercept/intercept.h"

#include "arch/arch.h"
#include "base/bits.h"
#include "base/text.h"
#include "hook/call_stack.h"
#include "os/lock.h"
#include "sensor/trace/imports.h"
#include "sonde/hook.h"
#include "sonde/objc.h"

#define TARGET_MAX   512u
#define REQUESTS_MAX 256u /* number 0 is not used */
#if defined(__x86_64__)
#define REGISTER_ARGUMENTS 6u
#else
#define REGISTER_ARGUMENTS 8u
#endif

struct sonde_intercept {
  bool is_used;
  void (*before)(sonde_call_t *call, void *context);
  void (*after)(sonde_call_t *call, sonde_call_end_t end, void *context);
  void *context;
  trampoline_t *trampoline; /* of an import or a method */
  sonde_hook_t *hook;
  sonde_objc_exchange_t *exchange;
};

static sonde_intercept_t requests[REQUESTS_MAX];
static lock_t lock;

/* ---- at a call ------------------------------------------------------------------------------ */

static void run_before(uint64_t call, uint64_t request, uint64_t c, uint64_t d) {
  const sonde_intercept_t *r = (const sonde_intercept_t *)(uintptr_t)request;
  (void)c, (void)d;
  r->before((sonde_call_t *)(uintptr_t)call, r->context);
}

static void run_after(uint64_t call, uint64_t request, uint64_t end, uint64_t d) {
  const sonde_intercept_t *r = (const sonde_intercept_t *)(uintptr_t)request;
  (void)d;
  r->after((sonde_call_t *)(uintptr_t)call, (sonde_call_end_t)end, r->context);
}

static bool begins(call_t *call, const uint64_t *arguments) {
  const sonde_intercept_t *r = &requests[call->trampoline->data];
  call->data = 0;
  if (r->before) {
    sonde_call_t now;
    now.call = call;
    now.arguments = arguments;
    now.results = NULL;
    arch_read_vectors(now.vectors);
    arch_call_keeping((uint64_t)(uintptr_t)&now, (uint64_t)(uintptr_t)r, 0, 0, run_before);
  }
  return r->after != NULL;
}

static void ends(call_t *call, call_end_t end) {
  static const uint8_t ends_of[] = {[CALL_RETURNED] = SONDE_CALL_RETURNED,
                                    [CALL_TAIL] = SONDE_CALL_TAIL,
                                    [CALL_THROWN] = SONDE_CALL_THROWN,
                                    [CALL_LOST] = SONDE_CALL_LOST};
  const sonde_intercept_t *r = &requests[call->trampoline->data];
  if (!r->after) return;
  sonde_call_t now;
  now.call = call;
  now.arguments = NULL;
  now.results = end == CALL_RETURNED && call_stack_own ? call_stack_own->results : NULL;
  arch_read_vectors(now.vectors);
  arch_call_keeping((uint64_t)(uintptr_t)&now, (uint64_t)(uintptr_t)r, ends_of[end], 0, run_after);
}

static void leaves(call_t *call, const uint64_t *results) {
  call_stack_t *own = call_stack_own;
  if (own) own->results = results;
  trampoline_leave_slow(call);
  if (own) own->results = NULL;
}

static const trampoline_handlers_t handlers = {.before = begins, .after = ends, .leave = leaves};

void intercept_set(trampoline_t *t, uint32_t number) {
  t->data = number;
  if (!requests[number].after) t->flags |= TRAMPOLINE_ENTRY_ONLY;
  trampoline_set(t, &handlers);
}

/* ---- in callbacks --------------------------------------------------------------------------- */

uintptr_t sonde_call_function(const sonde_call_t *call) {
  const trampoline_t *t = call->call->trampoline;
  return t->flags & TRAMPOLINE_INSIDE ? t->function : t->target;
}

/* If CALL was made by the trampoline of another call, that call: its frame is where the caller's
 * frame pointer points to. */
static const call_t *call_around(const call_t *call) {
  const call_stack_t *own = call_stack_own;
  if (!own || call->return_address != trampoline_address(TRAMPOLINE_RETURN)) return NULL;
  for (const call_t *c = own->live; c && c != &own->root; c = c->outer)
    if ((uint64_t)(uintptr_t)c == call->caller_fp && c != call) return c;
  return NULL;
}

uintptr_t sonde_call_caller(const sonde_call_t *call) {
  const call_t *at = call->call, *around;
  while ((around = call_around(at)))
    at = around;
  return at->return_address;
}

uintptr_t sonde_call_stack_pointer(const sonde_call_t *call) { return call->call->sp; }

uintptr_t sonde_call_stack_word(const sonde_call_t *call, unsigned number) {
  return call->arguments ? ((const uintptr_t *)call->call->sp)[number] : 0;
}

uintptr_t sonde_call_argument(const sonde_call_t *call, unsigned number) {
  if (number >= REGISTER_ARGUMENTS) return sonde_call_stack_word(call, number - REGISTER_ARGUMENTS);
  return call->arguments ? call->arguments[number] : 0;
}

uintptr_t sonde_call_result(const sonde_call_t *call, unsigned number) {
  return call->results && number < 2 ? call->results[number] : 0;
}

void sonde_call_set_data(sonde_call_t *call, uintptr_t data) { call->call->data = data; }
uintptr_t sonde_call_data(const sonde_call_t *call) { return call->call->data; }

/* ---- adding and removing -------------------------------------------------------------------- */

static bool is_trampoline_used(const trampoline_t *t) {
  for (uint32_t i = 1; i < REQUESTS_MAX; i++)
    if (requests[i].is_used && requests[i].trampoline == t) return true;
  return false;
}

/* The trampoline for the text TARGET that no interception uses. Its key is no address. */
static trampoline_t *find_trampoline(const char *target) {
  uint64_t key = 0xcbf29ce484222325u;
  for (const char *p = target; *p; p++)
    key = (key ^ (uint8_t)*p) * 0x100000001b3u;
  for (key |= UINT64_C(1) << 63;; key++) {
    trampoline_t *t = trampoline_new(key);
    if (!t || !is_trampoline_used(t)) return t;
  }
}

static int add_import(sonde_intercept_t *r, const char *target) {
  const sonde_hook_request_t request = {.symbol = target,
                                        .replacement =
                                            (void *)(uintptr_t)trampoline_thunk(r->trampoline),
                                        .original = (void **)(uintptr_t)&r->trampoline->target};
  int status = sonde_hook_add(&request, 1, &r->hook);
  return status < 0 ? status : 1;
}

static int add_method(sonde_intercept_t *r, const char *target) {
  int status = sonde_objc_exchange(target, (void *)(uintptr_t)trampoline_thunk(r->trampoline),
                                   (void **)(uintptr_t)&r->trampoline->target, &r->exchange);
  return status < 0 ? status : 1;
}

static bool is_code(const char *target) {
  while (*target && *target != '!')
    target++;
  return *target == '!';
}

static int add(sonde_intercept_t *r, const char *target) {
  uint32_t number = (uint32_t)(r - requests);
  if (r->after && imports_returns_twice(target)) return SONDE_EUNSUPPORTED;
  bool is_method = (target[0] == '-' || target[0] == '+') && target[1] == '[';
  if (!is_method && is_code(target)) return intercept_code(target, number);
  r->trampoline = find_trampoline(target);
  if (!r->trampoline) return SONDE_EFULL;
  r->trampoline->flags = 0;
  intercept_set(r->trampoline, number);
  int status = is_method ? add_method(r, target) : add_import(r, target);
  if (status < 0) trampoline_set(r->trampoline, NULL);
  return status;
}

/* A free request, taken: never one whose callbacks a thread may still run, if there is another. */
static sonde_intercept_t *take_request(void) {
  static uint32_t next = 1;
  for (uint32_t i = 0; i < REQUESTS_MAX - 1; i++) {
    sonde_intercept_t *r = &requests[next];
    next = next % (REQUESTS_MAX - 1) + 1;
    if (!r->is_used) return r;
  }
  return NULL;
}

bool intercept_accepts(uint32_t number, const char *function) {
  return !requests[number].after || !imports_returns_twice(function);
}

int sonde_intercept_add(const sonde_intercept_request_t *request, sonde_intercept_t **out) {
  if (!request || !out || !request->target || !*request->target ||
      text_length(request->target) >= TARGET_MAX || (!request->before && !request->after))
    return SONDE_EINVAL;
  if (trampoline_ready()) return SONDE_EUNSUPPORTED;
  if (!lock_take(&lock, 0)) return SONDE_EBUSY;
  sonde_intercept_t *r = take_request();
  int status = SONDE_EFULL;
  if (r) {
    *r = (sonde_intercept_t){.is_used = true,
                             .before = request->before,
                             .after = request->after,
                             .context = request->context};
    status = add(r, request->target);
    r->is_used = status >= 0;
    if (status >= 0) *out = r;
  }
  lock_release(&lock);
  return status;
}

static int end_it(sonde_intercept_t *r) {
  if (r->trampoline) trampoline_set(r->trampoline, NULL);
  if (r->hook) return sonde_hook_remove(r->hook);
  if (r->exchange) return sonde_objc_restore(r->exchange);
  return intercept_code_restore((uint32_t)(r - requests));
}

int sonde_intercept_remove(sonde_intercept_t *r) {
  uint64_t offset = (uint64_t)(uintptr_t)r - (uint64_t)(uintptr_t)requests;
  if (offset >= sizeof requests || offset % sizeof *r) return SONDE_ENOTFOUND;
  if (!lock_take(&lock, 0)) return SONDE_EBUSY;
  int status = SONDE_ENOTFOUND;
  if (r->is_used) {
    status = end_it(r);
    r->is_used = false;
  }
  lock_release(&lock);
  return status;
}
