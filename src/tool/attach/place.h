/* SPDX-License-Identifier: MIT
 *
 * Places in the program: the parts of the mapping, an object that is there already, and machine
 * code that a borrowed thread can use.
 */
#ifndef SONDE_ATTACH_PLACE_H
#define SONDE_ATTACH_PLACE_H

#include "attach/session.h"

/* The start of the image by which a complete object is known. */
#define PLACE_HEADER 64u

/* Sets the layout for the object. */
void place_layout(attach_t *attach);

/* Looks for the same build of the object in the program, and sets `base` and `is_started`. */
bool place_find_object(attach_t *attach);

/* Sets `code`. False with PROBLEM if the program has no code for a call. Without code for the
 * return from a signal, a borrowed thread is not protected against the end of the command. */
bool place_find_code(attach_t *attach, problem_t *problem);

#endif
