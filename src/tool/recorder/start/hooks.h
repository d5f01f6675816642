/* SPDX-License-Identifier: MIT
 *
 * Whether a program is prepared for --trace without a pattern. If it is not, the user learns which
 * pattern traces its functions, before the program has run in vain.
 */
#ifndef SONDE_RECORDER_START_HOOKS_H
#define SONDE_RECORDER_START_HOOKS_H

/* Prints a note about the program NAME, whose executable is the file PATH, if the file has neither
 * compiler hooks, patchable entries and XRay sleds, nor calls of sonde/trace.h. There is no note
 * about scripts and files that cannot be read. */
void hooks_note(const char *name, const char *path);

#endif
