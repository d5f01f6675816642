/* SPDX-License-Identifier: MIT
 *
 * Code is not patched on Apple's systems: code pages are signed.
 */
#include "sensor/intercept/intercept.h"

int intercept_code(const char *target, uint32_t number) {
  (void)target, (void)number;
  return SONDE_EUNSUPPORTED;
}

int intercept_code_restore(uint32_t number) {
  (void)number;
  return SONDE_ENOTFOUND;
}
