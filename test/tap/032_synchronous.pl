# 032_synchronous.pl: a publisher whose synchronous_standby_names names the subscription.
# Shows: what the publisher acknowledged to a client survives an immediate stop of the subscriber, with the subscription's
# synchronous_commit on and off; and commits do return on a quiet system. ROUNDS (default 8), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use POSIX ();
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time);

my $rounds = fault_env('ROUNDS', 8);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => 'fsync = on',
	sub_conf => "fsync = on\nwal_retrieve_retry_interval = 50ms");
fault_schema($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE acknowledged (client int, n int)');
ppa_subscribe($pub, $sub);
ppa_set($pub, 'synchronous_standby_names', "'sub'");

# On a quiet system, one commit after the other. No verdict on the time, only that it ends.
foreach my $synchronous_commit ('off', 'on')
{
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SET (synchronous_commit = $synchronous_commit)");
	my ($client) = fault_session($pub);
	my @ms;
	foreach my $n (1 .. 10)
	{
		my $start = time();
		$client->query_safe("INSERT INTO acknowledged VALUES (0, $n)");
		push @ms, int(1000 * (time() - $start));
	}
	$client->quit;
	@ms = sort { $a <=> $b } @ms;
	is(scalar @ms, 10, "quiet, subscription synchronous_commit $synchronous_commit: commits return");
	diag "quiet, synchronous_commit $synchronous_commit: commit takes $ms[5] ms (median), at most $ms[9] ms";
}

# A client that sends one insert after the other and writes down each one only after the server's answer. The answer
# to INSERT ... RETURNING reaches psql after the commit.
my %client_pid;
my $record = PostgreSQL::Test::Utils::tempdir() . '/acknowledged';

sub start_client
{
	my ($number) = @_;
	my $pid = fork() // die "could not fork: $!";
	if ($pid)
	{
		$client_pid{$pid} = 1;
		return;
	}
	open(STDERR, '>', '/dev/null');
	open(my $log, '>>', $record) or POSIX::_exit(1);
	my ($in, $out);
	my $psql = IPC::Run::harness([ 'psql', '-XAtq', '-d', $pub->connstr('postgres') ], '<', \$in, '>', \$out, '2>', '/dev/null');
	eval {
		$psql->start;
		for (my $n = 1;; $n++)
		{
			$out = '';
			$in = "INSERT INTO acknowledged VALUES ($number, $n) RETURNING n;\n";
			while ($out !~ /^$n\n/)
			{
				# Nothing is left to read once the server and psql have gone.
				die 'psql has ended' unless $psql->pumpable;
				$psql->pump;
			}
			syswrite $log, "$number|$n\n";
		}
	};
	POSIX::_exit(0);
}

sub acknowledged
{
	return -e $record ? split /\n/, slurp_file($record) : ();
}

sub wait_for_acknowledged
{
	my ($count) = @_;
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
	while (acknowledged() < $count)
	{
		die 'timed out waiting for acknowledged inserts' if time() > $end;
		Time::HiRes::usleep(20_000);
	}
	return;
}

my $total_missing = 0;
foreach my $round (1 .. $rounds)
{
	my $synchronous_commit = $round % 2 ? 'on' : 'off';
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SET (synchronous_commit = $synchronous_commit)");
	start_client(10 * $round + $_) for 1 .. 4;

	# Other transactions do not wait for the subscription: they keep it busy, so that groups form.
	my $load = fault_load_start($pub, clients => 2, rate => 500, options => '-c synchronous_commit=local');
	wait_for_acknowledged(acknowledged() + 10);
	fault_pause(0, 0.5);

	# First the subscriber, then the publisher, so that nothing can be sent again before the comparison.
	$sub->stop('immediate');
	fault_pause(0, 0.1);
	$pub->stop('immediate');
	waitpid($_, 0) for keys %client_pid;
	%client_pid = ();
	$sub->start;

	my %there = map { $_ => 1 } split /\n/, $sub->safe_psql('postgres', 'SELECT client, n FROM acknowledged');
	my @missing = grep { !$there{$_} } acknowledged();
	diag "round $round, synchronous_commit $synchronous_commit: acknowledged and missing: @missing" if @missing;
	$total_missing += @missing;
	$pub->start;
	fault_load_stop($load, ended => 1);
	ppa_catchup($pub, $sub);
}
is($total_missing, 0, 'no acknowledged row missing after an immediate stop');
cmp_ok(scalar acknowledged(), '>=', 10 * $rounds, 'rows were acknowledged');
note scalar(acknowledged()) . ' rows acknowledged';
ppa_same_table($pub, $sub, 'acknowledged', 'acknowledged equal');
fault_equal($pub, $sub, 'at the end');
fault_no_crash($pub, $sub);
done_testing();

END
{
	my $status = $?;
	kill 'TERM', keys %client_pid;
	$? = $status;
}
