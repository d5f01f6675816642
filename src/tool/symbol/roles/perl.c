/* SPDX-License-Identifier: MIT
 *
 * Installation paths of Perl on Debian (perl -V, @INC): modules of packages are in perl5/, those
 * that CPAN's tools install in /usr/local/.../perl/5.N, in site_perl/, or in perl5/ of a project
 * (local::lib). The standard library is in perl/5.N and perl-base/.
 */
#include "symbol/roles/perl.h"

#include <string.h>

source_role_t perl_role(const char *file) {
  static const char local[] = "/usr/local/";
  if (!file) return SOURCE_APP;
  if (strstr(file, "/perl5/") || strstr(file, "/site_perl/") || strstr(file, "/vendor_perl/"))
    return SOURCE_PACKAGE;
  if (strstr(file, "/perl-base/")) return SOURCE_STANDARD;
  if (!strstr(file, "/perl/5.")) return SOURCE_APP;
  return strncmp(file, local, sizeof local - 1) == 0 ? SOURCE_PACKAGE : SOURCE_STANDARD;
}
