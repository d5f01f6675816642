/* SPDX-License-Identifier: MIT
 *
 * The last component of a linker name: "checkpoint" of _ZN4shop10checkpointEi. The parts are those
 * of the Itanium C++ ABI, 5.1.3, and of Rust's legacy scheme, which adds a hash to them.
 */
#ifndef SONDE_BASE_LINK_NAME_H
#define SONDE_BASE_LINK_NAME_H

#include <stdbool.h>
#include <stdint.h>

/* A glob that begins with this matches the last component of a nested name. */
#define LINK_NAME_LAST '>'

/* Sets *SIZE to the length of the last component of NAME and returns it. The component of a
 * constructor is the name of its class. NULL: NAME is not nested, or its last component is no
 * identifier (a destructor, an operator, a lambda). */
const char *link_name_last(const char *name, uint32_t *size);

/* As glob_matches; ">read" matches functions whose last component matches "read". */
bool link_name_matches(const char *glob, const char *name);

#endif
