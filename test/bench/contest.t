#!/usr/bin/env perl

# test/bench/contest.t: what makes a comparison fair: the order of the contenders, the CPU
# time they are charged, and that data that differ are found.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../../bench/lib";

use Test::More;
use Time::HiRes qw(time);

BEGIN
{
	plan skip_all => 'needs libdbd-pg-perl' if !eval { require DBI; require DBD::Pg; 1 };
}

use Bench::Contest;
use Bench::Proc qw(cpu_seconds);

# Rounds 1 to COUNT of contenders 0 .. N - 1.
sub rounds
{
	my ($n, $count) = @_;
	return map { [ Bench::Contest::rotated($_, 0 .. $n - 1) ] } 1 .. $count;
}

sub order
{
	for my $n (1 .. 6)
	{
		my @rounds = rounds($n, 2 * $n);
		my (@first, @places);
		for my $round (@rounds)
		{
			is_deeply([ sort { $a <=> $b } @$round ], [ 0 .. $n - 1 ], "$n contenders: each takes part once");
			$first[ $round->[0] ]++;
			$places[ $round->[$_] ] += $_ for 0 .. $#$round;
		}
		is_deeply(\@first,  [ (2) x $n ],              "$n contenders: each is the first equally often");
		is_deeply(\@places, [ ($n * ($n - 1)) x $n ], "$n contenders: the same place on average");
	}
	my @pairs = map { "@$_" } rounds(2, 4);
	is_deeply(\@pairs, [ '0 1', '1 0', '1 0', '0 1' ], 'two: A B, B A, B A, A B');
	return;
}

sub cpu
{
	my $before = cpu_seconds($$);
	my $until  = time + 0.2;
	1 while time < $until;
	my $used = cpu_seconds($$) - $before;
	cmp_ok($used, '>', 0,    'a busy process has used CPU time');
	cmp_ok($used, '<', 0.25, 'not more than went by');
	is(cpu_seconds(2**30), undef, 'no such process');
	return;
}

# A database that has these contents: rows and hash by table.
package Database
{
	sub new { my ($class, %contents) = @_; return bless {%contents}, $class; }

	sub selectrow_array
	{
		my ($self, $sql) = @_;
		my ($table) = $sql =~ /FROM (\S+)/;
		return @{ $self->{$table} };
	}
	sub selectcol_arrayref { my ($self) = @_; return [ sort keys %$self ]; }
}

sub equality
{
	my $publisher = Database->new('public.a' => [ 2, 11 ], 'public.b' => [ 0, 0 ]);
	my $contest = bless { publisher => $publisher }, 'Bench::Contest';
	my $expected = $contest->contents($publisher);
	my $verdict = sub {
		my (%contents) = @_;
		return eval { $contest->check_equal({ name => 'x', dbh => Database->new(%contents) }, $expected); 1 };
	};
	ok($verdict->('public.a' => [ 2, 11 ], 'public.b' => [ 0, 0 ]), 'the same data');
	ok(!$verdict->('public.a' => [ 2, 12 ], 'public.b' => [ 0, 0 ]), 'another row');
	like($@, qr/DATA DIFFER after the run of x:\n\s+public\.a: publisher 2 11, subscriber 2 12/, 'which one is said');
	ok(!$verdict->('public.a' => [ 1, 11 ], 'public.b' => [ 0, 0 ]), 'a row less');
	ok(!$verdict->('public.a' => [ 2, 11 ], 'public.b' => [ 1, 5 ]), 'a row more in the other table');
	return;
}

order();
cpu();
equality();
done_testing();
