# 054_review_c3_table_sync.pl: review findings C3 and T:C2. A table is added and copied while the oldest group in flight
# waits for a local lock and later ones, with changes of that table, have been received; then the lock goes, or the subscriber
# is stopped at once. And at random: tables added under load while local sessions lock rows, with immediate stops.
# Shows: each row of the added tables is there once, whether it came with the copy or as a change. ROUNDS (default 4), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $rounds = fault_env('ROUNDS', 4);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => "max_replication_slots = 40\nmax_wal_senders = 40\nsynchronous_commit = off",
	sub_conf => "fsync = on\nwal_retrieve_retry_interval = 50ms\nmax_replication_slots = 40\nmax_sync_workers_per_subscription = 3");
my @added = map { "added_$_" } 1 .. 4 + $rounds;
ppa_both($pub, $sub, join '', 'CREATE TABLE locked (id int PRIMARY KEY, n int); CREATE TABLE free (n bigint, client int);',
	map { "CREATE TABLE $_ (n bigint, client int);" } @added);
$pub->safe_psql('postgres', 'INSERT INTO locked SELECT g, 0 FROM generate_series(1, 20) g');
$pub->safe_psql('postgres', "INSERT INTO $_ SELECT -g, 0 FROM generate_series(1, 1000) g") for @added;
$pub->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE locked, free');

# synchronous_commit: see 043.
ppa_subscribe($pub, $sub, tables => undef, with => 'synchronous_commit = on');

sub add_table
{
	my ($table) = @_;
	$pub->safe_psql('postgres', "ALTER PUBLICATION pub ADD TABLE $table");
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
	return;
}

sub check_once
{
	my ($what, @tables) = @_;
	ppa_wait_ready($sub, 'sub');
	ppa_catchup($pub, $sub);
	ppa_same_table($pub, $sub, $_, "$what: $_ equal") for 'locked', 'free', @tables;
	return;
}

# ---- the oldest group waits
my $number = 0;
foreach my $how ('lock first, released', 'lock first, crash', 'lock after REFRESH, released', 'lock after REFRESH, crash')
{
	my $table = $added[ $number++ ];
	my ($local, $local_pid) = fault_session($sub);
	$local->query_safe('BEGIN; SELECT FROM locked FOR UPDATE');
	add_table($table) if $how =~ /after/;
	my $leader = ppa_worker_pid($sub);
	$pub->safe_psql('postgres', "UPDATE locked SET n = n + 1 WHERE id = $number");
	fault_blocked($sub, $leader, $local_pid);
	add_table($table) unless $how =~ /after/;

	# These may be copied, or come as changes, but not both.
	foreach my $n (1 .. 20)
	{
		$pub->safe_psql('postgres', "BEGIN; INSERT INTO $table VALUES ($n, 1); INSERT INTO free VALUES ($n, 1); COMMIT");
		fault_pause(0, 0.1);
	}
	if ($how =~ /crash/)
	{
		$local->quit;

		# Some of it may have been applied and flushed by now, or nothing.
		fault_pause(0, 0.2);
		$sub->stop('immediate');
		$sub->start;
	}
	else
	{
		$local->query_safe('COMMIT');
		$local->quit;
	}
	check_once($how, $table);
}

# ---- at random
my $load = fault_load_start($pub, clients => 4, rate => 500, scripts => [ [ <<"SQL", 4 ], [ <<'SQL', 1 ] ]);
\\set t random(5, $#added + 1)
BEGIN;
INSERT INTO added_:t SELECT txid_current(), :client_id;
INSERT INTO free SELECT txid_current(), :client_id;
COMMIT;
SQL
\set id random(1, 20)
UPDATE locked SET n = n + 1 WHERE id = :id;
SQL
my @random = @added[ 4 .. $#added ];
foreach my $table (@random)
{
	my $locker = fault_load_start($sub, clients => 2, scripts => [ [ <<'SQL' ] ]);
\set id random(1, 20)
\set ms random(1, 150)
BEGIN;
SELECT FROM locked WHERE id = :id FOR UPDATE;
\sleep :ms ms
COMMIT;
\sleep 20 ms
SQL
	add_table($table);
	foreach my $stop (1, 2)
	{
		fault_pause(0, 0.7);
		$sub->stop('immediate');
		$sub->start;
	}
	fault_load_stop($locker, ended => 1);
	ppa_wait_ready($sub, 'sub');
}
fault_progress($sub);
fault_load_stop($load);
check_once('at random', @random);
is(ppa_error_count($sub), 0, 'no apply error since the last start');
fault_no_crash($pub, $sub);
done_testing();
