/* SPDX-License-Identifier: MIT
 *
 * Whose code a Python source file is, by its path.
 */
#ifndef SONDE_SYMBOL_PYTHON_H
#define SONDE_SYMBOL_PYTHON_H

#include <stddef.h>

#include "symbol/language.h"

/* FILE is co_filename; NULL: unknown, and then the app's. */
source_role_t python_role(const char *file);

/* Writes the name under which the package of FILE is imported to OUT, for SOURCE_PACKAGE; else "".
 */
void python_package(const char *file, char *out, size_t size);

/* The length of FILE's part up to the packages, "/usr/lib/python3/dist-packages/" for example; 0:
 * it is in no folder of packages. */
size_t python_packages_folder(const char *file);

#endif
