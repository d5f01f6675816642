/* SPDX-License-Identifier: MIT
 *
 * The seccomp filters that the program installed, in the head of a report: which of sonde's system
 * calls they forbid, and what is not recorded because of them.
 */
#ifndef SONDE_REPORT_SECTIONS_SECCOMP_H
#define SONDE_REPORT_SECTIONS_SECCOMP_H

#include <json-c/json.h>
#include <stdio.h>

#include "reader/reader.h"

void seccomp_text(const reader_t *reader, FILE *out);

/* Adds the key `seccomp` if the program installed a filter. */
void seccomp_json(const reader_t *reader, json_object *out);

#endif
