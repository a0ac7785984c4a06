# Bench::Compare: what changed between two sets of results beyond the noise.
#
# Runs are paired by what they measured (%IDENTITY).  Where the conditions of a pair
# differ (%CONDITIONS: sizes, settings), it is named and not judged.
#
# What is judged.  A shared machine is twice as fast on one day as on another, so times
# of different sets are never compared with each other: a time or a rate becomes a
# ratio to a yardstick measured in the same round, which is the ceiling, the built-in
# worker, the asynchronous rate, or what the publisher itself took.  Bytes (WAL,
# memory) do not depend on the speed and are compared as they are.  Times and rates
# themselves are shown, not judged.
#
# What is noise.  A figure is better or worse only if the medians differ by more than
# a floor (%FIGURES), for systematic differences between two days, and
#	below 5 runs on a side (3 at least): the two ranges do not overlap, and the
#	medians differ by more than both ranges together; ranges alone would be
#	disjoint by chance in one of ten pairs of 3 runs, this is so in one of 70;
#	from 5 runs on: the exact rank test of Mann and Whitney, two-sided, says
#	p < 0.01, and the floor.
# With fewer than 3 runs on a side there is no verdict.  Where hundreds of figures are
# compared, about one in a hundred passes by chance: a real change shows in several
# of its neighbours, or again in a second run.

package Bench::Compare;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(uniq min max);

use Bench::Report qw(median markdown);
use Bench::Results qw(values_of);

our @EXPORT_OK = qw(compare verdict report count_worse);

use constant {
	LEAST_RUNS => 3,
	RANK_RUNS  => 5,
	P_LIMIT    => 0.01,
};

my @IDENTITY = qw(benchmark sweep x workload case percent tables rows_per_table busy sync_workers
  clients mode load_percent contender streaming profile);

my @CONDITIONS = qw(rows scale cores machine);

# Options that change what a figure means.
my @OPTIONS = qw(SECONDS LOAD_SECONDS SAMPLES PRELOAD);

# Where the number of transactions was chosen, not measured.
my %COUNTED = map { ($_ => 1) } qw(drain sweep);

# Yardsticks: a run's partner in the same round.
my $CEILING = sub { return { contender => 'ceiling' }; };
my $BUILTIN = sub { return { contender => 'builtin', streaming => 'off' }; };

# Figures by benchmark: [ name, good direction (1: more, -1: less), floor (of the
# median), field or code, yardstick (none: as it is) ].
my %FLOOR = (speed => 0.10, cpu => 0.10, wal => 0.03, memory => 0.15, latency => 0.15, tail => 0.30);
my @DRAIN = (
	[ 'speed / ceiling',       1,  $FLOOR{speed},  'tps',                    $CEILING ],
	[ 'speed / built-in',      1,  $FLOOR{speed},  'tps',                    $BUILTIN ],
	[ 'CPU / built-in',        -1, $FLOOR{cpu},    'cpu_us_per_transaction', $BUILTIN ],
	[ 'WAL bytes / change',    -1, $FLOOR{wal},    'wal_bytes_per_change' ],
	[ 'private memory, bytes', -1, $FLOOR{memory}, 'private_memory_bytes' ],
	[ 'peak memory, bytes',    -1, $FLOOR{memory}, 'peak_memory_bytes' ],
);
my %FIGURES = (
	drain => \@DRAIN,
	sweep => \@DRAIN,
	sync  => [
		[ 'rate / asynchronous', 1, $FLOOR{speed}, 'ratio_to_async' ],
		[ 'rate / built-in',     1, $FLOOR{speed}, 'tps', $BUILTIN ],
	],
	latency => [
		[ 'p50 / built-in', -1, $FLOOR{latency}, 'median_ms', $BUILTIN ],
		[ 'p95 / built-in', -1, $FLOOR{tail},    'p95_ms',    $BUILTIN ],
		[ 'p99 / built-in', -1, $FLOOR{tail},    'p99_ms',    $BUILTIN ],
	],
	stream => [
		[ 'time / built-in',          -1, $FLOOR{speed},  'seconds', $BUILTIN ],
		[ 'time / publisher\'s',      -1, $FLOOR{speed},  \&beside_publisher ],
		[ 'WAL bytes',                -1, $FLOOR{wal},    'wal_bytes' ],
		[ 'peak memory, bytes',       -1, $FLOOR{memory}, 'peak_memory_bytes' ],
	],
	copy => [ [ 'time / built-in', -1, $FLOOR{speed}, 'seconds', $BUILTIN ] ],
	full => [
		[ 'time / built-in',     -1, $FLOOR{speed}, 'seconds', $BUILTIN ],
		[ 'time / publisher\'s', -1, $FLOOR{speed}, \&beside_publisher ],
	],
);

# Shown, not judged.
my %SHOWN = (
	drain => [ 'txn/s', 'tps' ], sweep => [ 'txn/s', 'tps' ], sync => [ 'txn/s', 'tps' ],
	latency => [ 'p50 ms', 'median_ms' ], stream => [ 's', 'seconds' ], copy => [ 's', 'seconds' ],
	full => [ 's', 'seconds' ],
);

sub beside_publisher
{
	my ($run) = @_;
	return unless $run->{publisher_seconds};
	return $run->{seconds} / $run->{publisher_seconds};
}

sub identity
{
	my ($run) = @_;
	return join ', ', map { name_part($_, $run->{$_}) } grep { ($run->{$_} // '') ne '' } @IDENTITY;
}

# "K1", "builtin" speak for themselves, "x 4" and "busy 1" need their name.
sub name_part
{
	my ($field, $value) = @_;
	return $value if $field =~ /^(?:benchmark|sweep|workload|case|contender|mode)$/;
	return () if $field eq 'profile' && $value eq 'memory';
	return () if $field eq 'streaming' && $value eq 'off';
	return "$field $value";
}

# Conditions that must be the same: {name => values}.
sub conditions
{
	my (@runs) = @_;
	my %condition;
	my @fields = (@CONDITIONS, $COUNTED{ $runs[0]{benchmark} } ? 'transactions' : ());
	$condition{$_} = join ' ', sort { $a cmp $b } values_of($_, @runs) for @fields;
	for my $name (@OPTIONS)
	{
		$condition{"option $name"} = join ' ', sort { $a cmp $b } uniq map { $_->{options}{$name} // '' } @runs;
	}
	my @settings = map { my $run = $_; +{ %{ $run->{settings} // {} }, server_settings($run) } } @runs;
	for my $name (uniq map { keys %$_ } @settings)
	{
		$condition{"setting $name"} = join ' ', sort { $a cmp $b } uniq map { $_->{$name} // '' } @settings;
	}
	return \%condition;
}

# Of both nodes, as one list.
sub server_settings
{
	my ($run) = @_;
	my $of = $run->{server_settings} // {};
	return map { my $node = $_; map { ("$node $_" => $of->{$node}{$_}) } keys %{ $of->{$node} } } keys %$of;
}

# Differences between the conditions of two sides, as text.  What one side does not
# tell (an older version of the benchmark) is no difference.
sub different
{
	my ($old, $new) = map { conditions(@$_) } @_;
	return map { "$_ $old->{$_} -> $new->{$_}" }
	  grep { ($new->{$_} // '') ne '' && $old->{$_} ne '' && $old->{$_} ne $new->{$_} } sort keys %$old;
}

# What identifies a run without its contender and streaming, and its round.
sub place
{
	my ($run) = @_;
	return join "\t", $run->{round}, map { $run->{$_} // '' }
	  grep { !/^(?:contender|streaming|x)$/ } @IDENTITY;
}

# The value of a figure in every one of RUNS; PARTNERS: all runs by place.
sub figure_values
{
	my ($figure, $runs, $partners) = @_;
	my (undef, undef, undef, $field, $yardstick) = @$figure;
	my @values;
	for my $run (@$runs)
	{
		my $value = ref $field ? $field->($run) : $run->{$field};
		next unless defined $value;
		if ($yardstick)
		{
			my $partner = partner($run, $yardstick->(), $partners->{ place($run) });
			next unless $partner && $partner->{$field};
			$value /= $partner->{$field};
		}
		push @values, $value;
	}
	return @values;
}

# The run that is the yardstick of RUN, if it is another one.  In sweeps whose points
# share a backlog it has no x.
sub partner
{
	my ($run, $wanted, $others) = @_;
	my @found = grep {
		$_->{contender} eq $wanted->{contender}
		  && ($_->{streaming} // 'off') eq ($wanted->{streaming} // $_->{streaming} // 'off')
	} @{ $others // [] };
	my ($same) = grep { ($_->{x} // '') eq ($run->{x} // '') } @found;
	($same) = grep { !defined $_->{x} } @found unless $same;
	return if !$same || $same == $run;
	return $same;
}

# Two-sided probability that ranks are as far apart as these, or further, if nothing
# changed: the exact distribution of the statistic of Mann and Whitney.
sub rank_test
{
	my ($old, $new) = @_;
	my $u = 0;
	for my $x (@$old)
	{
		$u += $x < $_ ? 1 : $x == $_ ? 0.5 : 0 for @$new;
	}
	my ($m, $n) = (scalar @$old, scalar @$new);
	$u = min($u, $m * $n - $u);
	my @ways = arrangements($m, $n);
	my ($all, $extreme) = (0, 0);
	for my $i (0 .. $#ways)
	{
		$all     += $ways[$i];
		$extreme += $ways[$i] if $i <= $u;
	}
	return min(1, 2 * $extreme / $all);
}

# How many orders of M and N values have the statistic 0, 1, ..., M * N.
my %arrangements;

sub arrangements
{
	my ($m, $n) = @_;
	return (1) if $m == 0 || $n == 0;
	return @{ $arrangements{"$m,$n"} //= do
		{
			my @ways = arrangements($m, $n - 1);
			my @more = arrangements($m - 1, $n);
			$ways[ $_ + $n ] += $more[$_] for 0 .. $#more;
			[ map { $_ // 0 } @ways ];
		}
	};
}

# "better", "worse", "noise" or "few runs".  GOOD: 1 if more is better, else -1.
sub verdict
{
	my ($old, $new, $good, $floor) = @_;
	return 'few runs' if @$old < LEAST_RUNS || @$new < LEAST_RUNS;
	my ($before, $after) = (median(@$old), median(@$new));
	my $change = $after - $before;
	return 'noise' if abs($change) <= $floor * abs($before);
	if (@$old >= RANK_RUNS && @$new >= RANK_RUNS)
	{
		return 'noise' if rank_test($old, $new) >= P_LIMIT;
	}
	else
	{
		return 'noise' if max(@$old) >= min(@$new) && max(@$new) >= min(@$old);
		return 'noise' if abs($change) <= max(@$old) - min(@$old) + max(@$new) - min(@$new);
	}
	return $change * $good > 0 ? 'better' : 'worse';
}

sub by_place
{
	my %runs;
	push @{ $runs{ place($_) } }, $_ for @_;
	return \%runs;
}

# {lines => [ { name, figure, old, new, verdict } ], only_old, only_new, not_comparable
# => [ names ]} of two lists of records.
sub compare
{
	my ($old_runs, $new_runs) = @_;
	my (%old, %new);
	push @{ $old{ identity($_) } }, $_ for @$old_runs;
	push @{ $new{ identity($_) } }, $_ for @$new_runs;
	my @names = uniq map { identity($_) } @$old_runs, @$new_runs;
	my %result = (
		only_old => [ grep { !$new{$_} } @names ],
		only_new => [ grep { !$old{$_} } @names ],
		lines    => [], not_comparable => []);
	my @partners = (by_place(@$old_runs), by_place(@$new_runs));
	for my $name (grep { $old{$_} && $new{$_} } @names)
	{
		if (my @different = different($old{$name}, $new{$name}))
		{
			push @{ $result{not_comparable} }, "$name: " . join ', ', @different;
			next;
		}
		push @{ $result{lines} }, compare_pair($name, $old{$name}, $new{$name}, @partners);
	}
	return \%result;
}

sub compare_pair
{
	my ($name, $old, $new, $old_partners, $new_partners) = @_;
	my $benchmark = $old->[0]{benchmark};
	my @lines;
	for my $figure (@{ $FIGURES{$benchmark} // [] })
	{
		my @old = figure_values($figure, $old, $old_partners) or next;
		my @new = figure_values($figure, $new, $new_partners) or next;
		push @lines, { name => $name, figure => $figure->[0], old => \@old, new => \@new,
			verdict => verdict(\@old, \@new, @$figure[ 1, 2 ]) };
	}
	if (my $shown = $SHOWN{$benchmark})
	{
		my @both = map { [ figure_values([ $shown->[0], 0, 0, $shown->[1] ], $_, {}) ] } $old, $new;
		push @lines, { name => $name, figure => $shown->[0], old => $both[0], new => $both[1],
			verdict => 'not judged' }
		  if @{ $both[0] } && @{ $both[1] };
	}
	return @lines;
}

sub count_worse
{
	my ($result) = @_;
	return scalar grep { $_->{verdict} eq 'worse' } @{ $result->{lines} };
}

sub spread_text
{
	my (@values) = @_;
	my $median = median(@values);
	my $format = $median >= 1000 ? '%.0f' : $median >= 10 ? '%.1f' : '%.3f';
	return sprintf "$format ($format-$format)", $median, min(@values), max(@values);
}

sub line_text
{
	my ($line) = @_;
	my ($before, $after) = map { median(@$_) } @$line{qw(old new)};
	my $change = $before ? sprintf('%+.1f %%', 100 * ($after / $before - 1)) : '-';
	my $verdict = $line->{verdict} eq 'noise' ? 'within noise' : $line->{verdict};
	return [ @$line{qw(name figure)}, spread_text(@{ $line->{old} }), spread_text(@{ $line->{new} }),
		$change, $verdict ];
}

# The comparison as Markdown; ALL: with what did not change and what is not judged.
sub report
{
	my ($result, $all) = @_;
	my @lines  = @{ $result->{lines} };
	my %count;
	$count{ $_->{verdict} }++ for @lines;
	my @shown = $all ? @lines : grep { $_->{verdict} =~ /^(?:better|worse)$/ } @lines;
	my @head = ('what', 'figure', 'old: median (min-max)', 'new', 'change', 'verdict');
	my $text = '';
	$text .= markdown(2, \@head, map { line_text($_) } @shown) . "\n" if @shown;
	$text .= sprintf "%d figures judged: %d worse, %d better, %d within noise; %d with fewer than %d runs.\n",
	  (grep { $_->{verdict} =~ /^(?:better|worse|noise)$/ } @lines) + 0,
	  (map { $count{$_} // 0 } qw(worse better noise), 'few runs'), LEAST_RUNS;
	$text .= "About one in a hundred is worse or better by chance: measure again what stands alone.\n"
	  if $count{worse} || $count{better};
	for my $list ([ 'only_old', 'Only in the old results' ], [ 'only_new', 'Only in the new results' ],
		[ 'not_comparable', 'Measured under other conditions, not compared' ])
	{
		my ($key, $heading) = @$list;
		my @names = @{ $result->{$key} } or next;
		$text .= "\n$heading:\n" . join '', map { "- $_\n" } @names;
	}
	return $text;
}

1;
