/* SPDX-License-Identifier: MIT
 *
 * A small limit on the stack (ulimit -s), which would end a verb that reads files by SIGSEGV.
 */
#ifndef SONDE_CLI_LINUX_START_STACK_ROOM_H
#define SONDE_CLI_LINUX_START_STACK_ROOM_H

#include <stdbool.h>

/* Raises the limit for this process and its later threads, if it is small. False with a message if
 * the hard limit forbids that. Call it before there are other threads. */
bool stack_room(void);

#endif
