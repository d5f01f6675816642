/* SPDX-License-Identifier: MIT
 *
 * dlopen with RTLD_DEEPBIND, as PHP loads its extensions. The functions of such a library lead to
 * the C library's malloc and free, past the agent's. A block that one of them allocated and the
 * other freed would be unknown, or counted twice. Before the first such call, the agent hooks the
 * import slots that lead to the real functions, in this library and in later ones. Other programs
 * have no hooks for that.
 *
 * The entry adds no frame: the loader inspects the caller of dlopen. Threads: any; the first one
 * adds the hooks, and the lock of hook/hook.c orders the others.
 */
#include "agent/agent.h"
#include "arch/arch.h"
#include "hook/hook.h"
#include "os/os.h"
#include "sensor/malloc/allocator.h"

#define RTLD_DEEPBIND 8 /* dlfcn.h of glibc; musl ignores it */

static void *no_dlopen(const char *file, int flags) {
  (void)file, (void)flags;
  return NULL;
}

HIDDEN void *dlopen_next = (void *)no_dlopen;
static struct { ALLOCATOR_TABLE(ALLOCATOR_POINTER) } originals;
ALLOCATOR_TABLE(ALLOCATOR_DECLARATION)

void dlopen_find_real(void) {
  static const char *const names[] = {"dlopen"};
  uint64_t real;
  agent_real(names, &real, 1);
  store_release(&dlopen_next, real ? (void *)(uintptr_t)real : (void *)no_dlopen);
}

static void hook_allocator(void) {
  static const sonde_hook_request_t requests[] = {
#define REQUEST(name, result, parameters)                                                          \
  {.symbol = #name, .replacement = (void *)name, .original = (void **)&originals.name},
      ALLOCATOR_TABLE(REQUEST)
#undef REQUEST
  };
  os_image_t own;
  if (!os_image_of_pc((uint64_t)(uintptr_t)hook_allocator, &own)) return;
  for (uint32_t i = 0; i < ARRAY_COUNT(requests); i++) /* an old C library lacks some */
    (void)hook_add_past(&requests[i], own.start);
}

/* The entry passes three arguments; dlopen has two. */
__attribute__((used)) HIDDEN void *dlopen_prepare(const char *file, uintptr_t flags, void *unused,
                                                  uint64_t pc) {
  static uint32_t hooked;
  uint32_t none = 0;
  (void)file, (void)unused, (void)pc;
  agent_enter();
  if (load_acquire(&dlopen_next) == (void *)no_dlopen) dlopen_find_real(); /* libdl came later */
  if (flags & RTLD_DEEPBIND && agent_in_recorded_process() && !malloc_is_hidden() &&
      cas_acq_rel(&hooked, &none, 1u))
    hook_allocator();
  return NULL;
}
ENTRY_BEFORE(dlopen_entry, dlopen_prepare, dlopen_next);
__asm__(".globl dlopen\n.type dlopen, %function\n.set dlopen, dlopen_entry\n");
