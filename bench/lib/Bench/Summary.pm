# Bench::Summary: the Markdown summary of results, with pictures.

package Bench::Summary;

use strict;
use warnings;

use Exporter qw(import);

use Bench::Pictures qw(pictures);
use Bench::Plot qw(draw have_gnuplot);
use Bench::Report qw(markdown drain_tables drain_targets sync_table sync_targets
  latency_table latency_targets);
use Bench::Results qw(of_benchmark values_of about);
use Bench::StageReport qw(stream_table copy_table full_table);
use Bench::SweepReport qw(sweep_table);

our @EXPORT_OK = qw(summary);

# What is said of each benchmark, in this order: [ name, heading, what it is, tables ].
my @SECTIONS = (
	[ 'drain', 'Draining a backlog (W1)',
		'From `ALTER SUBSCRIPTION ... ENABLE` until the last row of a prepared backlog is visible.'
		  . ' The ceiling is a client that reads the same backlog and discards it. Ratios are taken'
		  . ' inside a round.',
		sub { return join "\n", drain_tables(@_), drain_targets(@_); } ],
	[ 'sweep', 'Sweeps', 'Drains of which one thing is varied.', \&sweep_table ],
	[ 'stream', 'One large transaction (W2)',
		'From `BEGIN` on the publisher until applied, by the share of its rows that is published.'
		  . ' Below 1 is faster than built-in.', \&stream_table ],
	[ 'copy', 'Initial copy of many tables (W3)',
		'From `ENABLE` until all tables are ready. Busy: one client inserts 1000 rows per transaction'
		  . ' into one of the published tables.', \&copy_table ],
	[ 'full', 'REPLICA IDENTITY FULL (W4)',
		'From `COMMIT` until the update of all rows of a table without a key is visible.', \&full_table ],
	[ 'sync', 'Synchronous replication (W5)',
		'pgbench on a publisher that waits for the subscriber, beside one that does not.',
		sub { return join "\n", sync_table(@_), sync_targets(@_); } ],
	[ 'latency', 'Latency',
		'From the return of `COMMIT` on the publisher until visible on the subscriber, by load (share of'
		  . ' what the built-in worker can apply).',
		sub { return join "\n", latency_table(@_), latency_targets(@_); } ],
);

# The pictures of one benchmark, drawn into DIR/plots, as lines of Markdown.
sub draw_all
{
	my ($dir, $benchmark, @records) = @_;
	my $text = '';
	for my $picture (pictures($benchmark, @records))
	{
		my $file = eval { draw("$dir/plots", $picture) };
		print STDERR $@ unless defined $file;
		$text .= "![$picture->{title}](plots/$file)\n\n" if defined $file;
	}
	return $text;
}

# The summary of RECORDS as Markdown; pictures go to DIR/plots.
sub summary
{
	my ($dir, @records) = @_;
	my $plots = have_gnuplot();
	mkdir "$dir/plots" or die "$dir/plots: $!\n" unless -d "$dir/plots" || !$plots;
	my $text = "# Benchmark results\n\n" . markdown(2, [ '', '' ], about(@records)) . "\n"
	  . "Medians (min-max). Every single run is in the result files.\n\n";
	$text .= "No pictures: gnuplot is not installed (apt-get install gnuplot-nox).\n\n" unless $plots;
	for my $section (@SECTIONS)
	{
		my ($benchmark, $heading, $what, $tables) = @$section;
		my @of_it = of_benchmark($benchmark, @records) or next;
		$text .= "## $heading\n\n$what\n\n";
		$text .= draw_all($dir, $benchmark, @of_it) if $plots;
		my $table = eval { $tables->(@of_it) };
		$text .= defined $table ? "$table\n" : "These records cannot be shown as a table: $@\n";
		$text .= 'Files: ' . join(', ', values_of('file', @of_it)) . "\n\n";
	}
	$text =~ s/\n+\z/\n/;
	return $text;
}

1;
