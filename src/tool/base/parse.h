/* SPDX-License-Identifier: MIT
 *
 * Numbers, sizes, durations, days and addresses as users type them. Each function reads a whole
 * text unless it says otherwise, and returns false when the text is not such a value.
 */
#ifndef SONDE_BASE_PARSE_H
#define SONDE_BASE_PARSE_H

#include <stdbool.h>
#include <stdint.h>

/* A decimal number from MIN to MAX. */
bool parse_number(const char *text, long min, long max, long *out);

/* A size in bytes, at least 1: 4096, 64K, 500M, 2G. */
bool parse_size(const char *text, uint64_t *out);

/* A duration with its unit: 100ns, 10us, 1.5ms, 2s. */
bool parse_duration(const char *text, double *out_ns);

/* A day, YYYY-MM-DD, counted since 1970; none before is one. */
bool parse_day(const char *text, int64_t *out);

/* A hexadecimal address, with or without 0x. */
bool parse_address(const char *text, uint64_t *out);

/* Reads the address at the start of TEXT and advances TEXT past it. */
bool parse_address_prefix(const char **text, uint64_t *out);

#endif
