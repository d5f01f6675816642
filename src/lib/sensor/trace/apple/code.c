/* SPDX-License-Identifier: MIT
 *
 * Code is not patched on Apple's systems: code pages are signed.
 */
#include "sensor/trace/code.h"

code_result_t code_switch(bool on, const char *pattern) {
  (void)on, (void)pattern;
  return (code_result_t){.why = "code pages are signed"};
}
