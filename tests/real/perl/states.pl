# SPDX-License-Identifier: MIT
# Stacks of all kinds, at random: says the id of its thread and its stack, as `caller` has it, in a line of JSON, and waits
# for a line; again and again.
#
# usage: states.pl SEED ROUNDS FOLDER [threads]
use strict;
use warnings;
no warnings qw(recursion redefine experimental uninitialized);
use feature qw(try defer say state lexical_subs);
use Config;
use List::Util ();
use Sub::Util ();
use Storable ();
use Data::Dumper ();

our ($folder, @outer_threads, %given, $left);

BEGIN {
    srand($ARGV[0]);
    $folder = $ARGV[2];
    $| = 1;
    unshift @INC, $folder;
}

sub tid { readlink("/proc/thread-self") =~ m{task/(\d+)} ? $1 : die }

sub quote {
    my $text = shift;
    $text =~ s/(["\\])/\\$1/g;
    $text =~ s/\n/\\n/g;
    return "\"$text\"";
}

# Of the frame that `caller` has at LEVEL of its caller. Perl cannot copy what it has for a format.
sub name_of {
    my $level = 1 + shift;
    return "format" if ref \(caller($level))[3] eq "FORMAT";
    my (undef, undef, undef, $function, undef, undef, $text, $is_require) = caller($level);
    return $function if $function ne "(eval)";
    return "eval {...}" unless defined $text;
    return "eval '...'" unless $is_require;
    return $text =~ /done/ ? "do $text" : "require $text";
}

sub has_start { ${^GLOBAL_PHASE} eq "START" }

# Whether the main program is the outermost caller: it runs, or is compiled.
sub has_main { !@outer_threads && ${^GLOBAL_PHASE} =~ /^(START|RUN)$/ }

sub pause {
    return 0 unless defined fileno STDIN; # the program ends, and has closed it
    my @place = (__FILE__, __LINE__ + 11);
    my @frames;
    for (my $i = 0; defined((caller($i))[1]); $i++) {
        push @frames, [name_of($i), @place];
        @place = (caller($i))[1, 2];
    }
    push @frames, ["main program", @place] if has_main();
    my $said = join ",", map { sprintf "[%s,%s,%d]", quote($_->[0]), quote($_->[1]), $_->[2] } @frames;
    $said = join ",", "\"" . tid() . "\":[$said]", map { "\"$_\":null" } @outer_threads;
    local ($/, $,, $\, $_) = "\n";
    print STDOUT "{$said}\n";
    my $line = <STDIN>;
    exit unless defined $line;
    return 0;
}

# What the program calls, each with the number of calls that are left.
my @ways;

sub deeper {
    my $n = shift // 0;
    return pause() if $n <= 0;
    $ways[rand @ways]->($n - 1);
    return 0;
}

sub plain { deeper($_[0]) + 0 }
sub recursive { my ($k, $n) = @_; return $k ? recursive($k - 1, $n) : deeper($n) }
sub without_arguments { &plain }
sub jumps { goto &plain }
sub by_number { deeper($left) if $left; $left = 0; $a <=> $b }
sub by_arguments ($$) { my ($x, $y) = @_; deeper($left) if $left; $left = 0; $x <=> $y }
sub lvalue :lvalue { my $n = shift; deeper($n); $left }
sub Some::Other::Package::function { main::deeper(shift) }
sub AUTOLOAD { return if our $AUTOLOAD =~ /DESTROY/; deeper(shift) }

package Object {
    sub new { my ($class, $n) = @_; bless {n => $n}, $class }
    sub method { my ($self, $n) = @_; main::deeper($n) }
    sub DESTROY { my $self = shift; local ($@, $?, $!); main::deeper(delete $self->{n}) if $self->{n} }
    sub AUTOLOAD { my ($self, $n) = @_; main::deeper($n) }
    sub can { my ($self, $what) = @_; main::deeper($left) if $left; $left = 0; $self->SUPER::can($what) }
    sub STORABLE_freeze { main::deeper($left) if $left; $left = 0; return "1" }
    sub STORABLE_thaw { main::deeper(0) }
    sub freezer { main::deeper($left) if $left; $left = 0 }
    sub MODIFY_CODE_ATTRIBUTES { main::deeper($left) if $left; $left = 0; return }
}

package Derived {
    BEGIN { our @ISA = "Object" }
    sub method { my ($self, $n) = @_; $self->SUPER::method($n) }
}

package Tied {
    sub TIESCALAR { bless [$_[1]] }
    sub TIEARRAY { bless [$_[1]] }
    sub TIEHASH { bless [$_[1]] }
    sub TIEHANDLE { bless [$_[1]] }
    sub FETCH { main::deeper($_[0][0]); 1 }
    sub STORE { main::deeper($_[0][0]) }
    sub FETCHSIZE { main::deeper($_[0][0]); 0 }
    sub FIRSTKEY { main::deeper($_[0][0]); undef }
    sub EXISTS { main::deeper($_[0][0]) }
    sub DELETE { main::deeper($_[0][0]) }
    sub CLEAR { }
    sub EXTEND { }
    sub PRINT { main::deeper($_[0][0]) }
    sub READLINE { main::deeper($_[0][0]); undef }
    sub UNTIE { main::deeper($_[0][0]) }
}

package Overloaded {
    use overload
        "+" => sub { main::deeper($_[0][0]) },
        "==" => sub { main::deeper($_[0][0]); 1 },
        "<=>" => sub { main::deeper(delete $_[0][0]) if $_[0][0]; 0 },
        "cmp" => \&compare,
        '""' => "text",
        "bool" => sub { main::deeper($_[0][0]); 1 },
        "0+" => sub { main::deeper($_[0][0]); 1 },
        "neg" => sub { main::deeper($_[0][0]) },
        "." => sub { main::deeper($_[0][0]); "" },
        '@{}' => sub { my $s = shift; overload::StrVal($s); main::deeper(0); [] },
        '%{}' => sub { main::deeper(0); {} },
        '&{}' => sub { my $n = $left; sub { main::deeper($n) } },
        "<>" => sub { main::deeper($left); undef },
        "qr" => sub { main::deeper($left); qr/a/ };
    sub new { my ($class, $n) = @_; bless sub { $n }, $class }
    sub compare { main::deeper($left) if $left; $left = 0; 0 }
    sub text { main::deeper($left) if $left; $left = 0; "text" }
}

# Another class, since the operators of Overloaded would be in the way.
package Number {
    use overload
        "+" => sub { main::deeper($_[0]{n}); 1 },
        "-" => sub { main::deeper($_[0]{n}); 1 },
        "==" => sub { main::deeper($_[0]{n}); 1 },
        "<=>" => sub { main::deeper(delete $_[0]{n}) if $_[0]{n}; 0 },
        "cmp" => sub { main::deeper(delete $_[0]{n}) if $_[0]{n}; 0 },
        '""' => sub { main::deeper($_[0]{n}); "text" },
        "bool" => sub { main::deeper($_[0]{n}); 1 },
        "neg" => sub { main::deeper($_[0]{n}) },
        "=" => sub { main::deeper($_[0]{n}); bless {} },
        "++" => sub { $_[0] },
        '@{}' => sub { main::deeper($_[0]{n}); [] },
        '&{}' => sub { my $n = $_[0]{n}; sub { main::deeper($n) } },
        "<>" => sub { main::deeper($_[0]{n}); undef },
        "-X" => sub { main::deeper($_[0]{n}); 1 },
        "qr" => sub { main::deeper($_[0]{n}); qr/a/ };
    sub new { my ($class, $n) = @_; bless {n => $n}, $class }
}

our $printed;
format OUTPUT_TOP =
.
format OUTPUT =
@<<<
main::deeper($printed)
.

sub by_format {
    $printed = shift;
    open my $to, ">", "/dev/null" or die;
    my $before = select $to;
    ($^, $~) = ("OUTPUT_TOP", "OUTPUT");
    write;
    select $before;
}

sub die_of { my $n = shift; local $SIG{__DIE__} = sub { deeper($n) }; eval { die "so\n" }; 0 }

sub in_thread {
    my $n = shift;
    return deeper($n) if @ARGV < 4 || @outer_threads > 1 || !$Config{useithreads};
    require threads;
    my @outer = (@outer_threads, tid());
    threads->create(sub { local @outer_threads = @outer; srand($n); deeper($n); return })->join;
}

sub hook { my ($self, $file) = @_;
    return unless $file =~ /^Hooked(\d+)_/;
    main::deeper($1);
    return \"1;";
}
BEGIN { push @INC, \&hook }
our $unique = 0;

BEGIN { @ways = (
    sub { deeper(shift) },
    sub { my $n = shift; plain($n) },
    sub { my $n = shift; return 1 + deeper($n) },
    sub { &plain },
    sub { without_arguments(shift) },
    sub { jumps(shift) },
    sub { my $code = \&plain; $code->(shift) },
    sub { my $n = shift; my $inner = sub { deeper($n) }; $inner->() },
    sub { no strict "refs"; my $name = "plain"; &$name(shift) },
    sub { my $n = shift; recursive(int(rand 30), $n) },
    sub { Some::Other::Package::function(shift) },
    sub { undefined_function(shift) },
    sub { Object->method(shift) },
    sub { (bless {}, "Derived")->method(shift) },
    sub { my $n = shift; my $o = bless {}, "Object"; my $m = "method"; $o->$m($n) },
    sub { my $n = shift; my $o = bless {}, "Object"; $o->unknown_method($n) },
    sub { my $n = shift; my sub lexical { deeper(shift) } lexical($n) },
    sub { my $n = shift; state sub named { deeper(shift) } named($n) },
    sub { my $n = shift; Sub::Util::set_subname("Renamed::function", sub { deeper($n) })->() },
    sub { my $n = shift; local *plain = sub { deeper($n) }; plain() },
    sub { my $n = shift; return deeper($n) if has_start(); my $gone = "Gone" . $unique++; eval "package $gone; sub f { main::deeper(\$_[0]) } 1" or die;
        no strict "refs"; push our @kept, my $f = \&{"${gone}::f"}; undef %{"${gone}::"}; $f->($n) },
    sub { lvalue(shift) = 1 },
    # evals
    sub { my $n = shift; eval { deeper($n) } },
    sub { my $n = shift; eval { deeper($n); 1 } or 0 },
    sub { my $n = shift; eval { eval { deeper($n) }; die 1 }; deeper($n - 1) },
    sub { my $n = shift; eval "deeper(\$n)" },
    sub { my $n = shift; eval "\n\n1 +\ndeeper(\$n)" },
    sub { my $n = shift; eval "sub { deeper(\$_[0]) }"->($n) },
    sub { my $n = shift; eval "#line 77 \"given.pl\"\ndeeper(\$n);" },
    sub { $left = shift; eval "BEGIN { deeper(\$left) } 1" },
    sub { $left = shift; eval "use strict; BEGIN { eval { deeper(\$left) } }\n\nBEGIN { 1 }" },
    sub { $left = shift; eval "UNITCHECK { deeper(\$left) } 1" },
    sub { $left = shift; eval "package Object; sub attributed :Given { } 1" },
    sub { $left = shift; eval q[BEGIN { require overload; overload::constant(integer => sub { main::deeper($left) if $left; $left = 0; 1 }) } my $x = 12; 1] },
    sub { $given{n} = shift; my $done = do "done.pl"; $done },
    sub { $given{n} = shift; delete $INC{"Required.pm"}; require Required },
    sub { $given{n} = shift; delete $INC{"Required.pm"}; eval "use Required; 1" },
    sub { $given{n} = shift; delete $INC{"Required.pm"}; eval { require Required; 1 } },
    sub { my $n = shift; my $file = "Hooked${n}_" . tid() . "_" . $unique++ . ".pm"; require $file },
    sub { my $n = shift; try { deeper($n) } catch ($e) { 1 } },
    sub { my $n = shift; try { die 1 } catch ($e) { deeper($n) } },
    sub { my $n = shift; try { 1 } catch ($e) { 2 } finally { deeper($n) } },
    sub { my $n = shift; { defer { deeper($n) } 1 } 0 },
    sub { my $n = shift; { defer { my $x = 1; eval { deeper($n) } } 1 } 0 },
    sub { my $n = shift; eval { local $SIG{ALRM} = sub { deeper($n) }; kill ALRM => $$; my $i = 0; 1 while $i++ < 1000 } },
    sub { die_of(shift) },
    sub { my $n = shift; local $SIG{__WARN__} = sub { deeper($n) }; warn "so\n"; 0 },
    sub { my $n = shift; local $SIG{__WARN__} = sub { deeper($n) }; use warnings; my $x = undef . ""; 0 },
    sub { my $n = shift; local $SIG{__WARN__} = sub { deeper($n) }; eval "my \$x; my \$x; 1"; 0 },
    sub { my $n = shift; local $SIG{USR1} = sub { deeper($n) }; kill USR1 => $$; my $i = 0; $i++ while $i < 3; 0 },
    sub { my $n = shift; local $SIG{USR1} = "main::signaled"; $given{signaled} = $n; kill USR1 => $$; 0 },
    # sort and other callbacks
    sub { my $n = shift; my @x = sort { deeper($n) if $n; $n = 0; $a <=> $b } 2, 1, 3; 0 },
    sub { my $n = shift; my @x = sort { $n-- > 0 ? deeper($n) : 0 } 2, 1; 0 },
    sub { $left = shift; my @x = sort { by_number() } 2, 1; 0 },
    sub { $left = shift; my @x = sort { Object->method($left) if $left; $left = 0; by_number() } 2, 1; 0 },
    sub { my $n = shift; my @x = sort { eval { deeper($n) if $n; $n = 0 } } 2, 1; 0 },
    sub { my $n = shift; my @x = sort { eval 'deeper($n) if $n; $n = 0' } 2, 1; 0 },
    sub { $left = shift; my @x = sort by_number 2, 1; 0 },
    sub { return &deeper if our $in_sort; local $in_sort = 1; $left = shift; my @x = reverse sort by_arguments 2, 1; 0 }, # Perl crashes if it is nested
    sub { my $n = shift; my $by = sub { deeper($n) if $n; $n = 0; $a cmp $b }; my @x = sort $by 2, 1; 0 },
    sub { my $n = shift; my @x = sort { $a <=> $b } Number->new($n), Number->new(0); 0 },
    sub { my $n = shift; my @x = sort(Number->new($n), Number->new(0)); 0 },
    sub { my $n = shift; my @x = map { deeper($n) } 1; 0 },
    sub { my $n = shift; my @x = grep { deeper($n) } 1; 0 },
    sub { my $n = shift; deeper($n) for 1; 0 },
    sub { my $n = shift; List::Util::first { deeper($n) } 1 },
    sub { my $n = shift; List::Util::first { eval { deeper($n) } } 1 },
    sub { my $n = shift; List::Util::first(\&plain, $n); local $_ = $n; 0 },
    sub { my $n = shift; List::Util::any { plain($n) } 1 },
    sub { my $n = shift; List::Util::reduce { deeper($n) } 1, 2 },
    sub { my $n = shift; my @x = List::Util::pairmap { deeper($n) } 1, 2; 0 },
    sub { my $n = shift; List::Util::sum(Number->new($n), 1) },
    sub { my $n = shift; List::Util::max(Number->new($n), 1) },
    sub { $left = shift; Storable::dclone(bless {}, "Object"); 0 },
    sub { $left = shift; local $Data::Dumper::Freezer = "freezer"; Data::Dumper->new([bless {}, "Object"])->Dump; 0 },
    sub { my $n = shift; local $Data::Dumper::Sortkeys = sub { deeper($n); [] }; Data::Dumper->new([{a => 1}])->Dump; 0 },
    sub { my $n = shift; my $x = "abc"; $x =~ s/b/deeper($n)/e; 0 },
    sub { my $n = shift; my $x = "abc"; $x =~ s/b/'deeper($n)'/ee; 0 },
    sub { my $n = shift; return deeper($n) if our $in_pattern; local $in_pattern = 1; "abc" =~ /b(?{ deeper($n) })/; 0 },
    sub { my $n = shift; return deeper($n) if our $in_pattern; local $in_pattern = 1; "abc" =~ /b(?{ my $x = 1; eval { deeper($n) } })/; 0 },
    sub { my $n = shift; return deeper($n) if our $in_pattern; local $in_pattern = 1; "abc" =~ /b(??{ deeper($n); "c" })/; 0 },
    sub { my $n = shift; return deeper($n) if our $in_pattern; local $in_pattern = 1; my $code = qr/b(?{ deeper($n) })/; "abc" =~ /a$code/; 0 },
    sub { use re "eval"; return &deeper if our $in_pattern; local $in_pattern = 1; $given{n} = shift; my $code = 'b(?{ deeper($given{n}) })'; "abc" =~ /a$code/; 0 },
    sub { by_format(shift) },
    # destructors
    sub { my $o = Object->new(shift); undef $o; 0 },
    sub { my $o = Object->new(shift); 0 },
    sub { my $n = shift; { my $o = Object->new($n); } 0 },
    sub { Object->new(shift); 0 },
    sub { my $n = shift; eval { my $o = Object->new($n); die "so\n" }; 0 },
    sub { my $n = shift; eval { my $o = Object->new($n); die Object->new($n - 1) }; $@ = ""; 0 },
    sub { my @x = (Object->new(shift)); @x = (); 0 },
    sub { our $global = Object->new(shift); $global = 1; 0 },
    sub { local our $local = Object->new(shift); 0 },
    # tied variables
    sub { tie my $t, "Tied", shift; my $x = $t; 0 },
    sub { tie my $t, "Tied", shift; $t = 1; 0 },
    sub { tie my $t, "Tied", shift; my $x = "a" . $t; 0 },
    sub { tie my @t, "Tied", shift; my $x = $t[0]; 0 },
    sub { tie my @t, "Tied", shift; my $x = @t; 0 },
    sub { tie my @t, "Tied", shift; $_++ for @t; 0 },
    sub { tie my %t, "Tied", shift; my $x = exists $t{a}; 0 },
    sub { tie my %t, "Tied", shift; my @x = keys %t; 0 },
    sub { tie my %t, "Tied", shift; delete $t{a}; 0 },
    sub { tie *TIED, "Tied", shift; print TIED 1; untie *TIED if 0; 0 },
    sub { tie *TIED, "Tied", shift; my $x = <TIED>; 0 },
    sub { tie my $t, "Tied", shift; untie $t; 0 },
    sub { my $n = shift; our %h; tie %h, "Tied", 0; { local $h{a} = 1; my $t = tied(%h); $t->[0] = $n; undef $t; } 0 },
    # overloaded operators
    sub { my $o = Number->new(shift); my $x = $o + 1; 0 },
    sub { my $o = Number->new(shift); my $x = 1 - $o; 0 },
    sub { my $o = Number->new(shift); my $x = -$o; 0 },
    sub { my $o = Number->new(shift); my $x = "$o"; 0 },
    sub { my $o = Number->new(shift); if ($o) { return 0 } 1 },
    sub { my $o = Number->new(shift); my @x = @$o; 0 },
    sub { my $o = Number->new(shift); $o->(); 0 },
    sub { my $o = Number->new(shift); my $x = <$o>; 0 },
    sub { my $o = Number->new(shift); my $x = -e $o; 0 },
    sub { my $o = Number->new(shift); my $x = "a" =~ $o; 0 },
    sub { my $o = Number->new(shift); my $x = "a" =~ /^$o/; 0 },
    sub { my $o = Number->new(shift); my $x = $o; $x++; 0 },
    sub { my $o = Number->new(shift); my $x = eval { $o + 1 }; 0 },
    sub { $left = shift; Object->can("method"); 0 },
    # lines
    sub {
        my $n = shift;
        if ($n > 100) {
            return 1;
        }
        elsif (deeper($n) > 100) {
            return 2;
        } elsif (
            plain($n - 1)) {
            return 3;
        }
        return 0;
    },
    sub {
        my $n = shift;
        my %x = (
            a => 1,
            b => deeper($n),
            c => do { my $y = 1;
                      deeper($n - 1) },
        );
        return $n
            ? plain($n - 1)
            : 0;
    },
    sub {
        my ($n, $i) = (shift, 0);
        while (deeper($n)
               || $i++ < 1) {
            $n--;
        }
        for (my $k = 0; $k < 1; $k++) { deeper($n - 1) }
        do { plain($n - 2) } until 1;
        unless (deeper($n - 3)) { $i++ } else { $i-- }
        return 0;
    },
    sub { my $n = shift; for my $i (1 .. 2) { next if $i == 1; deeper($n); last } 0 },
    sub { my $n = shift; OUT: { my $leave = sub { no warnings; last OUT }; $leave->(); } deeper($n) },
    \&in_thread,
) }

sub signaled { deeper($given{signaled}) }

sub rounds { deeper(int rand 8) for 1 .. shift; 0 }

BEGIN { rounds(2) }
INIT { rounds(2) }
rounds($ARGV[1]);
our $last = Object->new(int rand 4);
END { rounds(2) }
