/* SPDX-License-Identifier: MIT
 *
 * Reports whether the hardware keeps return addresses on a shadow stack:
 * arch/x86/include/uapi/asm/prctl.h (ARCH_SHSTK_STATUS, Linux 6.6), include/uapi/linux/prctl.h
 * (PR_GET_SHADOW_STACK_STATUS, 6.13).
 */
#include "os/linux/calls/call.h"
#include "os/os.h"

bool os_shadow_stack(void) {
  uint64_t status = 0;
#if defined(__x86_64__)
  return call2(shadow_stack, SHADOW_STACK_COMMAND, &status) == 0 && (status & 1);
#else
  return call2(shadow_stack, SHADOW_STACK_COMMAND, &status) == 0 && (status & 1);
#endif
}
