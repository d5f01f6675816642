/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/hook.h in this copy of the library: one lock around all of them, and the
 * loader's lock, against unloading, around all that examines images. A call from inside (from a
 * filter) is refused.
 */
#include "hook/hook.h"

#include "base/bits.h"
#include "hook/internal.h"
#include "os/lock.h"

#define HOOKS_AT_ONCE 65536u

static hooks_t the_hooks = {.free_place = HOOK_NONE, .patcher = {.maps = -1}};

/* ---- the lock ------------------------------------------------------------------------------- */

static lock_t lock;

bool hooks_try_lock(void) { return lock_try(&lock); }
bool hooks_lock(uint64_t patience_ns) { return lock_take(&lock, patience_ns); }
void hooks_unlock(void) { lock_release(&lock); }

hooks_t *hooks_state(void) { return &the_hooks; }

void hooks_refresh(hooks_t *h) {
  hooks_scan_images(h);
  filter_scan(h);
  pending_scan(h);
  hooks_scan_slots(h);
  hooks_apply(h);
}

static void catch_up(void *context) {
  (void)context;
  dlopen_catch_up(&the_hooks);
}

static void apply_again(void *context) {
  the_hooks.force_writes = *(bool *)context;
  hooks_refresh(&the_hooks);
  the_hooks.force_writes = false;
}

#define FINISH_PAUSE_NS 100000u
#define FINISH_TRIES    50u

/* Waits for images that another thread is loading. An image that the loader never protects,
 * although its headers request it, is written at the last attempt. */
static void finish(void) {
  const uint32_t never = 0;
  bool left = load_relaxed(&the_hooks.has_deferred);
  for (uint32_t i = 1; left && i <= FINISH_TRIES; i++) {
    bool hasty = i == FINISH_TRIES;
    (void)os_futex_wait(&never, 0, FINISH_PAUSE_NS);
    if (!hooks_lock(0)) return;
    (void)os_loader_hold(apply_again, &hasty);
    left = the_hooks.has_deferred;
    hooks_unlock();
  }
}

int hooks_run_locked(void (*run)(void *context), void *context) {
  if (!hooks_lock(0)) return SONDE_EBUSY;
  int status = os_loader_hold(run, context) == 0 ? SONDE_OK : SONDE_EUNSUPPORTED;
  hooks_unlock();
  while (dlopen_take_missed() && hooks_lock(0)) {
    (void)os_loader_hold(catch_up, NULL);
    hooks_unlock();
  }
  finish();
  return status;
}

/* ---- adding --------------------------------------------------------------------------------- */

typedef struct adding {
  const sonde_hook_request_t *requests;
  size_t count;
  uint64_t past;          /* hooks_resolve */
  sonde_hook_t **handles; /* NULL: not requested */
  sonde_hook_t *last;     /* the newest of those created, linked by `next` */
  sonde_hook_t *own[DLSYM_HOOKS];
  int status;
} adding_t;

/* The symbol of REQUEST: a known one with the same definition, or a new one. */
static symbol_t *symbol_for(hooks_t *h, const sonde_hook_request_t *request, uint64_t past,
                            int *status) {
  symbol_t *fresh = hooks_new_symbol(h);
  *status = SONDE_ENOMEM;
  if (!fresh) return NULL;
  *status = SONDE_ENOTFOUND;
  if (!hooks_resolve(h, request->symbol, request->version, past, fresh)) {
    hooks_free_symbol(h, fresh);
    return NULL;
  }
  *status = SONDE_OK;
  return hooks_intern(h, fresh);
}

/* Frees symbols without a hook. */
static void free_unused(hooks_t *h) {
  for (symbol_t *symbol = h->symbols, *next; symbol; symbol = next) {
    next = symbol->next;
    if (!symbol->first) hooks_free_symbol(h, symbol);
  }
}

static sonde_hook_t *make_hook(hooks_t *h, adding_t *a, const sonde_hook_request_t *request,
                               uint64_t past, int *status) {
  symbol_t *symbol = symbol_for(h, request, past, status);
  sonde_hook_t *hook = symbol ? hooks_new_hook(h) : NULL;
  if (!hook) return NULL;
  *hook = (sonde_hook_t){.symbol = symbol, .next = a->last, .request = *request};
  return a->last = hook;
}

/* If no image defines dlsym, the program cannot call it. */
static void make_dlsym_hooks(hooks_t *h, adding_t *a) {
  int status;
  for (uint32_t i = 0; i < DLSYM_HOOKS && !h->installed; i++)
    a->own[i] = make_hook(h, a, &dlsym_requests[i], 0, &status);
}

static int make_hooks(hooks_t *h, adding_t *a) {
  for (size_t i = 0; i < a->count; i++) {
    int status = SONDE_ENOMEM;
    if (!make_hook(h, a, &a->requests[i], a->past, &status))
      return status == SONDE_OK ? SONDE_ENOMEM : status;
  }
  make_dlsym_hooks(h, a);
  hooks_scan_slots(h);
  return h->out_of_memory ? SONDE_ENOMEM : SONDE_OK;
}

static void add_locked(void *context) {
  adding_t *a = context;
  hooks_t *h = &the_hooks;
  h->out_of_memory = false;
  hooks_scan_images(h);
  a->status = make_hooks(h, a);
  sonde_hook_t *hook = a->last, *ordered = NULL;
  for (sonde_hook_t *next; hook; hook = next) { /* restores the order of the requests */
    next = hook->next;
    hook->next = ordered;
    ordered = hook;
  }
  size_t i = 0;
  for (sonde_hook_t *next; ordered; ordered = next) {
    next = ordered->next;
    if (a->status == SONDE_OK) {
      if (a->handles && i < a->count) a->handles[i] = ordered;
      i++;
      hooks_link(ordered);
    } else {
      hooks_free_hook(h, ordered);
    }
  }
  free_unused(h);
  if (a->status != SONDE_OK || a->count == 0) return;
  for (uint32_t own = 0; own < DLSYM_HOOKS && !h->installed; own++)
    h->own[own] = a->own[own];
  h->installed += (uint32_t)a->count;
  dlopen_start(h);
  hooks_apply(h);
}

void hooks_acquire(hooks_t *h) {
  adding_t a = {.status = SONDE_OK};
  make_dlsym_hooks(h, &a);
  for (uint32_t i = 0; i < DLSYM_HOOKS && !h->installed; i++) {
    h->own[i] = a.own[i];
    if (a.own[i]) hooks_link(a.own[i]);
  }
  h->installed++;
  dlopen_start(h);
}

static bool is_valid(const sonde_hook_request_t *request) {
  uint32_t name = 0, version = 0;
  if (!request->symbol || !request->replacement || !request->original) return false;
  while (name < HOOK_NAME_MAX && request->symbol[name])
    name++;
  while (request->version && version < HOOK_VERSION_MAX && request->version[version])
    version++;
  return name > 0 && name < HOOK_NAME_MAX && version < HOOK_VERSION_MAX;
}

static int add_hooks(const sonde_hook_request_t *requests, size_t count, uint64_t past,
                     sonde_hook_t **hooks) {
  if (count == 0) return SONDE_OK;
  if (!requests || count > HOOKS_AT_ONCE) return SONDE_EINVAL;
  for (size_t i = 0; i < count; i++)
    if (!is_valid(&requests[i])) return SONDE_EINVAL;
  adding_t a = {.requests = requests, .count = count, .past = past, .handles = hooks};
  int status = hooks_run_locked(add_locked, &a);
  return status == SONDE_OK ? a.status : status;
}

int hook_add_local(const sonde_hook_request_t *requests, size_t count, sonde_hook_t **hooks) {
  return add_hooks(requests, count, 0, hooks);
}

int hook_add_past(const sonde_hook_request_t *request, uint64_t image_start) {
  return add_hooks(request, 1, image_start, NULL);
}

void hook_watch_local(void) {
  if (!hooks_lock(0)) return;
  dlopen_start(&the_hooks);
  hooks_unlock();
}

void hook_unwatch_local(void) {
  if (!hooks_lock(0)) return;
  if (!the_hooks.installed && !filter_is_active()) dlopen_stop(&the_hooks);
  hooks_unlock();
}

/* ---- removing ------------------------------------------------------------------------------- */

typedef struct removing {
  sonde_hook_t *hook;
  int status;
} removing_t;

/* The slots are updated before a hook of dlsym is freed for reuse. */
void hooks_release(hooks_t *h) {
  bool is_last = h->installed == 1;
  for (uint32_t i = 0; i < DLSYM_HOOKS && is_last; i++)
    if (h->own[i]) hooks_unlink(h->own[i]);
  hooks_apply(h);
  for (uint32_t i = 0; i < DLSYM_HOOKS && is_last; i++) {
    if (h->own[i]) hooks_free_hook(h, h->own[i]);
    h->own[i] = NULL;
  }
  free_unused(h);
  if (--h->installed == 0 && !filter_is_active()) dlopen_stop(h);
}

static void remove_locked(void *context) {
  removing_t *r = context;
  hooks_t *h = &the_hooks;
  r->status = SONDE_ENOTFOUND;
  if (!hooks_is_hook(r->hook)) return;
  hooks_scan_images(h);
  hooks_scan_slots(h);
  hooks_unlink(r->hook);
  hooks_release(h);
  hooks_free_hook(h, r->hook);
  r->status = SONDE_OK;
}

int hook_remove_local(sonde_hook_t *hook) {
  removing_t r = {hook, SONDE_OK};
  int status = hooks_run_locked(remove_locked, &r);
  return status == SONDE_OK ? r.status : status;
}

/* ---- images loaded since -------------------------------------------------------------------- */

static void refresh_locked(void *context) {
  hooks_t *h = &the_hooks;
  h->written = 0;
  h->out_of_memory = false;
  hooks_refresh(h);
  *(int *)context = h->out_of_memory ? SONDE_ENOMEM : (int)h->written;
}

int hook_refresh_local(void) {
  int result = 0, status = hooks_run_locked(refresh_locked, &result);
  return status == SONDE_OK ? result : status;
}

static void late_locked(void *context) { *(bool *)context = dlopen_in_force(); }

int hook_late_local(void) {
  bool in_force = false;
  int status = hooks_run_locked(late_locked, &in_force);
  return status == SONDE_OK && !in_force ? SONDE_EUNSUPPORTED : status;
}

/* ---- the report ----------------------------------------------------------------------------- */

typedef struct reporting {
  const sonde_hook_t *hook;
  int (*visit)(const sonde_slot_t *slot, void *context);
  void *context;
  int result;
} reporting_t;

/* The state of PLACE for HOOK; the slot contains VALUE. */
static sonde_slot_state_t state_of(const sonde_hook_t *hook, const place_t *place, uint64_t value,
                                   const char *path) {
  const sonde_hook_request_t *r = &hook->request;
  if (place->state == SONDE_SLOT_ELSEWHERE || place->state == SONDE_SLOT_PROTECTED)
    return place->state;
  if (value != place->new_value) return SONDE_SLOT_FOREIGN;
  if (r->wants && !r->wants(path, r->context)) return SONDE_SLOT_UNWANTED;
  if (place->state != SONDE_SLOT_HOOKED) return place->state;
  return hooks_chain_reaches(hooks_first_for(hook->symbol, path, false), hook)
             ? SONDE_SLOT_HOOKED
             : SONDE_SLOT_SHADOWED;
}

/* Reports the slots of one image. Returns false if the visitor stopped. */
static bool report_image(reporting_t *r, const known_image_t *known, uint32_t *slots) {
  const symbol_t *symbol = r->hook->symbol;
  const char *path = image_path(&known->image);
  *slots = 0;
  for (uint32_t i = symbol->slots; i != HOOK_NONE; i = the_hooks.places[i].next) {
    const place_t *place = &the_hooks.places[i];
    if (place->image != known->number) continue;
    uint64_t value = load_relaxed((const uint64_t *)(uintptr_t)place->address);
    sonde_slot_t slot = {path,  place->address, place->old_value,
                         value, place->kind,    state_of(r->hook, place, value, path)};
    ++*slots;
    if (slot.state == SONDE_SLOT_HOOKED) r->result++;
    if (r->visit(&slot, r->context) != 0) return false;
  }
  return true;
}

static void report_locked(void *context) {
  reporting_t *r = context;
  hooks_t *h = &the_hooks;
  if (!hooks_is_hook(r->hook)) {
    r->result = SONDE_ENOTFOUND;
    return;
  }
  hooks_refresh(h);
  for (uint32_t i = 0; i < h->image_count; i++) {
    const known_image_t *known = &h->images[i];
    uint32_t count;
    sonde_slot_t none = {.path = image_path(&known->image), .kind = SONDE_SLOT_NONE};
    if (!report_image(r, known, &count)) return;
    if (!known->has_slots)
      none.state = SONDE_SLOT_UNREADABLE;
    else if (count == 0 && known->image.start == r->hook->symbol->definer)
      none.state = SONDE_SLOT_WITHIN;
    else
      continue;
    if (r->visit(&none, r->context) != 0) return;
  }
}

int hook_reach_local(const sonde_hook_t *hook,
                     int (*visit)(const sonde_slot_t *slot, void *context), void *context) {
  reporting_t r = {hook, visit, context, 0};
  if (!visit) return SONDE_EINVAL;
  int status = hooks_run_locked(report_locked, &r);
  return status == SONDE_OK ? r.result : status;
}
