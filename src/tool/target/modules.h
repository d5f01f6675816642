/* SPDX-License-Identifier: MIT
 *
 * The loaded images of a target, found from its memory map.
 */
#ifndef SONDE_TARGET_MODULES_H
#define SONDE_TARGET_MODULES_H

#include "target/target.h"

/* Groups the mappings of TARGET into modules and sets their `module` index. */
bool modules_build(target_t *target);
void modules_free(target_t *target);

/* Opens and places the image of MODULE, once. True when it is ready. */
bool modules_ready(target_t *target, module_t *module);

/* Copies what the target has mapped of MODULE into a memfd, each byte at its file offset, and makes
 * that the module's open_path. False when nothing could be read. */
bool modules_from_memory(target_t *target, module_t *module);

#endif
