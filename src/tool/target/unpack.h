/* SPDX-License-Identifier: MIT
 *
 * Unwind information that a file holds compressed: .debug_frame, as Go's linker writes it, which
 * writes no other. image/ reads sections where they stand and counts such a one as none.
 */
#ifndef SONDE_TARGET_UNPACK_H
#define SONDE_TARGET_UNPACK_H

#include "target/target.h"

/* True when MODULE, which is ready, has got a .debug_frame that way. Looks once for each module, so
 * it may be asked wherever a walk finds no rule. */
bool module_unpack(module_t *module);

/* Gives back what module_unpack has made. */
void module_forget_unpacked(module_t *module);

#endif
