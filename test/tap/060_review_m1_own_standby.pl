# 060_review_m1_own_standby.pl: review findings M1 and T:H3. The subscriber has a synchronous standby of its own, and the
# subscription's synchronous_commit is on (or remote_apply).
# Shows: nothing is confirmed to the publisher that the standby lacks; after a failover to it all that was confirmed is there,
# and the rest comes as if nothing had happened. ROUNDS of failovers under load (default 2), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $rounds = fault_env('ROUNDS', 2);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => 'fsync = on',
	sub_conf => "wal_level = logical\nfsync = on\nwal_retrieve_retry_interval = 50ms\nhot_standby = on\nmax_wal_senders = 10");
ppa_both($pub, $sub, 'CREATE TABLE t (xid bigint, client int)');
ppa_subscribe($pub, $sub, with => 'synchronous_commit = on');

# Another slot tells what was committed up to a position.
$pub->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('peek', 'test_decoding')});

sub add_standby
{
	my ($node, $name) = @_;
	$node->backup("for_$name");
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($node, "for_$name", has_streaming => 1);
	$standby->start;
	ppa_wait_for($node, "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = '$name' AND state = 'streaming'", "standby $name");
	ppa_set($node, 'synchronous_standby_names', "'$name'");
	ppa_wait_for($node, "SELECT sync_state = 'sync' FROM pg_stat_replication WHERE application_name = '$name'", "standby $name to be synchronous");
	return $standby;
}

# The xids that were committed before $lsn.
sub committed_before
{
	my ($lsn) = @_;
	return split /\n/, $pub->safe_psql('postgres', <<"SQL");
SELECT substring(data FROM 'COMMIT (\\d+)') FROM pg_logical_slot_peek_changes('peek', NULL, NULL, 'skip-empty-xacts', '1')
WHERE data LIKE 'COMMIT%' AND lsn <= '$lsn'
SQL
}

sub confirmed
{
	return $pub->safe_psql('postgres', q{SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'sub'});
}

sub check_confirmed
{
	my ($what, $node) = @_;
	my $lsn = confirmed();
	my %there = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT xid FROM t');
	my @committed = committed_before($lsn);
	my @missing = grep { !$there{$_} } @committed;
	is(scalar @missing, 0, "$what: all that was confirmed is on the standby") or diag "confirmed $lsn, missing: @missing[0 .. ($#missing > 9 ? 9 : $#missing)]";
	note "$what: " . scalar(@committed) . ' transactions were confirmed';
	return scalar @committed;
}

my $insert = 'INSERT INTO t SELECT txid_current(), -1';
my $standby = add_standby($sub, 'standby_0');
$pub->safe_psql('postgres', $insert);
ppa_catchup($pub, $sub);

# ---- the standby is away: what is applied then is not confirmed
foreach my $setting ('on', 'remote_apply')
{
	$sub->safe_psql('postgres', "SET synchronous_commit = local; ALTER SUBSCRIPTION sub SET (synchronous_commit = $setting)");
	$pub->safe_psql('postgres', $insert);
	ppa_catchup($pub, $sub);
	my $name = $standby->name;
	$standby->stop('fast');
	my $before = $pub->lsn('insert');
	$pub->safe_psql('postgres', $insert) for 1 .. 5;
	my $passed = 0;
	foreach (1 .. 6)
	{
		fault_pause(0.3, 0.3);
		$pub->safe_psql('postgres', $insert);
		$passed++ if $pub->safe_psql('postgres', "SELECT confirmed_flush_lsn > '$before' FROM pg_replication_slots WHERE slot_name = 'sub'") eq 't';
	}
	is($passed, 0, "$setting: nothing is confirmed while the standby is away");
	$standby->start;
	ppa_catchup($pub, $sub);
	my $end = $pub->lsn('write');
	ppa_wait_for($pub, "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots WHERE slot_name = 'sub'", 'all to be confirmed');
	pass("$setting: it is once the standby is back");
	check_confirmed($setting, $standby);
}

# ---- failover under load
foreach my $round (1 .. $rounds)
{
	my $load = fault_load_start($pub, clients => 4, rate => 1000, scripts => [ ["INSERT INTO t SELECT txid_current(), :client_id FROM generate_series(1, 3);\n"] ]);
	fault_progress($sub);
	fault_pause(0.3, 1);

	# The standby may be away for some time before the end.
	my $away = $round % 2;
	if ($away)
	{
		$standby->stop('fast');
		fault_pause(0.2, 0.6);
	}
	$sub->stop('immediate');
	fault_load_stop($load);
	$standby->start if $away;
	$standby->promote;
	my $name = $standby->name;
	cmp_ok(check_confirmed("failover $round" . ($away ? ', the standby was away' : ''), $standby), '>', 10, "failover $round: transactions were confirmed");

	# The subscription goes on where the standby is.
	ppa_set($standby, 'synchronous_standby_names');
	$sub = $standby;
	ppa_catchup($pub, $sub);
	ppa_same_table($pub, $sub, 't', "failover $round: equal, nothing lost or doubled");
	$standby = add_standby($sub, "standby_$round");
}
fault_no_crash($pub, $sub);
done_testing();
