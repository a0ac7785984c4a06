# Bench::Curves: the pictures with lines: latency, sweeps, stream, copy.

package Bench::Curves;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(max min);

use Bench::PictureParts qw(labels values_in_order curves x_range);
use Bench::Results qw(values_of where);

our @EXPORT_OK = qw(latency_pictures sweep_pictures stream_pictures copy_pictures);

# What varies in a sweep: its axis, and whether that is logarithmic.
my %SWEEP = (
	K       => [ 'rows per transaction',                 1 ],
	H       => [ 'hot rows',                             1 ],
	workers => [ 'workers (at most)',                    0 ],
	group   => [ 'pg_parallel_apply.group_transactions', 1 ],
	indexes => [ 'secondary indexes',                    0 ],
);

sub latency_pictures
{
	my (@runs) = @_;
	@runs = map { { %$_, load_percent => $_->{load_percent} // 0 } } @runs;
	my @loads = sort { $a <=> $b } values_of('load_percent', @runs);
	my @ticks = map { [ $_ ? "$_ %" : 'quiet', $_ ] } @loads;
	my %same  = (
		records => \@runs,
		ticks   => \@ticks,
		xlabel  => "load, share of built-in's capacity",
		log_y   => 1,
		setup   => 'set xrange [-8:' . ($loads[-1] + 8) . ']');
	return curves('latency', 'From commit on the publisher to visible on the subscriber',
		[ labels(@runs) ], 'load_percent',
		{ %same, title => 'median', figure => 'median_ms', ylabel => 'ms (log)' },
		{ %same, title => '95 %', figure => 'p95_ms' },
		{ %same, title => '99 %', figure => 'p99_ms' });
}

# Sweeps: what is varied on x; on the left the speed, on the right beside the ceiling.
sub sweep_pictures
{
	my (@runs) = @_;
	my @pictures;
	for my $sweep (values_of('sweep', @runs))
	{
		my @of_it = where({ sweep => $sweep }, @runs);

		# The others have one workload, or one for each point.
		my @workloads = $sweep eq 'workers' ? values_of('workload', @of_it) : (undef);
		for my $workload (@workloads)
		{
			my @shown = defined $workload ? where({ workload => $workload }, @of_it) : @of_it;
			my $name = join '-', 'sweep', $sweep, $workload // ();
			push @pictures, sweep_picture($name, $sweep, $workload, @shown);
		}
	}
	return @pictures;
}

# Points with a number of workers are one line; what has no point is a line across.
sub with_points
{
	my (@runs) = @_;
	my @x = values_of('x', @runs) or return;
	my @ends = @x > 1 ? (min(@x), max(@x)) : @x;
	my @result;
	for my $run (@runs)
	{
		my $label = $run->{sweep} eq 'workers' && defined $run->{x} ? 'ours' : $run->{label};
		push @result, map { { %$run, x => $_, label => $label } } $run->{x} // @ends;
	}
	return @result;
}

sub sweep_picture
{
	my ($name, $sweep, $workload, @runs) = @_;
	my ($xlabel, $log) = @{ $SWEEP{$sweep} // [ $sweep, 0 ] };
	@runs = with_points(@runs) or return;
	my @x     = values_of('x', @runs);
	my $set_x = ($log ? 'set logscale x; ' : '') . 'set xrange [' . x_range($log, @x) . ']';
	my @tps   = values_in_order('tps', @runs);
	my $log_y = max(@tps) > 20 * min(@tps);
	my $title = "Sweep: $xlabel" . (defined $workload ? ", workload $workload" : '');
	return curves($name, $title, [ labels(@runs) ], 'x',
		{ title => 'speed', records => \@runs, figure => 'tps', xlabel => $xlabel,
			ylabel => 'transactions/s' . ($log_y ? ' (log)' : ''),
			log_y  => $log_y, setup => "$set_x; set yrange [0:*]" },
		{ title => "beside the publisher's decoding",
			records => [ grep { $_->{label} ne 'ceiling' } @runs ], figure => 'share_of_ceiling',
			xlabel  => $xlabel, ylabel => 'speed / ceiling', setup => "$set_x; set yrange [0:*]" });
}

# One transaction of which a percentage is published; how long the publisher's own
# statement took is part of the time.
sub stream_pictures
{
	my (@runs) = @_;
	my @shown = (@runs, map { { %$_, label => 'publisher', seconds => $_->{publisher_seconds} } }
		  grep { defined $_->{publisher_seconds} } @runs);
	my @labels = (labels(@runs), 'publisher');
	my ($rows) = values_of('rows', @runs);
	my $title = "One transaction of $rows rows: from its BEGIN until applied";
	my $picture = curves('stream', $title, \@labels, 'percent',
		{ records => \@shown, figure => 'seconds', xlabel => 'share of the rows that is published, %',
			ylabel => 's', wide => 700, setup => 'set yrange [0:*]; set xrange [-3:103]' });
	return unless $picture;
	$picture->{legend}[-1][0] = 'of it on the publisher, until COMMIT has returned';
	$picture->{wide} = 760;
	return $picture;
}

# Copying tables: over the number of copying workers, and over that of tables.
sub copy_pictures
{
	my (@runs) = @_;
	my @pictures;
	for my $rows (values_of('rows_per_table', @runs))
	{
		my @of_it = where({ rows_per_table => $rows }, @runs);
		my $what = $rows ? "tables of $rows rows" : 'empty tables';
		my @axes = ([ 'tables', 'sync_workers', 'max_sync_workers_per_subscription' ],
			[ 'sync_workers', 'tables', 'tables' ]);
		for my $axis (@axes)
		{
			my ($fixed, $x, $xlabel) = @$axis;
			for my $value (values_of($fixed, @of_it))
			{
				my @shown = where({ $fixed => $value }, @of_it);
				next unless values_of($x, @shown) > 1;
				push @pictures, copy_picture("copy-by-$x-$rows-$value", $x, $xlabel,
					$fixed eq 'tables' ? "$value $what" : "$what, $value workers", @shown);
			}
		}
	}
	return @pictures;
}

sub copy_picture
{
	my ($name, $x, $xlabel, $what, @runs) = @_;
	my @ticks = map { [ $_, $_ ] } values_of($x, @runs);
	my @states = grep { values_of($x, @{ $_->[1] }) > 1 }
	  map { [ "publisher $_->[0]", [ where({ busy => $_->[1] }, @runs) ] ] } [ 'idle', 0 ], [ 'busy', 1 ];
	return curves($name, "Initial copy of $what", [ labels(@runs) ], $x,
		map { {
			title => $_->[0], records => $_->[1], figure => 'seconds',
			xlabel => $xlabel, ylabel => 's', ticks => \@ticks,
			setup => 'set logscale x 2; set yrange [0:*]; set xrange [' . x_range(1, values_of($x, @runs)) . ']',
		} } @states);
}

1;
