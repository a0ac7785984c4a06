# Bench::StageReport: the Markdown tables of bench/stream, bench/copy and bench/full.
#
# Ratios of times: below 1 is faster.  They are taken inside a round, as in
# Bench::Report.

package Bench::StageReport;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(min sum0 uniq);

use Bench::Report;
use Bench::Results qw(where);

our @EXPORT_OK = qw(stream_table copy_table full_table);

# The combinations of FIELDS that occur, in the order in which they first did.
sub combinations
{
	my ($fields, @runs) = @_;
	return map { my %h; @h{@$fields} = split /\t/; \%h }
	  uniq map { join "\t", @$_{@$fields} } @runs;
}

# Times of OWN relative to those of OTHERS, "1" when they are the same runs.
sub ratio
{
	my ($own, $others) = @_;
	return '-' unless @$others;
	return '1' if $own->[0] == $others->[0];
	my @both = ((map { { %$_, contender => 'own' } } @$own),
		(map { { %$_, contender => 'other' } } @$others));
	return Bench::Report::spread('%.2f', Bench::Report::ratios('own', 'other', 'seconds', @both));
}

sub spread_of
{
	my ($format, $figure, @runs) = @_;
	return Bench::Report::spread($format, grep { defined } map { $_->{$figure} } @runs);
}

sub middle_of
{
	my ($format, $figure, @runs) = @_;
	return Bench::Report::middle($format, grep { defined } map { $_->{$figure} } @runs);
}

# CPU seconds of all processes of the subscriber.
sub cpu_of
{
	my (@runs) = @_;
	return Bench::Report::middle('%.2f', map { sum0(values %{ $_->{cpu_seconds} }) } @runs);
}

# A subscription whose wish was overruled is shown as "off (asked on)".
sub streaming_of
{
	my ($run) = @_;
	return $run->{subscription_streaming} =~ /^(?:none|$run->{streaming})$/
	  ? $run->{streaming} : "$run->{streaming} (asked $run->{subscription_streaming})";
}

sub stream_table
{
	my (@runs) = @_;
	my @lines;
	for my $key (combinations([ 'percent', 'contender', 'subscription_streaming' ], @runs))
	{
		my @own     = where($key, @runs);
		my @builtin = where({ percent => $key->{percent}, contender => 'builtin' }, @runs);
		push @lines, [
			$key->{percent}, $key->{contender}, join(', ', uniq map { streaming_of($_) } @own),
			spread_of('%.2f', 'seconds', @own), middle_of('%.2f', 'publisher_seconds', @own),
			(map { ratio(\@own, [ where({ streaming => $_ }, @builtin) ]) } qw(off on)),
			cpu_of(@own), middle_of('%.2f', 'walsender_cpu_seconds', @own),
			Bench::Report::middle('%.0f', map { $_->{wal_bytes} / 1e6 } @own),
			Bench::Report::middle('%.0f', map { ($_->{peak_memory_bytes} // 0) / 1e6 } @own) ];
	}
	@lines = sort { $b->[0] <=> $a->[0] } @lines;
	return Bench::Report::markdown(3, [
			'% published', 'contender', 'streaming', 's', 'of it on the publisher',
			'/ built-in, off', '/ built-in, on', 'CPU s', 'walsender CPU s', 'WAL MB',
			'memory MB' ], @lines);
}

sub copy_table
{
	my (@runs) = @_;
	my @place = qw(tables rows_per_table busy);
	my @lines;
	for my $key (combinations([ @place, 'sync_workers', 'contender' ], @runs))
	{
		my %here    = map { ($_ => $key->{$_}) } @place;
		my @own     = where($key, @runs);
		my @builtin = where({ %$key, contender => 'builtin' }, @runs);
		my @of_all  = where({ %here, contender => $key->{contender} }, @runs);
		my $fewest  = min(map { $_->{sync_workers} } @of_all);
		push @lines, [
			@$key{qw(tables rows_per_table)}, $key->{busy} ? 'busy' : 'idle',
			@$key{qw(sync_workers contender)}, spread_of('%.2f', 'seconds', @own),
			ratio(\@own, \@builtin),
			ratio(\@own, [ where({ sync_workers => $fewest }, @of_all) ]),
			(map { middle_of('%.0f', $_, @own) } qw(publisher_tps transactions_behind errors)),
			map { middle_of('%.2f', "${_}_cpu_seconds", @own) } qw(subscriber publisher) ];
	}
	@lines = sort {
		     $a->[0] <=> $b->[0]
		  || $a->[1] <=> $b->[1]
		  || $b->[2] cmp $a->[2]
		  || $a->[3] <=> $b->[3]
	} @lines;
	return Bench::Report::markdown(5, [
			'tables', 'rows each', 'publisher', 'sync workers', 'contender', 's', '/ built-in',
			'/ fewest workers', 'its txn/s', 'then behind, txn', 'errors', 'CPU s',
			'publisher CPU s' ], @lines);
}

sub full_table
{
	my (@runs) = @_;
	my @lines;
	for my $key (combinations([ 'case', 'contender' ], @runs))
	{
		my @own     = where($key, @runs);
		my @builtin = where({ %$key, contender => 'builtin' }, @runs);
		push @lines, [
			@$key{qw(case contender)},
			Bench::Report::spread('%.0f', map { 1000 * $_->{seconds} } @own),
			ratio(\@own, \@builtin),
			Bench::Report::middle('%.0f', map { 1000 * $_->{publisher_seconds} } @own),
			cpu_of(@own) ];
	}
	my $n = 0;
	my %place = map { ($_ => $n++) } uniq map { $_->[0] } @lines;
	@lines = sort { $place{ $a->[0] } <=> $place{ $b->[0] } } @lines;
	return Bench::Report::markdown(2, [
			'case', 'contender', 'ms', '/ built-in', 'ms on the publisher before',
			'CPU s' ], @lines);
}

1;
