# SPDX-License-Identifier: MIT
# A module that states.pl requires.
package Required;
use strict;
BEGIN { main::deeper($main::given{n} - 1) }
sub import { main::deeper($main::given{n} - 2) }
main::deeper($main::given{n});
1;
