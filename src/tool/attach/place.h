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

typedef enum found {
  FOUND,
  FOUND_NOT,
  /* a thread of an earlier command, which was killed, still runs in it */
  FOUND_BUSY,
} found_t;

/* Looks for the same build of the object in the program, and sets `base` and `is_started`. An
 * object whose last call never ended is in an unknown state: its header is erased, and it is never
 * found again. */
found_t place_find_object(attach_t *attach);

/* Erases the header of the object or writes it again. */
bool place_hide_object(const attach_t *attach, uint64_t base);
bool place_show_object(const attach_t *attach, uint64_t base);

/* Sets `code`. False with PROBLEM if the program has no code for a call. Without code for the
 * return from a signal, a borrowed thread is not protected against the end of the command. */
bool place_find_code(attach_t *attach, problem_t *problem);

#endif
