# SPDX-License-Identifier: MIT
# A file that states.pl executes.
my $n = $main::given{n};
main::deeper($n);
