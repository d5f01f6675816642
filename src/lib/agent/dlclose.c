/* SPDX-License-Identifier: MIT
 *
 * dlclose, after which images may be unloaded. Images that are unloaded in other ways, for example
 * a dependency of another library, are detected at the next dlclose or with the next new image.
 */
#include "agent/agent.h"
#include "record/definitions.h"

static int (*real_dlclose)(void *);

void dlclose_find_real(void) {
  static const char *const names[] = {"dlclose"};
  agent_real(names, (uint64_t *)&real_dlclose, 1);
}

__attribute__((visibility("default"))) int dlclose(void *handle);

int dlclose(void *handle) {
  agent_enter();
  if (!real_dlclose) { /* in libdl, which was loaded after the lookup */
    dlclose_find_real();
    if (!real_dlclose) return -1;
  }
  int status = real_dlclose(handle);
  if (status == 0) definitions_check_unloaded();
  return status;
}
