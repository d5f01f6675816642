/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/hook.h, each through the engine that writes the slots of this process.
 */
#include "sonde/hook.h"

#include "base/bits.h"
#include "hook/engine.h"
#include "os/os.h"

/* A handle belongs to the engine that gave it: which one it is stays as it was found. */
static const hook_engine_t *engine(void) {
  static const hook_engine_t *found;
  const hook_engine_t *e = load_acquire(&found);
  if (e) return e;
  static const hook_engine_t own = HOOK_OWN_ENGINE(NULL);
  static const char *const names[] = {HOOK_ENGINE_NAME};
  uint64_t address = 0;
  os_symbols(0, names, &address, 1);
  e = (const hook_engine_t *)(uintptr_t)address;
  if (!e || e->version != HOOK_ENGINE_VERSION || e->size < sizeof *e) e = &own;
  if (e->prepare) e->prepare();
  store_release(&found, e);
  return e;
}

int sonde_hook_add(const sonde_hook_request_t *requests, size_t count, sonde_hook_t **hooks) {
  return engine()->add(requests, count, hooks);
}

int sonde_hook_remove(sonde_hook_t *hook) { return engine()->remove(hook); }
int sonde_hook_late(void) { return engine()->late(); }
int sonde_hook_refresh(void) { return engine()->refresh(); }

int sonde_hook_reach(const sonde_hook_t *hook,
                     int (*visit)(const sonde_slot_t *slot, void *context), void *context) {
  return engine()->reach(hook, visit, context);
}

int hooks_follow(const hook_filter_t *family) { return engine()->follow(family); }

const char *sonde_slot_state_text(sonde_slot_state_t state) {
  static const char *const texts[] = {
      [SONDE_SLOT_HOOKED] = "calls the hook",
      [SONDE_SLOT_UNWANTED] = "not wanted by the filter",
      [SONDE_SLOT_SHADOWED] = "taken by a newer hook with another filter",
      [SONDE_SLOT_ELSEWHERE] = "bound to another definition of the name",
      [SONDE_SLOT_FOREIGN] = "changed by somebody else since",
      [SONDE_SLOT_PROTECTED] = "its page could not be made writable",
      [SONDE_SLOT_WITHIN] = "calls within the image that defines it pass no slot",
      [SONDE_SLOT_UNREADABLE] = "the image has no usable dynamic section",
  };
  return (unsigned)state < ARRAY_COUNT(texts) ? texts[state] : "unknown state";
}
