/* SPDX-License-Identifier: MIT */
#include "cli/emulated.h"

#include "base/bits.h"
#include "cli/cli.h"
#include "record/format.h"

void emulated_tell(const scratch_control_t *control) {
  const int size = sizeof control->emulator; /* the program can write there */
  if (control->emulator[0])
    cli_note("%.*s executes the program itself: what is recorded is %.*s's own part, nothing of "
             "the program it runs",
             size, control->emulator, size, control->emulator);
  else if (control->incarnation && control->executing)
    cli_note("process %u replaced its program by one that never loaded the agent (it is static, "
             "or gained rights): nothing of that one is recorded",
             control->pid);
  if (control->own_malloc && load_relaxed(&control->mode) & RECORD_ANY_BLOCKS)
    cli_note("process %u has a malloc in its executable, as with AddressSanitizer or an allocator "
             "linked into it, which no preloaded library comes before: its blocks are not recorded",
             control->pid);
}
