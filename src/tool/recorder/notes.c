/* SPDX-License-Identifier: MIT */
#include "recorder/notes.h"

#include "base/bits.h"
#include "base/message.h"
#include "record/format.h"

void notes_print(const shm_control_t *control) {
  const int size = sizeof control->emulator; /* the program can write there */
  if (control->emulator[0])
    message_note(
        "%.*s executes the program itself: what is recorded is %.*s's own part, nothing of "
        "the program it runs",
        size, control->emulator, size, control->emulator);
  else if (control->exec_index && control->executing)
    message_note(
        "process %u replaced its program by one that never loaded the agent (it is static, "
        "or gained rights): nothing of that one is recorded",
        control->pid);
  if (control->own_malloc && load_relaxed(&control->mode) & RECORD_ANY_BLOCKS)
    message_note(
        "process %u has a malloc in its executable, as with AddressSanitizer or an allocator "
        "linked into it, which no preloaded library comes before: its blocks are not recorded",
        control->pid);
}
