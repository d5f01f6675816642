/* SPDX-License-Identifier: MIT
 *
 * dlclose, after which some image may be gone. (dlopen is left alone: the loader looks at who calls
 * it.) What goes by other ways, as a library that another one's end takes along, is noticed here at
 * the next dlclose, or when the next new image is met.
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
  if (!real_dlclose) { /* of libdl, loaded later than this was looked for */
    dlclose_find_real();
    if (!real_dlclose) return -1;
  }
  int status = real_dlclose(handle);
  if (status == 0) definitions_check_unloaded();
  return status;
}
