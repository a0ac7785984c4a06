# 091_cancel_while_flushing.pl: somebody cancels a worker that has committed a transaction and makes it durable. The wait for the
# subscriber's own standbys eats a cancel; but until the checkpointer has heard of synchronous_standby_names (it is stopped
# here) nobody waits yet, and the worker asks again and again.
# Shows: the commit is still made durable and confirmed, and the leader, which waits for that before it changes anything, goes on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(usleep);
my ($pub, $sub) = ppa_pair();
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY)');
ppa_subscribe($pub, $sub, with => 'synchronous_commit = on');
plan skip_all => 'there are no workers in serial mode' unless ppa_parallel($sub);
ppa_views($sub);
fault_setting($sub, 'workers', 2);
my $offset = ppa_log_pos($sub);
fault_setting($sub, 'group_commit', 'off');

my $checkpointer = $sub->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
foreach my $round (1 .. 3)
{
	fault_warm_up($pub, $sub);
	kill 'STOP', $checkpointer or die "kill: $!";
	ppa_set($sub, 'synchronous_standby_names', "'nobody'");

	my $pid = '';
	foreach my $try (1 .. 20)
	{
		# Workers hear of a setting between two groups.
		$pub->safe_psql('postgres', "INSERT INTO t VALUES ($round * 100 + $try)");
		for (my $look = 0; $pid eq '' && $look < 20; $look++)
		{
			usleep(50_000);
			$pid = $sub->safe_psql('postgres', "SELECT pid FROM parallel_apply.stat_worker WHERE state = 'flushing' LIMIT 1");
		}
		last if $pid ne '';
	}
	is($sub->safe_psql('postgres', "SELECT pg_cancel_backend($pid), pg_sleep(0.1), pg_cancel_backend($pid)"), 't||t',
		"round $round: a worker that makes a commit durable is cancelled");
	$pub->safe_psql('postgres', "INSERT INTO t VALUES ($round * 100)");
	ppa_set($sub, 'synchronous_standby_names', "''");
	kill 'CONT', $checkpointer;
	fault_applied($pub, $sub, $offset, "round $round");
	my $lsn = $pub->lsn('flush');
	ppa_wait_for($pub, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 'sub'", "round $round: confirmation");

	# The leader changes the number of workers once nothing is owed any more.
	fault_setting($sub, 'workers', 2 + $round);
	$pub->safe_psql('postgres', "INSERT INTO t VALUES ($round * 100 + 99)");
	fault_applied($pub, $sub, $offset, "round $round, another number of workers");
	ppa_same_table($pub, $sub, 't', "round $round: equal");
}
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();

END
{
	kill 'CONT', $checkpointer if $checkpointer;
}
