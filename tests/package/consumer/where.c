/* SPDX-License-Identifier: MIT
 *
 * A program of someone else, who has only the installed files: prints its own stack.
 */
#include <sonde/sonde.h>

int main(void) {
  uintptr_t pcs[64];
  int count = sonde_stack(pcs, 64);
  return count > 0 && sonde_stack_print(1, pcs, count, 0) == count ? 0 : 1;
}
