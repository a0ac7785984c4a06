# Bench::Report: medians, the Markdown tables, and the targets of the issues.

package Bench::Report;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(uniq);

our @EXPORT_OK = qw(median percentile spread middle markdown figures ratios drain_tables drain_targets
  sync_table sync_targets latency_table latency_targets);

# Targets on the 2-core machine: workload, contender, figure, whom to compare
# with, limit.  The figures are those of the records.
my @TARGETS = (
	# Serial mode (issue 2).
	(map { [ $_, 'serial', 'tps', 'ceiling', '>=', 0.85 ] } qw(K1 H10 indep ins1 pgbench)),
	(map { [ $_, 'serial', 'tps', 'builtin', '>=', 1.3 ] } qw(K1 H10 ins1)),
	[ 'K1',    'serial', 'cpu_us_per_transaction', 'builtin', '<=', 0.55 ],
	[ 'H10',   'serial', 'cpu_us_per_transaction', 'builtin', '<=', 0.4 ],
	[ 'ins1',  'serial', 'cpu_us_per_transaction', 'builtin', '<=', 0.4 ],
	[ 'K1000', 'serial', 'cpu_us_per_transaction', 'builtin', '<=', 0.65 ],
	[ 'K1',    'serial', 'wal_bytes_per_change',   'builtin', '<=', 0.8 ],

	# Parallel apply (issue 3).
	(map { [ $_, 'ours4', 'tps', 'serial', '>=', 0.9 ] } qw(K1 H1 H10 indep ins1 pgbench)),
	(   map { [ $_, 'ours4', 'tps', 'builtin', '>=', 1.0 ] }
		  qw(K1 K10 K100 K1000 H1 H10 H100 H10000 indep ins1 ins100 pgbench S1)
	),
	[ 'wide',    'ours4', 'tps', 'builtin', '>=', 1.8 ],
	[ 'wide',    'ours4', 'tps', 'serial',  '>=', 1.25 ],
	[ 'cold',    'ours8', 'tps', 'serial',  '>=', 2.2 ],
	[ 'syncK1',  'ours4', 'tps', 'builtin', '>=', 2.5 ],
	[ 'syncK1g', 'ours4', 'tps', 'builtin', '>=', 8 ],
);

my %MEANING = (
	tps                    => 'transactions per second',
	cpu_us_per_transaction => 'CPU of all subscriber processes per transaction',
	wal_bytes_per_change   => 'WAL per change',
);

# Counters of our view that are shown as one figure, where the library has them.
my @RETRIES = qw(group_replays retries_missing retries_unique retries_deadlock retries_other);

# The P-th percentile (0 to 100) by linear interpolation.
sub percentile
{
	my ($p, @values) = @_;
	my @sorted = sort { $a <=> $b } @values;
	my $at = $p / 100 * (@sorted - 1);
	my $low = int $at;
	my $high = $low < $#sorted ? $low + 1 : $low;
	return $sorted[$low] + ($at - $low) * ($sorted[$high] - $sorted[$low]);
}

sub median { my (@values) = @_; return percentile(50, @values); }

# "median (min-max)", or "-" without values
sub spread
{
	my ($format, @values) = @_;
	return '-' unless @values;
	my @sorted = sort { $a <=> $b } @values;
	return sprintf "$format ($format-$format)", median(@sorted), $sorted[0], $sorted[-1];
}

# The median, or "-" without values
sub middle
{
	my ($format, @values) = @_;
	return @values ? sprintf($format, median(@values)) : '-';
}

# A Markdown table from HEAD and lines of cells; the first COUNT columns are text.
sub markdown
{
	my ($count, $head, @lines) = @_;
	my @rule = (('---') x $count, ('---:') x (@$head - $count));
	return join '', map { '| ' . join(' | ', @$_) . " |\n" } $head, \@rule, @lines;
}

# The values of one figure of a contender, one a round.
sub figures
{
	my ($name, $figure, @runs) = @_;
	return grep { defined } map { $_->{$figure} } grep { $_->{contender} eq $name } @runs;
}

# Ratios of a figure between two contenders, taken inside a round, then seen
# together: the machine's speed changes more between rounds than within one.
sub ratios
{
	my ($name, $other, $figure, @runs) = @_;
	my %of = map { ($_->{round} => $_->{$figure}) } grep { $_->{contender} eq $other } @runs;
	return map { $_->{$figure} / $of{ $_->{round} } }
	  grep { defined $_->{$figure} && $of{ $_->{round} } } grep { $_->{contender} eq $name } @runs;
}

# The median over the runs of a counter of our view (several: their sum).
sub counter
{
	my ($name, $columns, @runs) = @_;
	my @values;
	for my $run (grep { $_->{contender} eq $name && $_->{extension} } @runs)
	{
		my @there = grep { defined } @{ $run->{extension} }{@$columns};
		next unless @there;
		my $sum = 0;
		$sum += $_ for @there;
		push @values, $sum;
	}
	return middle('%.0f', @values);
}

sub speed_line
{
	my ($workload, $name, @runs) = @_;
	return [ $workload, $name, spread('%.0f', figures($name, 'tps', @runs)),
		middle('%.2f', figures($name, 'seconds', @runs)),
		map { $_ eq $name ? '1' : spread('%.2f', ratios($name, $_, 'tps', @runs)) }
		  qw(ceiling builtin serial) ];
}

sub cost_line
{
	my ($workload, $name, @runs) = @_;
	return [
		$workload, $name,
		(map { middle('%.1f', figures($name, "${_}_us_per_transaction", @runs)) }
			  qw(cpu leader workers walwriter walsender)),
		($name eq 'builtin' ? '1' : spread('%.2f', ratios($name, 'builtin', 'cpu_us_per_transaction', @runs))),
		middle('%.0f', figures($name, 'wal_bytes_per_change', @runs)),
		($name eq 'builtin' ? '1' : middle('%.2f', ratios($name, 'builtin', 'wal_bytes_per_change', @runs))),
		join(' / ', map { middle('%.0f', map { $_ / 1e6 } figures($name, "${_}_memory_bytes", @runs)) }
			  qw(peak private)),
		middle('%.0f', figures($name, 'workers_seen', @runs)),
		middle('%.0f', figures($name, 'local_commits', @runs)),
		middle('%.1f', figures($name, 'transactions_per_group', @runs)),
		(map { counter($name, $_, @runs) } ['dependency_waits'], ['turn_waits'], \@RETRIES) ];
}

# Runs by what they drained: [ name, runs ... ].  The same workload in tables of another
# size is another one.
sub by_workload
{
	my (@runs) = @_;
	my (@names, %of);
	for my $run (@runs)
	{
		my ($workload, $rows) = ($run->{workload}, $run->{rows} // '');
		my $several = grep { $_->{workload} eq $workload && ($_->{rows} // '') ne $rows } @runs;
		my $name = $several ? "$workload ($rows rows)" : $workload;
		push @names, $name unless $of{$name};
		push @{ $of{$name} }, $run;
	}
	return map { [ $_, @{ $of{$_} } ] } @names;
}

# Markdown tables of all runs, in the order in which they were made.
sub drain_tables
{
	my (@runs) = @_;
	my (@speed, @cost);
	my @contenders = sort { ($a ne 'ceiling') <=> ($b ne 'ceiling') } uniq map { $_->{contender} } @runs;
	for my $group (by_workload(@runs))
	{
		my ($workload, @of_it) = @$group;
		for my $name (@contenders)
		{
			next unless grep { $_->{contender} eq $name } @of_it;
			push @speed, speed_line($workload, $name, @of_it);
			push @cost, cost_line($workload, $name, @of_it) if $name ne 'ceiling';
		}
	}
	return markdown(2, [ 'workload', 'contender', 'txn/s', 's', '/ ceiling', '/ built-in', '/ serial' ], @speed)
	  . "\nCPU in us per transaction; memory in MB, largest resident (with shared) and private at the end; workers seen at the end:\n\n"
	  . markdown(2, [
			'workload', 'contender', 'CPU', 'leader', 'workers', 'WAL writer', 'walsender', 'CPU / built-in',
			'WAL B/change', '/ built-in', 'memory', 'workers seen', 'local commits', 'txn/group', 'dependency waits',
			'turn waits', 'retries' ], @cost);
}

# One line per target for which there are runs.
sub drain_targets
{
	my (@runs) = @_;
	my $text = '';
	for my $target (@TARGETS)
	{
		my ($workload, $name, $figure, $other, $relation, $limit) = @$target;
		for my $group (by_workload(grep { $_->{workload} eq $workload } @runs))
		{
			my ($what, @of_it) = @$group;
			my @values = ratios($name, $other, $figure, @of_it) or next;
			my $value = median(@values);
			my $met = $relation eq '>=' ? $value >= $limit : $value <= $limit;
			$text .= sprintf "- %s: %s: %s, %s / %s %s %.2f: %.3f\n", $met ? 'met' : 'missed', $what,
			  $MEANING{$figure}, $name, $other, $relation, $limit, $value;
		}
	}
	return $text;
}

# Synchronous replication: the rate of each mode beside that of waiting for nobody: of
# the same contender in the same turn, and of the built-in worker in the same round.
sub sync_table
{
	my (@runs) = @_;
	my @lines;
	for my $group (by_setting(@runs))
	{
		my ($where, $clients, @of_it) = @$group;
		my @free = map { { %$_, contender => 'free' } }
		  grep { $_->{mode} eq 'async' && $_->{contender} eq 'builtin' } @of_it;
		for my $mode (sort { $a cmp $b } uniq map { $_->{mode} } @of_it)
		{
			my @of_mode = grep { $_->{mode} eq $mode } @of_it;
			push @lines, map { [ "$clients$where", $mode, sync_line($_, \@free, @of_mode) ] }
			  uniq map { $_->{contender} } @of_mode;
		}
	}
	return markdown(3, [ 'clients', 'mode', 'contender', 'txn/s', '/ async', '/ async built-in', '/ built-in',
			'CPU us', 'latency ms', 'then behind s' ], @lines);
}

# Runs in memory and on disk, by number of clients: [ where, clients, runs ... ].
sub by_setting
{
	my (@runs) = @_;
	my @groups;
	for my $profile (uniq map { $_->{profile} } @runs)
	{
		my $where = $profile eq 'sync' ? '' : ", $profile" =~ s/sync //r;
		for my $clients (sort { $a <=> $b } uniq map { $_->{clients} } @runs)
		{
			my @of_it = grep { $_->{profile} eq $profile && $_->{clients} == $clients } @runs;
			push @groups, [ $where, $clients, @of_it ] if @of_it;
		}
	}
	return @groups;
}

sub sync_line
{
	my ($name, $free, @runs) = @_;
	return ($name, spread('%.0f', figures($name, 'tps', @runs)),
		spread('%.2f', figures($name, 'ratio_to_async', @runs)),
		spread('%.2f', ratios($name, 'free', 'tps', @$free, @runs)),
		spread('%.2f', ratios($name, 'builtin', 'tps', @runs)),
		middle('%.0f', figures($name, 'cpu_us_per_transaction', @runs)),
		middle('%.2f', figures($name, 'latency_ms',       @runs)),
		middle('%.1f', figures($name, 'catch_up_seconds', @runs)));
}

# Issue 3: at least 0.85 of the asynchronous rate.
sub sync_targets
{
	my (@runs) = @_;
	my $text = '';
	for my $group (by_setting(@runs))
	{
		my ($where, $clients, @of_it) = @$group;
		for my $mode (qw(on remote_apply))
		{
			my @ratios = figures('ours4', 'ratio_to_async', grep { $_->{mode} eq $mode } @of_it) or next;
			$text .= sprintf "- %s: %d clients%s: %s, ours4 / async >= 0.85: %.3f\n",
			  median(@ratios) >= 0.85 ? 'met' : 'missed', $clients, $where, $mode, median(@ratios);
		}
	}
	return $text;
}

# The samples of turns in ms.
sub latencies { my (@turns) = @_; return map { $_ / 1000 } map { @{ $_->{latencies_us} } } @turns; }

# Latency by load and contender, the samples of all turns together; the median of each
# turn beside them tells how much the turns differ.
sub latency_table
{
	my (@turns) = @_;
	my @lines;
	for my $load (uniq map { $_->{load_percent} } @turns)
	{
		for my $name (uniq map { $_->{contender} } @turns)
		{
			my @of_it = grep { $_->{load_percent} == $load && $_->{contender} eq $name } @turns or next;
			my @ms = latencies(@of_it);
			my @medians = sort { $a <=> $b } figures($name, 'median_ms', @of_it);
			push @lines, [ $load ? "$load %" : 'quiet', $name, scalar @ms,
				(map { sprintf '%.3f', percentile($_, @ms) } 50, 95, 99, 100),
				sprintf('%.3f-%.3f', @medians[ 0, -1 ]),
				middle('%.0f', grep { $_ } map { $_->{offered_tps} } @of_it),
				middle('%.0f', grep { $_ } map { $_->{achieved_tps} } @of_it) ];
		}
	}
	return markdown(2, [ 'load', 'contender', 'samples', 'p50 ms', 'p95 ms', 'p99 ms', 'max ms',
			'p50 of a turn', 'offered txn/s', 'achieved' ], @lines);
}

# The median of ours on a quiet system is not above built-in's.
sub latency_targets
{
	my (@turns) = @_;
	my $text = '';
	my %ms;
	push @{ $ms{ $_->{contender} } }, latencies($_) for grep { !$_->{load_percent} } @turns;
	return '' unless $ms{builtin};
	for my $name (grep { $_ ne 'builtin' } sort keys %ms)
	{
		my ($ours, $builtin) = map { median(@{ $ms{$_} }) } $name, 'builtin';
		$text .= sprintf "- %s: quiet: median latency of %s not above built-in's: %.3f and %.3f ms\n",
		  $ours <= $builtin ? 'met' : 'missed', $name, $ours, $builtin;
	}
	return $text;
}

1;
