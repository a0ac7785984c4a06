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
		ppa_wait_for($sub, q{SELECT current_setting('synchronous_standby_names') = 'nobody'}, 'the new setting');
		insert($count);
		ppa_wait_for($sub, <<'SQL', 'somebody who waits for standbys');
SELECT count(*) > 0 FROM pg_stat_activity
WHERE wait_event = 'SyncRep' AND backend_type IN ('logical replication worker', 'pg_parallel_apply worker')
SQL
		ppa_set($sub, 'synchronous_standby_names', "'nobody, nowhere'") if $count > 1;
		ppa_set($sub, 'synchronous_standby_names', "''");
		insert(20);
		fault_applied($pub, $sub, $offset, $what);
		ppa_same_table($pub, $sub, 't', "$what: equal");
		ppa_wait_for($pub, 'SELECT confirmed_flush_lsn >= ' . "'" . $pub->lsn('flush') . "'" . q{ FROM pg_replication_slots WHERE slot_name = 'sub'},
			"confirmation: $what");
		is( $sub->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'}),
			0, "$what: nobody waits for standbys any more");
	}
}
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
