/* SPDX-License-Identifier: MIT
 *
 * The rpm database, through librpm, which is loaded when a database exists.
 */
#ifndef SONDE_SYMBOL_RPM_H
#define SONDE_SYMBOL_RPM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct rpm rpm_t;

/* Opens the database below ROOT. NULL when there is no database or no librpm. */
rpm_t *rpm_open(const char *root);
void rpm_close(rpm_t *rpm);

/* Writes the name of the package that installed PATH to OUT. False when there is none. */
bool rpm_owner(rpm_t *rpm, const char *path, char *out, size_t size);

#endif
