/* SPDX-License-Identifier: MIT
 *
 * What captures make known, into the recording: frames, stack nodes and the images they lie in.
 */
#ifndef SONDE_RECORD_PUBLISH_H
#define SONDE_RECORD_PUBLISH_H

/* From now on every new frame and node is recorded before an id that names it is given out. Called
 * before the first capture. */
void publish_to_recording(void);

#endif
