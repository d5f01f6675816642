/* SPDX-License-Identifier: MIT
 *
 * One-line messages of the command, on stderr: "sonde VERB: TEXT". One thread uses these functions.
 */
#ifndef SONDE_BASE_MESSAGE_H
#define SONDE_BASE_MESSAGE_H

#include <stdarg.h>

/* The exit status of wrong use and of failure. */
enum { MESSAGE_FAILED = 2 };

/* Sets the verb that the messages name. */
void message_set_verb(const char *verb);

/* That verb; NULL without one. */
const char *message_verb(void);

/* Prints an error and returns MESSAGE_FAILED. The text says what is wrong and, where possible, how
 * to fix it. It ends without a full stop and without a newline. */
int message_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints an error and ends the process with MESSAGE_FAILED. For a library that cannot return, as
 * libdw (dwarf_new_oom_handler), and for an answer that would lack something. */
void message_out_of_memory(void) __attribute__((noreturn));

/* Prints a message that does not end the verb. */
void message_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints FORMAT with ARGUMENTS, then TAIL. Control characters of the arguments are printed as '?'.
 */
void message_print(const char *format, va_list arguments, const char *tail);

#endif
