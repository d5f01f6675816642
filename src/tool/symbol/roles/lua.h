/* SPDX-License-Identifier: MIT
 *
 * Whose code a Lua source file is, by its path.
 */
#ifndef SONDE_SYMBOL_ROLES_LUA_H
#define SONDE_SYMBOL_ROLES_LUA_H

#include "symbol/language.h"

source_role_t lua_role(const char *file);

#endif
