/* SPDX-License-Identifier: MIT
 *
 * Records the definitions that events refer to: frames, stack nodes, and the images that contain
 * them.
 */
#ifndef SONDE_RECORD_DEFINITIONS_H
#define SONDE_RECORD_DEFINITIONS_H

#include <stddef.h>

#include "image/list.h"

/* Records every new frame and node from now on, before its id can be used. Called before the first
 * capture. */
void definitions_start(void);

/* Records which images were unloaded or loaded again since the last call. Does nothing if the
 * loader's epoch has not changed. */
void definitions_check_unloaded(void);

/* Records all existing frames, nodes and images in a recording that starts now: while there is one
 * thread, or before ids are recorded. */
void definitions_write_all(void);

/* What the records have: the path of an image, which may be in OUT of SIZE bytes, and the FRAME_…
 * flags of a frame. */
const char *definitions_path(const image_entry_t *entry, char *out, size_t size);
uint32_t definitions_frame_flags(uint64_t pc, bool exact);

#endif
