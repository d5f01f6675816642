/* SPDX-License-Identifier: MIT
 *
 * The loaded images of a target, derived from its memory map.
 */
#ifndef SONDE_TARGET_MODULES_H
#define SONDE_TARGET_MODULES_H

#include "target/target.h"

/* Groups the mappings of TARGET into modules and sets their `module` index. */
bool modules_build(target_t *target);
void modules_free(target_t *target);

/* Opens the image of MODULE, once. True if it is ready. */
bool modules_ready(target_t *target, module_t *module);

/* Takes the file of MODULE, which is ready, out of this process' resident memory. What is needed of
 * it later is mapped again. For callers that have searched all its symbols. */
void modules_trim(const module_t *module);

/* Copies the mapped parts of MODULE from the target's memory to a memfd, each byte at its file
 * offset, and sets open_path to it. False if nothing can be read. */
bool modules_from_memory(target_t *target, module_t *module);

#endif
