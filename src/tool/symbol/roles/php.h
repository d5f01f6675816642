/* SPDX-License-Identifier: MIT
 *
 * Whose code a PHP source file is, by its path.
 */
#ifndef SONDE_SYMBOL_ROLES_PHP_H
#define SONDE_SYMBOL_ROLES_PHP_H

#include "symbol/language.h"

source_role_t php_role(const char *file);

#endif
