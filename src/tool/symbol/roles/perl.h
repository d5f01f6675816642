/* SPDX-License-Identifier: MIT
 *
 * Whose code a Perl source file is, by its path.
 */
#ifndef SONDE_SYMBOL_ROLES_PERL_H
#define SONDE_SYMBOL_ROLES_PERL_H

#include "symbol/language.h"

source_role_t perl_role(const char *file);

#endif
