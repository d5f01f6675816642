/* SPDX-License-Identifier: MIT
 *
 * Which package of the distribution a file belongs to: from dpkg's lists or apk's database, which
 * are plain text, or through librpm, which is loaded when there is an rpm database.
 */
#ifndef SONDE_SYMBOL_PACKAGE_H
#define SONDE_SYMBOL_PACKAGE_H

typedef struct packages packages_t;

/* The packages of the system whose root is ROOT ("" for this one; a container's is
 * /proc/PID/root). Nothing is read before the first question. NULL when there is no memory. */
packages_t *packages_new(const char *root);
void packages_free(packages_t *packages);

/* The name of the package that installed PATH, valid until the next question; NULL when none did.
 * The first question of a dpkg system reads all lists once (some 10 MB). */
const char *package_of(packages_t *packages, const char *path);

#endif
