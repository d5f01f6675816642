/* SPDX-License-Identifier: MIT
 *
 * LuaRocks and Debian install modules in share/lua/5.N (package.path, luaconf.h), LuaRocks also in
 * a folder lua_modules of the project. Lua's own library is written in C.
 */
#include "symbol/roles/lua.h"

#include <string.h>

source_role_t lua_role(const char *file) {
  if (!file) return SOURCE_APP;
  return strstr(file, "/share/lua/5.") || strstr(file, "/lua_modules/") ? SOURCE_PACKAGE
                                                                        : SOURCE_APP;
}
