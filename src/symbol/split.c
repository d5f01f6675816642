/* SPDX-License-Identifier: MIT
 *
 * Split DWARF. A .dwo file is found and opened by libdw. See split.h.
 */
#include "symbol/split.h"

#include <dwarf.h>
#include <stdlib.h>

struct split {
  Dwarf *main;
};

split_t *split_open(const char *path, Dwarf *main) {
  (void)path;
  split_t *split = calloc(1, sizeof *split);
  if (split) split->main = main;
  return split;
}

void split_close(split_t *split) {
  free(split);
}

bool split_find(split_t *split, Dwarf_Die *skeleton, Dwarf_Die *die) {
  Dwarf_Die other = {0};
  uint8_t type;
  if (!split || dwarf_cu_info(skeleton->cu, NULL, &type, NULL, &other, NULL, NULL, NULL) != 0 ||
      type != DW_UT_skeleton || !other.addr)
    return false;
  *die = other;
  return true;
}
