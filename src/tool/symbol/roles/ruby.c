/* SPDX-License-Identifier: MIT
 *
 * Installation paths of Ruby (RbConfig): gems are in gems/NAME-VERSION/ below a folder that
 * contains "/ruby", "/gems" or "/bundle" and the version; Debian has further ones in
 * ruby/vendor_ruby. The standard library is in lib/ruby/3.N.0. The path of a method that the
 * interpreter contains is "<internal:NAME>".
 */
#include "symbol/roles/ruby.h"

#include <ctype.h>
#include <string.h>

/* Whether PATH begins with a version such as "3.1.0/". */
static bool is_version(const char *path) {
  const char *p = path;
  while (isdigit((unsigned char)*p) || *p == '.')
    p++;
  return p != path && *p == '/';
}

source_role_t ruby_role(const char *file) {
  static const char library[] = "/lib/ruby/";
  if (!file) return SOURCE_APP;
  if (strncmp(file, "<internal:", 10) == 0) return SOURCE_STANDARD;
  if (strstr(file, "/gems/") || strstr(file, "/vendor_ruby/")) return SOURCE_PACKAGE;
  const char *found = strstr(file, library);
  return found && is_version(found + sizeof library - 1) ? SOURCE_STANDARD : SOURCE_APP;
}
