/* SPDX-License-Identifier: MIT
 *
 * Whose code a Ruby source file is, by its path.
 */
#ifndef SONDE_SYMBOL_ROLES_RUBY_H
#define SONDE_SYMBOL_ROLES_RUBY_H

#include "symbol/language.h"

source_role_t ruby_role(const char *file);

#endif
