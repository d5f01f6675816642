/* SPDX-License-Identifier: MIT
 *
 * The names of flags and numbers that audited functions of Linux take: O_RDONLY|O_CLOEXEC, AF_INET.
 * A pure function. The values are those of the kernel's headers for the machine of the recording.
 */
#ifndef SONDE_ANALYSIS_AUDIT_FLAG_WORDS_H
#define SONDE_ANALYSIS_AUDIT_FLAG_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes the names for VALUE, the argument number ARGUMENT (from 0) of FUNCTION, to OUT: of flags
 * all that have a name, then the rest in hexadecimal. MACHINE is that of the recording's header.
 * False if the names are not known. */
bool flag_words(const char *function, int argument, uint64_t value, uint32_t machine, char *out,
                size_t size);

#endif
