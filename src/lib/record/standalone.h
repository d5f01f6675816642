/* SPDX-License-Identifier: MIT
 *
 * A recording that the program makes by itself, with no recorder beside it. What lies in open
 * chunks when it is killed is lost; tables are therefore written with every chunk of events.
 */
#ifndef SONDE_RECORD_STANDALONE_H
#define SONDE_RECORD_STANDALONE_H

#include <stdbool.h>

/* Makes PATH, which must not exist, and begins to record, nothing for the time being: the mode is
 * 0. Returns 0 or a negative SONDE_E…. */
int standalone_begin(const char *path);

/* Whether the next one makes its own scratch: the tables of this process know no other. */
bool standalone_is_first(void);

/* The mode is 0 and no thread is recording any more: closes everything. 0 or SONDE_EIO. */
int standalone_end(void);

#endif
