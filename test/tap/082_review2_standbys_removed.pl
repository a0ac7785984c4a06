# 082_review2_standbys_removed.pl: second review. Transactions are applied and wait for the subscriber's own standbys, which are
# not there; then the administrator takes them out of synchronous_standby_names.
# Shows: whoever waits learns of it and goes on, and what comes then is applied and confirmed.
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
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY)');
ppa_subscribe($pub, $sub, with => 'synchronous_commit = on');
ppa_views($sub);
fault_setting($sub, 'group_commit', 'off');
my $offset = ppa_log_pos($sub);
my $next = 1;

sub insert
{
	my ($count) = @_;
	$pub->safe_psql('postgres', join '', map { 'INSERT INTO t VALUES (' . $next++ . ');' } 1 .. $count);
	return;
}

sub somebody_waits
{
	return $sub->safe_psql('postgres', <<'SQL') eq 't';
SELECT count(*) > 0 FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND backend_type IN ('logical replication worker', 'pg_parallel_apply worker')
SQL
}

# $count transactions at a time until somebody waits for standbys: the checkpointer makes that the rule, some time after the
# setting was changed.
sub insert_until_wait
{
	my ($count) = @_;
	foreach (1 .. 30)
	{
		insert($count);
		foreach (1 .. 10)
		{
			return if somebody_waits();
			usleep(50_000);
		}
	}
	die 'nobody waits for standbys';
}

foreach my $setting ('on', 'remote_apply')
{
	foreach my $count (1, 10)
	{
		my $what = "$setting, $count transactions";
		$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SET (synchronous_commit = $setting)");
		insert(1);
		ppa_catchup($pub, $sub);

		# No session of ours may commit on the subscriber before the end.
		ppa_set($sub, 'synchronous_standby_names', "'nobody'");
		insert_until_wait($count);
		ppa_set($sub, 'synchronous_standby_names', "'nobody, nowhere'") if $count > 1;
		ppa_set($sub, 'synchronous_standby_names', "''");
		insert(20);
		fault_applied($pub, $sub, $offset, $what);
		ppa_same_table($pub, $sub, 't', "$what: equal");
		my $lsn = $pub->lsn('flush');
		ppa_wait_for($pub, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 'sub'", "confirmation: $what");
		ok(!somebody_waits(), "$what: nobody waits for standbys any more");
	}
}
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
