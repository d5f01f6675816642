/* SPDX-License-Identifier: MIT */
#include "cli/emulated.h"

#include "cli/cli.h"

void emulated_tell(const scratch_control_t *control) {
  const int size = sizeof control->emulator; /* the program can write there */
  if (!control->emulator[0]) return;
  cli_note("%.*s executes the program itself: what is recorded is %.*s's own part, nothing of the "
           "program it runs",
           size, control->emulator, size, control->emulator);
}
