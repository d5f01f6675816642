/* SPDX-License-Identifier: MIT
 *
 * Days and times as a policy writes them. Both are false for a text that is none, or NULL.
 */
#ifndef SONDE_ANALYSIS_AUDIT_POLICY_TIMES_H
#define SONDE_ANALYSIS_AUDIT_POLICY_TIMES_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* YYYY-MM-DD: the first second, of UTC, after that day. */
bool policy_day(const char *text, time_t *out);

/* 200ms, 10s, 5m */
bool policy_window(const char *text, uint64_t *ns);

#endif
