/* SPDX-License-Identifier: MIT
 *
 * Whose code a generated function is, by its name and file.
 */
#ifndef SONDE_SYMBOL_GENERATED_H
#define SONDE_SYMBOL_GENERATED_H

#include <stdbool.h>

/* False for a part of the virtual machine or of its library, and for a package of node. FILE may be
 * NULL. */
bool generated_is_own(const char *name, const char *file);

#endif
