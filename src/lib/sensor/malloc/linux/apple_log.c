/* SPDX-License-Identifier: MIT
 *
 * The functions of sonde/apple_log.h where there is no such log.
 */
#include "sonde/apple_log.h"

int sonde_apple_log_start(sonde_apple_log_mode_t mode) {
  (void)mode;
  return SONDE_EUNSUPPORTED;
}

int sonde_apple_log_stop(void) { return SONDE_EUNSUPPORTED; }

int sonde_apple_log_path(char *path, size_t size) {
  (void)path, (void)size;
  return SONDE_EUNSUPPORTED;
}

int sonde_apple_log_save(const char *folder) {
  (void)folder;
  return SONDE_EUNSUPPORTED;
}
