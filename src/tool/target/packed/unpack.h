/* SPDX-License-Identifier: MIT
 *
 * Decompresses .debug_frame, the only unwind information that Go's linker writes. image/ reads
 * sections in place and ignores compressed ones.
 */
#ifndef SONDE_TARGET_PACKED_UNPACK_H
#define SONDE_TARGET_PACKED_UNPACK_H

#include "target/target.h"

/* Whether MODULE, which is ready, has a decompressed .debug_frame. Searches each module only once,
 * so a walk can call it whenever it finds no rule. */
bool module_unpack(module_t *module);

/* Frees the result of module_unpack. */
void module_forget_unpacked(module_t *module);

#endif
