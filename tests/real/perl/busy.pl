# SPDX-License-Identifier: MIT
# Calls a known chain of functions for ever: in evals, in destructors, with exceptions, in callbacks of C.
use List::Util qw(first);
sub leaf { my $n = shift;
    my $x = 0; $x += $_ % 7 for 1 .. $n;
    return $x;
}
sub inner {
    return leaf(10) + leaf(3);
}
sub recursive { my $n = shift;
    return recursive($n - 1) + leaf(2) if $n;
    return eval { leaf(3) };
}
sub DESTROY {
    recursive(4);
}
sub fails { my $n = shift;
    die "so\n" if !$n;
    eval { fails($n - 1) }; die "so\n";
}
$| = 1;
print "ready\n";
kill "STOP", $$ if @ARGV;
while (1) {
    first { eval { inner() }; 0 } 1, 2, 3;
    inner();
    my $dies = bless {};
    undef $dies;
    eval { fails(2) };
    my @sorted = sort { eval { my $f = sub { inner() }; $f->() }; $a <=> $b } 3, 1, 2;
}
