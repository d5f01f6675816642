/* SPDX-License-Identifier: MIT
 *
 * The distribution's package that owns a file: from the lists of dpkg or the database of apk, which
 * are plain text, or through librpm, which is loaded when there is an rpm database. One thread uses
 * these functions.
 */
#ifndef SONDE_SYMBOL_PACKAGE_H
#define SONDE_SYMBOL_PACKAGE_H

typedef struct packages packages_t;

/* The packages of the system with the root folder ROOT: "" for this one, /proc/PID/root for a
 * container. Reads nothing yet. NULL when memory runs out. */
packages_t *packages_new(const char *root);
void packages_free(packages_t *packages);

/* The name of the package that installed PATH, valid until the next call; NULL when none did. The
 * first call on a dpkg system reads all lists (some 10 MB). */
const char *package_of(packages_t *packages, const char *path);

#endif
