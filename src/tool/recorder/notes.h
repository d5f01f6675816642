/* SPDX-License-Identifier: MIT
 *
 * Words on programs that are left out of a recording: what an emulator runs, what replaced the
 * program without the agent, and blocks of an allocator that the executable brings.
 */
#ifndef SONDE_RECORDER_NOTES_H
#define SONDE_RECORDER_NOTES_H

#include "record/shm.h"

/* Prints a note when there is such a one. */
void notes_print(const shm_control_t *control);

#endif
