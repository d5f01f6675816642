/* SPDX-License-Identifier: MIT
 *
 * Code is not patched on Apple's systems: code pages are signed.
 */
#include "sensor/trace/code.h"

code_result_t code_switch(bool on, const char *pattern, const char *functions) {
  (void)on, (void)pattern, (void)functions;
  return (code_result_t){.why = "code pages are signed"};
}

void functions_patch(const char *pattern, bool is_new, code_result_t *result) {
  (void)pattern, (void)is_new, (void)result;
}
