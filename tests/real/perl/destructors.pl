# SPDX-License-Identifier: MIT
# Is called by Perl's C functions alone, for ever.
sub DESTROY {
    my $x = 1;
}
$| = 1;
print "ready\n";
kill "STOP", $$;
while (1) {
    my $dies = bless {};
    undef $dies;
}
