# Bench::Report: medians, the Markdown table, and the targets of issue 2.

package Bench::Report;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(median percentile drain_table drain_targets);

# Targets on the 2-core machine.  The figures are those of summarize().
my @TARGETS = (
	(map { [ $_, 'ours_of_ceiling', '>=', 0.85 ] } qw(K1 H10 indep ins1 pgbench)),
	(map { [ $_, 'speed_ratio', '>=', 1.3 ] } qw(K1 H10 ins1)),
	[ 'K1',    'cpu_ratio', '<=', 0.55 ],
	[ 'H10',   'cpu_ratio', '<=', 0.4 ],
	[ 'ins1',  'cpu_ratio', '<=', 0.4 ],
	[ 'K1000', 'cpu_ratio', '<=', 0.65 ],
	[ 'K1',    'wal_ratio', '<=', 0.8 ],
);

my %MEANING = (
	ours_of_ceiling => 'ours / ceiling',
	speed_ratio     => 'ours / built-in',
	cpu_ratio       => 'CPU of all subscriber processes per transaction, ours / built-in',
	wal_ratio       => 'WAL per change, ours / built-in',
);

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

# "median (min-max)"
sub spread
{
	my ($format, @values) = @_;
	my @sorted = sort { $a <=> $b } @values;
	return sprintf "$format ($format-$format)", median(@sorted), $sorted[0], $sorted[-1];
}

# Pair up the runs of one workload by round: {figure => [one value a round]}.
# Ratios are taken inside a round, then their median: the machine's speed
# changes more between rounds than within one.
sub summarize
{
	my (@runs) = @_;
	my %round;
	$round{ $_->{round} }{ $_->{contender} } = $_ for @runs;
	my %figure;
	for my $n (sort { $a <=> $b } keys %round)
	{
		my ($ceiling, $builtin, $ours) = @{ $round{$n} }{qw(ceiling builtin ours)};
		next unless $ceiling && $builtin && $ours;
		push @{ $figure{ceiling} }, $ceiling->{tps};
		push @{ $figure{builtin} }, $builtin->{tps};
		push @{ $figure{ours} },    $ours->{tps};
		push @{ $figure{builtin_of_ceiling} }, $builtin->{tps} / $ceiling->{tps};
		push @{ $figure{ours_of_ceiling} },    $ours->{tps} / $ceiling->{tps};
		push @{ $figure{speed_ratio} },        $ours->{tps} / $builtin->{tps};
		for my $c (['builtin', $builtin], ['ours', $ours])
		{
			push @{ $figure{"$c->[0]_cpu"} },   $c->[1]{cpu_us_per_transaction};
			push @{ $figure{"$c->[0]_apply"} }, $c->[1]{apply_us_per_transaction};
			push @{ $figure{"$c->[0]_wal"} },   $c->[1]{wal_bytes_per_change};
		}
		push @{ $figure{cpu_ratio} },
		  $ours->{cpu_us_per_transaction} / $builtin->{cpu_us_per_transaction};
		push @{ $figure{wal_ratio} },
		  $ours->{wal_bytes_per_change} / $builtin->{wal_bytes_per_change};
	}
	return \%figure;
}

# One workload's line of the table, as cells.
sub cells
{
	my ($name, $f) = @_;
	return (
		$name,
		(map { spread('%.0f', @{ $f->{$_} }) } qw(ceiling builtin ours)),
		sprintf('%.2f', median(@{ $f->{builtin_of_ceiling} })),
		(map { spread('%.2f', @{ $f->{$_} }) } qw(ours_of_ceiling speed_ratio)),
		(map { sprintf '%.1f (%.1f)', median(@{ $f->{"${_}_cpu"} }), median(@{ $f->{"${_}_apply"} }) }
			  qw(builtin ours)),
		spread('%.2f', @{ $f->{cpu_ratio} }),
		(map { sprintf '%.0f', median(@{ $f->{"${_}_wal"} }) } qw(builtin ours)),
		spread('%.2f', @{ $f->{wal_ratio} }));
}

# Markdown table of all runs, in the order of NAMES.
sub drain_table
{
	my ($names, @runs) = @_;
	my @head = (
		'workload', 'ceiling txn/s', 'built-in txn/s', 'ours txn/s',
		'built-in / ceiling', 'ours / ceiling', 'ours / built-in',
		'built-in CPU us/txn (apply only)', 'ours CPU us/txn (apply only)', 'CPU ratio',
		'built-in WAL B/change', 'ours WAL B/change', 'WAL ratio');
	my @lines = (\@head, [ '---', ('---:') x $#head ]);
	for my $name (@$names)
	{
		push @lines, [ cells($name, summarize(grep { $_->{workload} eq $name } @runs)) ];
	}
	return join '', map { '| ' . join(' | ', @$_) . " |\n" } @lines;
}

# One line per target whose workload was run.
sub drain_targets
{
	my ($names, @runs) = @_;
	my $text = '';
	for my $target (@TARGETS)
	{
		my ($name, $figure, $relation, $limit) = @$target;
		next unless grep { $_ eq $name } @$names;
		my $value = median(@{ summarize(grep { $_->{workload} eq $name } @runs)->{$figure} });
		my $met = $relation eq '>=' ? $value >= $limit : $value <= $limit;
		$text .= sprintf "- %s: %s: %s %.2f: %.3f\n", $met ? "met" : "missed", $name,
		  "$MEANING{$figure} $relation", $limit, $value;
	}
	return $text;
}

1;
