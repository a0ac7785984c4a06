# Test of bench/compare: small result files with one change each.
use strict;
use warnings;

use File::Temp qw(tempdir);
use FindBin;
use JSON::PP;
use Test::More;

use lib "$FindBin::RealBin/../../bench/lib";
use Bench::Compare;

my $compare = "$FindBin::RealBin/../../bench/compare";
my $dir = tempdir(CLEANUP => 1);
my $files = 0;

# Writes a result file of RECORDS; returns its name.
sub result_file
{
	my (@records) = @_;
	my $file = "$dir/drain-" . ++$files . '.jsonl';
	open my $out, '>', $file or die "$file: $!\n";
	print $out encode_json($_), "\n" for @records;
	close $out or die "$file: $!\n";
	return $file;
}

# Drains of K1: ceiling, built-in and ours4, whose rates are FACTOR times the usual ones.
sub drains
{
	my (%arg) = @_;
	my @records;
	my %spread = (1 => 0.98, 2 => 1, 3 => 1.02, %{ $arg{spread} // {} });
	for my $round (1 .. $arg{rounds} // 3)
	{
		my $day = $arg{day} // 1;
		my $own = ($arg{factor} // 1) * ($spread{$round} // 0.99 + 0.005 * $round);
		my %same = (benchmark => 'drain', workload => 'K1', round => $round, rows => 400_000,
			transactions => 100_001, %{ $arg{more} // {} });
		push @records, { %same, contender => 'ceiling', tps => 60_000 * $day },
		  { %same, contender => 'builtin', tps => 30_000 * $day, cpu_us_per_transaction => 40 / $day,
			wal_bytes_per_change => 300 },
		  { %same, contender => 'ours4', tps => 50_000 * $day * $own, cpu_us_per_transaction => 15 / $day,
			wal_bytes_per_change => $arg{wal} // 180 };
	}
	return @records;
}

# (output, exit status) of bench/compare.
sub run_compare
{
	my (@arguments) = @_;
	my $output = qx{'$compare' @arguments 2>&1};
	return ($output, $? >> 8);
}

my $usual = result_file(drains());
my ($output, $status) = run_compare($usual, result_file(drains()));
is($status, 0, 'the same figures: exit status');
like($output, qr/: 0 worse, 0 better, [1-9]\d* within noise; 0 with fewer/, 'the same figures: nothing');

($output, $status) = run_compare($usual, result_file(drains(factor => 0.8)));
is($status, 1, '20 % slower: exit status');
like($output, qr/K1, ours4 \| speed \/ ceiling .*-20\.0 % \| worse/,  '20 % slower beside the ceiling');
like($output, qr/K1, ours4 \| speed \/ built-in .*-20\.0 % \| worse/, '20 % slower beside built-in');
unlike($output, qr/builtin \|.*worse/, '20 % slower: built-in is not');

($output, $status) = run_compare($usual, result_file(drains(factor => 1.25)));
is($status, 0, 'faster: exit status');
like($output, qr/speed \/ ceiling .*\+25\.0 % \| better/, 'faster is better');

my @wide = drains(factor => 0.8, spread => { 1 => 1.25, 3 => 0.7 });
($output, $status) = run_compare($usual, result_file(@wide));
is($status, 0, '20 % slower inside a wide spread: exit status');
like($output, qr/: 0 worse/, '20 % slower inside a wide spread: noise');

my @little = drains(factor => 0.95, spread => { 1 => 1, 3 => 1 });
($output, $status) = run_compare($usual, result_file(@little));
is($status, 0, 'less than the floor is noise');

($output, $status) = run_compare('--all', $usual, result_file(drains(day => 2)));
is($status, 0, 'a machine twice as fast: exit status');
like($output, qr/: 0 worse, 0 better/, 'a machine twice as fast: nothing');
like($output, qr/txn\/s .*\+100\.0 % \| not judged/, 'a machine twice as fast: rates are shown');

($output, $status) = run_compare($usual, result_file(drains(wal => 200)));
is($status, 1, 'more WAL per change: exit status');
like($output, qr/ours4 \| WAL bytes \/ change .*\+11\.1 % \| worse/, 'more WAL per change');

# What is missing or other.
my @more = map { { %$_, workload => 'K10' } } drains();
($output, $status) = run_compare($usual, result_file(drains(), @more));
is($status, 0, 'new measurements: exit status');
like($output, qr/Only in the new results:\n(?:.*\n)*- drain, K10, ours4\n/, 'new measurements are named');
($output, $status) = run_compare(result_file(drains(), @more), $usual);
like($output, qr/Only in the old results:\n(?:.*\n)*- drain, K10, ours4\n/, 'missing measurements are named');
($output, $status) = run_compare($usual, result_file(drains(), drains(more => { transactions => 10_001 })));
like($output, qr/other conditions.*\n- drain, K1, ceiling: transactions 100001 -> 100001 10001\n/,
	'another size is not compared');
is($status, 2, 'nothing left to compare: exit status');
($output, $status) = run_compare($usual, result_file(@more));
is($status, 2, 'nothing in common: exit status');
like($output, qr/no measurement in common/, 'nothing in common');

($output, $status) = run_compare($usual, result_file(drains(factor => 0.5, rounds => 2)));
is($status, 0, 'two rounds: no verdict');
like($output, qr/[1-9] with fewer than 3 runs/, 'two rounds are named');

# Wrong usage, odd files.
($output, $status) = run_compare($usual);
is($status, 2, 'one argument: exit status');
like($output, qr/^usage:/, 'one argument');
($output, $status) = run_compare($usual, "$dir/nosuch");
is($status, 2, 'no such file: exit status');
like($output, qr/no such file or folder: .*nosuch/, 'no such file');

my $cut_off = result_file(drains());
open my $append, '>>', $cut_off or die "$cut_off: $!\n";
print $append '{"workload":"K1","con';
close $append or die "$cut_off: $!\n";
($output, $status) = run_compare($usual, $cut_off);
is($status, 0, 'a last line that is cut off: exit status');
like($output, qr/the last line is cut off/, 'a last line that is cut off');

# Ranks, from five runs on: known values of the exact test.
my $rank = \&Bench::Compare::rank_test;
is(sprintf('%.4f', $rank->([ 1 .. 3 ], [ 4 .. 6 ])),              '0.1000', 'rank test: 3 and 3, apart');
is(sprintf('%.4f', $rank->([ 1 .. 5 ], [ 6 .. 10 ])),             '0.0079', 'rank test: 5 and 5, apart');
is(sprintf('%.4f', $rank->([ 1, 2, 3, 4, 6 ], [ 5, 7 .. 10 ])),   '0.0159', 'rank test: one pair crossed');
is(sprintf('%.4f', $rank->([ 1, 4, 5, 8 ], [ 2, 3, 6, 7 ])),      '1.0000', 'rank test: mixed');
my @many = (100, 101, 99, 103, 97, 102, 98, 100);
is(Bench::Compare::verdict(\@many, [ map { 0.8 * $_ } @many ], 1, 0.1), 'worse', 'eight runs: worse');
is(Bench::Compare::verdict(\@many, [ (map { 0.8 * $_ } @many), 200, 200 ], 1, 0.1), 'noise',
	'eight runs: two of ten the other way');
is(Bench::Compare::verdict(\@many, [ map { 0.95 * $_ } @many ], 1, 0.1), 'noise', 'eight runs: below the floor');

done_testing();
