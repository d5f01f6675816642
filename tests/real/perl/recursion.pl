# SPDX-License-Identifier: MIT
# Calls a function that calls itself at the same place, for ever. Stops itself in the second call.
sub recursive { my $n = shift;
    kill "STOP", $$ if $n == 8 && !$stopped++;
    return recursive($n - 1) if $n;
    return 1;
}
$| = 1;
print "ready\n";
while (1) {
    recursive(9);
}
