# Bench::SweepReport: the table of bench/sweep.

package Bench::SweepReport;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(uniq);

use Bench::Report qw(spread middle markdown figures ratios);

our @EXPORT_OK = qw(sweep_table);

# One line.  THERE: all runs of its sweep and workload, of which those without a point
# (lines across, the ceiling) serve all points.
sub line
{
	my ($name, $x, @there) = @_;
	my @of_it = grep { ($_->{x} // $x) eq $x } @there;
	my ($run) = grep { $_->{contender} eq $name } @of_it;
	return [
		@$run{qw(sweep workload)}, $run->{x} // '-', $name,
		spread('%.0f', figures($name, 'tps', @of_it)),
		(map { $_ eq $name ? '1' : spread('%.2f', ratios($name, $_, 'tps', @of_it)) }
			  qw(ceiling builtin)),
		middle('%.1f', figures($name, 'cpu_us_per_transaction', @of_it)),
		middle('%.1f', figures($name, 'transactions_per_group', @of_it)) ];
}

# A Markdown table of all runs, in the order of the sweeps and their points.
sub sweep_table
{
	my (@runs) = @_;
	my @lines;
	for my $key (uniq map { "$_->{sweep} $_->{workload}" } @runs)
	{
		my @there = grep { "$_->{sweep} $_->{workload}" eq $key } @runs;
		my @names = sort { ($a ne 'ceiling') <=> ($b ne 'ceiling') }
		  uniq map { $_->{contender} } @there;
		for my $name (@names)
		{
			my @x = uniq map { $_->{x} // '' } grep { $_->{contender} eq $name } @there;
			push @lines, map { line($name, $_, @there) } sort { ($a || 0) <=> ($b || 0) } @x;
		}
	}
	my @head = ('sweep', 'workload', 'point', 'contender', 'txn/s', '/ ceiling', '/ built-in',
		'CPU us/txn', 'txn/group');
	return markdown(4, \@head, @lines);
}

1;
