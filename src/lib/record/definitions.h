/* SPDX-License-Identifier: MIT
 *
 * What captures make known, into the recording: frames, stack nodes and the images they lie in.
 */
#ifndef SONDE_RECORD_DEFINITIONS_H
#define SONDE_RECORD_DEFINITIONS_H

/* From now on every new frame and node is recorded before an id that names it is given out. Called
 * before the first capture. */
void definitions_start(void);

/* Records which images are gone, and which of them are back; where an image may have come or gone.
 * The loader's epoch is asked first. */
void definitions_check_unloaded(void);

/* All frames, nodes and images there are, into a recording that begins now: while there is one
 * thread, or before ids are recorded. */
void definitions_write_all(void);

#endif
