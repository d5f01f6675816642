/* SPDX-License-Identifier: MIT
 *
 * Composer installs packages in vendor/ (getcomposer.org, config.vendor-dir), Debian and PEAR in
 * /usr/share/php/. PHP's own library is written in C.
 */
#include "symbol/roles/php.h"

#include <string.h>

source_role_t php_role(const char *file) {
  if (!file) return SOURCE_APP;
  return strstr(file, "/vendor/") || strstr(file, "/share/php/") ? SOURCE_PACKAGE : SOURCE_APP;
}
