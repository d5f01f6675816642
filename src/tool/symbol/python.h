/* SPDX-License-Identifier: MIT
 *
 * Whose code a Python source file is, by its path.
 */
#ifndef SONDE_SYMBOL_PYTHON_H
#define SONDE_SYMBOL_PYTHON_H

#include <stddef.h>

typedef enum python_role {
  /* the program's own */
  PYTHON_APP,
  /* of an installed distribution: below site-packages or dist-packages */
  PYTHON_PACKAGE,
  /* the standard library, frozen modules included */
  PYTHON_STANDARD,
} python_role_t;

/* FILE is co_filename; NULL: unknown, and then the app's. */
python_role_t python_role(const char *file);

/* Writes the name under which the package of FILE is imported to OUT, for PYTHON_PACKAGE; else "".
 */
void python_package(const char *file, char *out, size_t size);

/* The length of FILE's part up to the packages, "/usr/lib/python3/dist-packages/" for example; 0:
 * it is in no folder of packages. */
size_t python_packages_folder(const char *file);

#endif
