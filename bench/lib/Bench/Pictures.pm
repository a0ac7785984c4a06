# Bench::Pictures: which pictures show the records of a benchmark.
#
# Every function takes records of one benchmark and returns pictures as Bench::Plot
# draws them.  All show medians with the least and the greatest value.  Times and
# ratios start at 0, or at 1 on a logarithmic axis, so that bars do not exaggerate.

package Bench::Pictures;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(max min);

use Bench::Curves qw(latency_pictures sweep_pictures stream_pictures copy_pictures);
use Bench::PictureParts qw(labels spread3 values_for legend grouped_bars line_at);
use Bench::Plot qw(contender_colour role_colour);
use Bench::Report qw(median ratios);
use Bench::Results qw(of_benchmark values_of where);

our @EXPORT_OK = qw(pictures);

my %PICTURES = (
	drain   => \&drain_pictures,
	sync    => \&sync_pictures,
	latency => \&latency_pictures,
	sweep   => \&sweep_pictures,
	stream  => \&stream_pictures,
	copy    => \&copy_pictures,
	full    => \&full_pictures,
);

# Parts of the CPU time of a drain, from below: [ text, role, figure of a record ].
my @ROLES = (
	[ 'leader',                'leader',    \&leader_us ],
	[ 'workers',               'workers',   sub { $_[0]{workers_us_per_transaction} // 0 } ],
	[ 'WAL writer',            'walwriter', sub { $_[0]{walwriter_us_per_transaction} // 0 } ],
	[ 'other processes',       'others',    \&others_us ],
	[ 'walsender (publisher)', 'walsender', sub { $_[0]{walsender_us_per_transaction} // 0 } ],
);

sub pictures
{
	my ($benchmark, @records) = @_;
	my $make  = $PICTURES{$benchmark}                or return;
	my @of_it = of_benchmark($benchmark, @records) or return;
	my @pictures = grep { $_ } $make->(@of_it);
	$_->{note} //= note(@of_it) for @pictures;
	return @pictures;
}

sub note
{
	my (@records) = @_;
	my ($cores) = values_of('cores', @records);
	my ($version) = ($records[0]{postgresql} // '') =~ /([\d.]+)/;
	my @commits = values_of('commit', @records);
	return sprintf 'Medians, with the least and the greatest value; PostgreSQL %s, %s cores, commit %s',
	  $version // '?', $cores // '?', @commits ? join(', ', @commits) : '?';
}

# A dashed level with its spread, the latter at X.
sub level_across
{
	my ($x, $median, $low, $high) = @_;
	my $style = "lw 2 lc rgb '" . contender_colour('ceiling') . "'";
	return "set arrow 2 from graph 0, first $median to graph 1, first $median nohead dt 2 $style; "
	  . "set arrow 3 from $x, $low to $x, $high heads size graph 0.01, 90 fixed $style";
}

sub drain_pictures
{
	my (@runs) = @_;
	return (speed_picture(@runs), share_picture(@runs), ratio_picture(@runs), cpu_picture(@runs));
}

# Transactions per second: a panel for each workload, as they differ by orders.
sub speed_picture
{
	my (@runs) = @_;
	my @labels = grep { $_ ne 'ceiling' } labels(@runs);
	my @panels;
	for my $workload (values_of('workload', @runs))
	{
		my @of_it = where({ workload => $workload }, @runs);
		my @bars;
		for my $i (0 .. $#labels)
		{
			my @three = spread3(values_for($labels[$i], 'tps', @of_it)) or next;
			push @bars, [ $i + 1, @three, 0.85, contender_colour($labels[$i]) ];
		}
		my @ceiling = spread3(values_for('ceiling', 'tps', @of_it));
		my $top = 1.02 * max($ceiling[2] // 0, map { $_->[3] } @bars);
		push @panels, { title => $workload, ticks => [], series => [ { bars => \@bars } ],
			ylabel => @panels % 4 ? '' : 'transactions/s',
			setup  => join '; ', 'set xrange [0.4:' . (@labels + 0.6) . ']', "set yrange [0:$top]",
			@ceiling ? level_across(@labels + 0.4, @ceiling) : () };
	}
	return {
		name => 'drain-speed', kind => 'bars', title => 'Draining a backlog: transactions per second',
		legend => [ @{ legend(@labels) },
			[ "ceiling (dashed): the publisher's decoding", contender_colour('ceiling') ] ],
		columns => 4, wide => 200, high => 150, gap_y => 55, bottom => 50, panels => \@panels,
	};
}

sub share_picture
{
	my (@runs) = @_;
	my @labels = grep { $_ ne 'ceiling' } labels(@runs);
	return unless grep { defined $_->{share_of_ceiling} } @runs;
	my %panel = grouped_bars([ values_of('workload', @runs) ], \@labels, sub {
		return values_for($_[1], 'share_of_ceiling', where({ workload => $_[0] }, @runs));
	}, 1);
	$panel{setup} .= '; ' . line_at(1);
	return wide_picture('drain-ceiling',
		"Draining a backlog: share of the ceiling (the publisher's decoding speed)",
		\@labels, { %panel, ylabel => 'speed / ceiling' });
}

# Ratios to built-in, taken inside a round.
sub ratio_picture
{
	my (@runs) = @_;
	my @labels = grep { !/^(?:ceiling|builtin)$/ } labels(@runs);
	my %panel = grouped_bars([ values_of('workload', @runs) ], \@labels, sub {
		return ratios($_[1], 'builtin', 'tps', where({ workload => $_[0] }, @runs));
	});
	return unless @{ $panel{series}[0]{bars} };
	return log_ratio_picture('drain-ratio', 'Draining a backlog: speed beside the built-in worker\'s',
		\@labels, { %panel, ylabel => 'speed / built-in (log)' });
}

sub wide_picture
{
	my ($name, $title, $labels, @panels) = @_;
	return { name => $name, kind => 'bars', title => $title, legend => legend(@$labels), columns => 1,
		wide => 950, panels => \@panels };
}

# Bars up and down from 1, on an axis of powers of two.
sub log_ratio_picture
{
	my ($name, $title, $labels, $panel) = @_;
	my @ends = map { @$_[ 2, 3 ] } @{ $panel->{series}[0]{bars} };
	my $low  = 0.9 * min(0.8, @ends);
	my $high = 1.1 * max(1.4, @ends);
	my @ticks = map { "'$_' $_" } grep { $_ >= $low && $_ <= $high }
	  0.125, 0.25, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64;
	$panel->{setup} =~ s/set yrange \S+$/set logscale y 2; set yrange [$low:$high]/;
	$panel->{setup} .= '; set ytics (' . join(', ', @ticks) . '); ' . line_at(1);
	return { %{ wide_picture($name, $title, $labels, $panel) }, base => 1 };
}

# Old records know no roles.
sub leader_us
{
	my ($run) = @_;
	return $run->{leader_us_per_transaction} // $run->{apply_us_per_transaction};
}

sub others_us
{
	my ($run) = @_;
	return 0 unless defined $run->{cpu_us_per_transaction};
	my $rest = $run->{cpu_us_per_transaction};
	$rest -= $ROLES[$_][2]->($run) // 0 for 0 .. 2;
	return max(0, $rest);
}

sub all_us
{
	my ($run) = @_;
	return unless defined $run->{cpu_us_per_transaction};
	return $run->{cpu_us_per_transaction} + ($run->{walsender_us_per_transaction} // 0);
}

# The medians of the parts are not exactly the parts of the median: near enough.
sub cpu_picture
{
	my (@runs) = @_;
	my @measured = grep { defined $_->{cpu_us_per_transaction} } @runs or return;
	my @panels;
	for my $workload (values_of('workload', @measured))
	{
		my @of_it = where({ workload => $workload }, @measured);
		my @labels = labels(@of_it);
		my (@parts, @sums, @ticks);
		for my $i (0 .. $#labels)
		{
			my $sum = 0;
			push @ticks, [ $labels[$i], $i + 1 ];
			for my $role (@ROLES)
			{
				my @values = values_for($labels[$i], $role->[2], @of_it) or next;
				my $us = median(@values);
				push @parts, [ $i + 1, $sum, $sum + $us, 0.4, role_colour($role->[1]) ];
				$sum += $us;
			}
			my @three = spread3(values_for($labels[$i], \&all_us, @of_it));
			push @sums, [ $i + 1, @three ] if @three;
		}
		push @panels, { title => $workload, ticks => \@ticks, turned => 1,
			series => [ { parts => \@parts }, { points => \@sums } ],
			ylabel => @panels % 4 ? '' : "\x{b5}s / transaction",
			setup => 'set xrange [0.4:' . (@labels + 0.6) . ']; set yrange [0:*]' };
	}
	return {
		name => 'drain-cpu', kind => 'stacked', title => 'CPU time per transaction, by role',
		legend => [ map { [ $_->[0], role_colour($_->[1]) ] } @ROLES ],
		columns => 4, wide => 200, high => 150, gap_y => 85, panels => \@panels,
	};
}

# The rate of a publisher that waits, beside that of one that does not: in memory, on disk.
sub sync_pictures
{
	my (@runs) = @_;
	return map { sync_picture($_, where({ profile => $_ }, @runs)) } values_of('profile', @runs);
}

sub sync_picture
{
	my ($profile, @runs) = @_;
	my @labels = labels(@runs);
	my @panels;
	for my $clients (sort { $a <=> $b } values_of('clients', @runs))
	{
		my @of_it = where({ clients => $clients }, @runs);
		my @modes = grep { $_ ne 'async' } values_of('mode', @of_it) or next;
		my %panel = grouped_bars(\@modes, \@labels, sub {
			return values_for($_[1], 'ratio_to_async', where({ mode => $_[0] }, @of_it));
		}, 1);
		$panel{setup} .= '; ' . line_at(1);
		push @panels, { %panel, title => "$clients clients", xlabel => 'synchronous_commit of the publisher',
			ylabel => @panels ? '' : 'transactions/s / asynchronous' };
	}
	return unless @panels;
	return { name => $profile =~ tr/ /-/r, kind => 'bars',
		title => 'A synchronous subscriber: share of the asynchronous rate'
		  . ($profile eq 'sync' ? '' : " ($profile)"), legend => legend(@labels), panels => \@panels };
}

sub full_pictures
{
	my (@runs) = @_;
	my @labels = labels(@runs);
	my ($rows) = values_of('rows', @runs);
	my %panel = grouped_bars([ values_of('case', @runs) ], \@labels, sub {
		return values_for($_[1], sub { 1000 * $_[0]{seconds} }, where({ case => $_[0] }, @runs));
	});
	return { name => 'full', kind => 'bars', legend => legend(@labels), wide => 700,
		title => "REPLICA IDENTITY FULL: $rows rows updated in one transaction",
		panels => [ { %panel, ylabel => 'ms from COMMIT until applied' } ] };
}

1;
