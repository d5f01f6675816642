/* SPDX-License-Identifier: MIT
 *
 * The command reads no processes and core files of Apple's systems.
 */
#include "report/why/target.h"

bool why_target(why_report_t *why, long pid, const char *path, const char *exe,
                const frame_names_options_t *naming, char error[WHY_ERROR_MAX]) {
  (void)why, (void)pid, (void)path, (void)exe, (void)naming;
  snprintf(error, WHY_ERROR_MAX, "processes and core files need Linux; give a recording");
  return false;
}

bool why_is_core(const char *path) {
  (void)path;
  return false;
}
