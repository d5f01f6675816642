/* SPDX-License-Identifier: MIT
 *
 * Code that runs at a call is compiled for general registers only, because vector registers hold
 * the program's arguments and results. So is the rest of this file, which costs nothing.
 */
#include "sensor/trace/imports.h"

#include "base/glob.h"
#include "base/link_name.h"
#include "base/text.h"
#include "hook/call_stack.h"
#include "hook/filter.h"
#include "image/exported.h"
#include "sensor/audit/policy.h"
#include "sensor/trace/objc_lookups.h"
#include "sensor/trace/trace.h"
#include "sensor/trace/wait_names.h"
#include "sonde/status.h"

#define GLOB_MAX 256u

/* ---- at a call ------------------------------------------------------------------------------- */

static bool begins(call_t *call, const uint64_t *arguments) {
  uint32_t generation = trace_on();
  (void)arguments;
  if (!generation) return false;
  trace_enter_keeping(generation, call->trampoline->function, call->sp);
  return true;
}

/* The tracer detects the end of a lost call by the stack pointer. */
static void ends(call_t *call, call_end_t end) {
  uint32_t generation = trace_on();
  if (generation && end != CALL_LOST)
    trace_exit_keeping(generation, call->trampoline->function, call->sp);
}

/* Takes the slow path for the call in OWN's first free entry, of which something is unusual, unless
 * that is the filter. */
static NOINLINE call_t *enter_slow(call_stack_t *own, const uint64_t *arguments,
                                   const trampoline_handlers_t *calls) {
  call_t call = *own->free;
  uint64_t function = call.trampoline->function;
  if (own->live->sp > call.sp && trace_is_filtered_now(trace_tls) &&
      trace_enter_filtered(function, function, call.sp, TRACE_CALLER, 0)) {
    call_t *entry = own->free;
    call_stack_push(own, entry);
    signal_fence();
    own->busy = 0;
    return entry;
  }
  signal_fence();
  own->busy = 0;
  return trampoline_enter_slow(call.trampoline, call.sp, call.caller_fp, call.return_address,
                               arguments, calls);
}

/* The usual call, in one function: the entries of the trampoline's and of the tracer's call stacks
 * are filled together. Measured with callgrind on x86_64, a traced call takes about 250
 * instructions per iteration of the caller's loop: 62 in the trampoline (saving and restoring 14
 * general registers), 97 before the target, 72 after it; the rest closes chunks or is the
 * program's. */
static call_t *enter_timed(const trampoline_t *t, uint64_t sp, uint64_t fp, uint64_t return_address,
                           const uint64_t *arguments, const trampoline_handlers_t *calls) {
  call_stack_t *own = call_stack_own;
  if (UNLIKELY(!own || own->busy))
    return trampoline_enter_slow(t, sp, fp, return_address, arguments, calls);
  own->busy = sp;
  signal_fence();
  call_t *call = own->free;
  trace_thread_t *trace = trace_tls;
  if (UNLIKELY(!call)) {
    own->busy = 0;
    return trampoline_enter_slow(t, sp, fp, return_address, arguments, calls);
  }
  call_stack_fill(call, t, sp, fp, return_address);
  signal_fence();
  if (LIKELY(own->live->sp > sp) && trace_can_go_fast_now(trace) &&
      trace_try_enter(trace, t->function, t->function, sp, TRACE_CALLER, 0)) {
    call_stack_push(own, call);
    signal_fence();
    own->busy = 0;
    return call;
  }
  return enter_slow(own, arguments, calls);
}

/* The same for the end of CALL. */
static NOINLINE void leave_slow(call_t *call) {
  call_stack_t *own = call_stack_own;
  if (own && own->live == call && !own->busy && trace_is_filtered_now(trace_tls)) {
    own->busy = call->sp;
    signal_fence();
    bool recorded = trace_exit_filtered(call->trampoline->function, call->sp, false);
    if (recorded) call_stack_pop(own);
    signal_fence();
    own->busy = 0;
    if (recorded) return;
  }
  trampoline_leave_slow(call);
}

static void leave_timed(call_t *call, const uint64_t *results) {
  (void)results;
  call_stack_t *own = call_stack_own;
  if (LIKELY(own != NULL) && LIKELY(own->live == call) && LIKELY(!own->busy)) {
    own->busy = call->sp;
    signal_fence();
    trace_thread_t *trace = trace_tls;
    if (trace_can_go_fast_now(trace) &&
        trace_try_exit(trace, call->trampoline->function, call->sp, false)) {
      call_stack_pop(own);
      signal_fence();
      own->busy = 0;
      return;
    }
    own->busy = 0;
  }
  leave_slow(call);
}

static bool is_called(call_t *call, const uint64_t *arguments) {
  if (begins(call, arguments)) ends(call, CALL_RETURNED);
  return false;
}

const trampoline_handlers_t imports_timed_calls = {begins, ends, enter_timed, leave_timed};
const trampoline_handlers_t imports_called_calls = {.before = is_called, .after = ends};

/* ---- the pattern ----------------------------------------------------------------------------- */

/* An item of a list: its library part ("*" if there is none) and its function part. A method, in
 * brackets, has no library part. */
typedef struct item {
  char separator; /* ':', '!' or 0: there is no library part */
  char library[GLOB_MAX], function[GLOB_MAX];
} item_t;

static bool next_item(const char **list, item_t *item) {
  uint32_t n = 0;
  bool is_method = false;
  item->library[0] = '*';
  item->library[1] = item->separator = 0;
  if (!**list) return false;
  for (; **list && **list != ','; ++*list) {
    is_method |= **list == '[';
    if ((**list == ':' || **list == '!') && !is_method && !item->separator) {
      item->separator = **list;
      __builtin_memcpy(item->library, item->function, n);
      item->library[n] = 0;
      n = 0;
      continue;
    }
    if (n < GLOB_MAX - 1) item->function[n++] = **list;
  }
  item->function[n] = 0;
  if (**list) ++*list;
  return true;
}

bool imports_match(const char *list, const char *name, const char *path) {
  item_t item;
  while (next_item(&list, &item))
    if (item.separator != '!' && glob_matches(item.function, name) &&
        (!path || glob_matches(item.library, text_base_name(path))))
      return true;
  return false;
}

static bool has_wildcard(const char *glob) {
  for (; *glob; glob++)
    if (*glob == '*' || *glob == '?' || *glob == '[') return true;
  return false;
}

/* A system image must be named: its glob begins with a letter. */
static bool item_selects(const item_t *item, const image_entry_t *image) {
  if (!item->separator) return image->is_program && !has_wildcard(item->function);
  if (item->separator != '!') return false;
  if (!item->library[0]) return image->is_program;
  if (image->is_system && (item->library[0] == '*' || item->library[0] == '?')) return false;
  return image->path && glob_matches(item->library, text_base_name(image->path));
}

bool imports_select_image(const char *list, const image_entry_t *image) {
  item_t item;
  while (next_item(&list, &item))
    if (item_selects(&item, image)) return true;
  return false;
}

bool imports_select_code(const char *list, const image_entry_t *image, const char *name) {
  item_t item;
  while (next_item(&list, &item))
    if (item_selects(&item, image) && link_name_matches(item.function, name)) return true;
  return false;
}

void imports_find_named(const char *list, const image_entry_t *image, imports_named_t *out) {
  item_t item;
  out->count = 0;
  while (out->count < IMPORTS_NAMED_MAX && next_item(&list, &item)) {
    exported_t named = {.name = item.function};
    if (*item.function != LINK_NAME_LAST && !has_wildcard(item.function) &&
        item_selects(&item, image) && image_find_exported(&image->image, &named, 1) &&
        named.address)
      out->starts[out->count++] = named.address;
  }
}

bool imports_is_named(const imports_named_t *named, uint64_t start) {
  for (uint32_t i = 0; i < named->count; i++)
    if (named->starts[i] == start) return true;
  return false;
}

bool imports_may_name_methods(const char *list) {
  for (bool begins = true; *list; begins = *list++ == ',')
    if (begins && (*list == '*' || *list == '?' || *list == '-' || *list == '+')) return true;
  return false;
}

/* ---- hooking --------------------------------------------------------------------------------- */

/* A forked child may call this. It has no recording, or another one. */
static bool may_want(const char *name, void *context) {
  const shm_control_t *control = writer_control();
  (void)context;
  if (!control || control->imports_refused[0]) return false;
  if (control->trace_waits && wait_names_has(name)) return true;
  return control->trace_pattern[0] && (objc_lookups_may_match(control->trace_pattern, name) ||
                                       imports_match(control->trace_pattern, name, NULL));
}

static void *replace(const hook_candidate_t *c, void ***original, void *context) {
  shm_control_t *control = writer_control();
  (void)context;
  if (!control) return NULL;
  if (objc_lookups_may_match(control->trace_pattern, c->name))
    return objc_lookups_replace(c, original);
  bool is_wanted = imports_match(control->trace_pattern, c->name, c->path);
  if (!is_wanted && !(control->trace_waits && wait_names_has_of(c->name, c->path))) return NULL;
  imports_verdict_t verdict = imports_verdict(c->name);
  bool is_private = text_equal(c->version, "GLIBC_PRIVATE");
  trampoline_t *t = NULL;
  if (verdict == IMPORTS_NEVER || is_private || c->other_registers) {
    if (is_wanted) add_relaxed(&control->imports_left, 1u);
    return NULL;
  }
  t = trampoline_new(c->function);
  if (!t) {
    add_relaxed(&control->imports_over, 1u);
    return NULL;
  }
  t->function = c->in_library;
  t->flags = verdict == IMPORTS_CALLED ? TRAMPOLINE_ENTRY_ONLY : 0;
  trace_name(c->in_library, c->name);
  trampoline_set(t, verdict == IMPORTS_CALLED ? &imports_called_calls : &imports_timed_calls);
  if (is_wanted)
    add_relaxed(verdict == IMPORTS_CALLED ? &control->imports_called : &control->imports_timed, 1u);
  *original = (void **)(uintptr_t)&t->target;
  return (void *)(uintptr_t)trampoline_thunk(t);
}

static hook_filter_t filter = {.may_match = may_want, .replace = replace, .calls_only = true};
static bool is_followed;

bool imports_are_followed(void) { return is_followed; }

int imports_start(void (*came)(void *context)) {
  shm_control_t *control = writer_control();
  if (!control || (!control->trace_pattern[0] && !(control->mode & RECORD_CALLS))) return SONDE_OK;
  const char *why = trampoline_ready();
  for (uint32_t i = 0; why && i < sizeof control->imports_refused - 1 && why[i]; i++)
    control->imports_refused[i] = why[i];
  filter.on_images = came;
  int status = hook_filter_add(&filter);
  is_followed = status >= 0;
  return why ? SONDE_EUNSUPPORTED : status < 0 ? status : SONDE_OK;
}

void imports_stop(void) {
  if (is_followed) (void)hook_filter_remove_local(&filter);
  is_followed = false;
  trampolines_retire(&imports_timed_calls);
  trampolines_retire(&imports_called_calls);
}
