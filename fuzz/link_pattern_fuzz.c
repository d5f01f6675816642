/* SPDX-License-Identifier: MIT
 *
 * Patterns of --trace. Checked beyond the sanitizers: the result ends within its buffer, more room
 * does not change it, and the agent's matcher ends on it.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "symbol/link_pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The longest pattern that --trace takes, and two sizes of buffers. */
enum { PATTERN_MAX = 511, SMALL = 512, LARGE = 64 << 10 };

static void check(bool holds) {
  if (!holds) __builtin_trap();
}

/* Matches each glob of LIST, separated by commas, which are cut off. */
static void match(char *list) {
  char *rest = list;
  for (char *glob; (glob = strsep(&rest, ","));)
    (void)glob_matches(glob, "_ZN3net6Socket4readIiEEvT_");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > PATTERN_MAX) return 0;
  static char small[SMALL], large[LARGE];
  char *pattern = malloc(size + 1);
  if (!pattern) return 0;
  memcpy(pattern, data, size);
  pattern[size] = 0;
  bool fits = link_pattern(pattern, small, sizeof small);
  check(memchr(small, 0, sizeof small) != NULL);
  bool fits_more = link_pattern(pattern, large, sizeof large);
  check(memchr(large, 0, sizeof large) != NULL);
  check(!fits || (fits_more && strcmp(small, large) == 0));
  match(large);
  free(pattern);
  return 0;
}
