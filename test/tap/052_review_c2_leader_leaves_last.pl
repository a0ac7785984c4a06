# 052_review_c2_leader_leaves_last.pl: review findings C2 and T:C3. The leader is told to stop while its workers sit in lock
# waits: by DROP SUBSCRIPTION (which holds a lock on the subscription and waits for the leader), DISABLE,
# pg_terminate_backend, a fast shutdown.
# Shows: each ends soon although the locks stay, no worker outlives its leader, no new leader begins before the old workers
# are gone, and nothing is lost or doubled.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
# Far more than it takes, far less than the locks are held.
my $bound = 20;
my ($pub, $sub) = ppa_pair(sub_conf => "max_prepared_transactions = 5\ndeadlock_timeout = 10min\nwal_retrieve_retry_interval = 50ms");
ppa_both($pub, $sub, 'CREATE TABLE locked (id int PRIMARY KEY, n int); CREATE TABLE free (n int)');
$pub->safe_psql('postgres', 'INSERT INTO locked SELECT g, 0 FROM generate_series(1, 8) g');
ppa_subscribe($pub, $sub);

# Prepared transactions keep their locks over a shutdown.
sub lock_rows
{
	$sub->safe_psql('postgres', 'BEGIN; SELECT FROM locked FOR UPDATE; PREPARE TRANSACTION $$lock$$');
	my $leader = ppa_worker_pid($sub);

	# Each a group of its own, if there are workers to take it.
	foreach my $id (1 .. 8)
	{
		$pub->safe_psql('postgres', "BEGIN; INSERT INTO free VALUES ($id); UPDATE locked SET n = n + 1 WHERE id = $id; INSERT INTO free VALUES (-$id); COMMIT");
	}
	fault_blocked($sub, $leader);
	return $leader;
}

sub unlock_rows
{
	my ($what) = @_;
	$sub->safe_psql('postgres', 'ROLLBACK PREPARED $$lock$$');
	ppa_catchup($pub, $sub);
	ppa_same_table($pub, $sub, $_, "$what: $_ equal") for qw(locked free);
	return;
}

# ---- DISABLE. A worker that applies by itself notices it only when it has the lock; a leader never waits for one.
lock_rows();
my ($status, undef, $stderr) = $sub->psql('postgres', "SET statement_timeout = '${bound}s'; ALTER SUBSCRIPTION sub DISABLE");
is("$status $stderr", '0 ', 'DISABLE returns');
SKIP:
{
	skip 'no parallel mode', 3 unless ppa_parallel($sub);
	local $PostgreSQL::Test::Utils::timeout_default = $bound;
	ppa_disable($sub);
	pass('DISABLE: the leader has gone');
	fault_no_workers($sub, 'DISABLE: and no worker is left');
	is($sub->safe_psql('postgres', 'SELECT count(*) FROM free'), 0, 'DISABLE: nothing is applied');
}
ppa_enable($sub);
unlock_rows('DISABLE');

# ---- pg_terminate_backend of the leader, of a worker that waits
foreach my $victim ('leader', 'worker')
{
	my $leader = lock_rows();
	my $pid = $victim eq 'leader' ? $leader : fault_blocked($sub, $leader);
	my @old = fault_workers($sub);
	is($sub->safe_psql('postgres', "SELECT pg_terminate_backend($pid)"), 't', "terminate the $victim: signal sent");
	{
		local $PostgreSQL::Test::Utils::timeout_default = $bound;
		fault_replaced($sub, 'sub', $leader);
		pass("terminate the $victim: a new leader");
	}
	my $left = @old ? $sub->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_activity WHERE pid IN (' . join(', ', @old) . ')') : 0;
	is($left, 0, "terminate the $victim: no worker of the old leader is left when the new one is there");
	unlock_rows("terminate the $victim");
}
is($sub->safe_psql('postgres', <<'SQL'), 0, 'all workers are younger than the leader');
SELECT count(*) FROM pg_stat_activity w, pg_stat_activity l JOIN pg_stat_subscription s USING (pid)
WHERE w.backend_type = 'pg_parallel_apply worker' AND w.backend_start < l.backend_start
SQL

# ---- a fast shutdown
lock_rows();
{
	local $ENV{PGCTLTIMEOUT} = $bound;
	ok($sub->stop('fast', fail_ok => 1), 'a fast shutdown ends');
}
$sub->start;
unlock_rows('fast shutdown');

# ---- DROP SUBSCRIPTION
lock_rows();
($status, undef, $stderr) = $sub->psql('postgres', "SET statement_timeout = '${bound}s'; DROP SUBSCRIPTION sub");
is($status, 0, 'DROP SUBSCRIPTION returns') or diag $stderr;
fault_no_workers($sub, 'DROP: no worker is left');
is($pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), 0, 'DROP: the slot is gone');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_origin'), 0, 'DROP: the origin is gone');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 1, 'the locks were held all the time');
fault_no_crash($pub, $sub);
done_testing();
