/* SPDX-License-Identifier: MIT
 *
 * Words on what an emulator leaves out of a recording.
 */
#ifndef SONDE_CLI_EMULATED_H
#define SONDE_CLI_EMULATED_H

#include "record/scratch.h"

/* Prints a note when the program was run by an emulator. */
void emulated_tell(const scratch_control_t *control);

#endif
