# 043_table_sync.pl: initial copies of tables while others are applied, with immediate stops of the subscriber in between.
# Shows: a table whose copy was interrupted, or that was added under load, holds each row once, keyless tables too. SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my $pairs = 10;    # log_N without a key and count_N with one
my $added = 3;     # pairs added later
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => "max_replication_slots = 40\nmax_wal_senders = 40",
	sub_conf => "fsync = on\nwal_retrieve_retry_interval = 50ms\nmax_replication_slots = 40\nmax_sync_workers_per_subscription = 2");
my @tables = map { ("log_$_", "count_$_") } 1 .. $pairs + $added;
my @first = @tables[ 0 .. 2 * $pairs - 1 ];
foreach my $n (1 .. $pairs + $added)
{
	ppa_both($pub, $sub, "CREATE TABLE log_$n (xid bigint, n int); CREATE TABLE count_$n (id int PRIMARY KEY, version int)");
	$pub->safe_psql('postgres',
		"INSERT INTO log_$n SELECT 0, generate_series(1, 5000); INSERT INTO count_$n SELECT generate_series(1, 500), 0");
}
my $all = $pairs + $added;
my $load = fault_load_start($pub, clients => 4, rate => 400, scripts => [ [ <<"SQL" ], [ <<"SQL" ], [ <<"SQL" ] ]);
\\set t random(1, $all)
INSERT INTO log_:t SELECT txid_current(), g FROM generate_series(1, 3) g;
SQL
\\set t random(1, $all)
\\set id random(1, 500)
UPDATE count_:t SET version = version + 1 WHERE id = :id;
SQL
\\set t random(1, $all)
\\set u random(1, $all)
\\set id random(501, 600)
BEGIN;
INSERT INTO log_:u SELECT txid_current(), 0;
INSERT INTO count_:t VALUES (:id, 1) ON CONFLICT (id) DO UPDATE SET version = EXCLUDED.version + 1;
DELETE FROM count_:t WHERE id = 601;
COMMIT;
SQL

sub ready
{
	return $sub->safe_psql('postgres', "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate = 'r'");
}

# Stops the subscriber some times while less than $count tables are ready.
sub stop_while_copying
{
	my ($count, $stops) = @_;
	my $stopped = 0;
	foreach (1 .. $stops)
	{
		fault_pause(0, 0.5);
		last if ready() == $count;
		$sub->stop('immediate');
		$sub->start;
		$stopped++;
	}
	return $stopped;
}

$pub->safe_psql('postgres', 'CREATE PUBLICATION pub FOR TABLE ' . join(', ', @first));
my $connstr = $pub->connstr . ' dbname=postgres';

# synchronous_commit: the table sync worker of stock 15 drops its slot on the publisher after a commit that it does not
# flush; a crash right then leaves a table that looks for that slot for ever.
# The first copies must not all be done before the first stop: a local lock, which dies with the server, holds one back.
my ($holder) = fault_session($sub);
$holder->query_safe("BEGIN; LOCK TABLE $first[-1] IN SHARE MODE");
$sub->safe_psql('postgres',
	"CREATE SUBSCRIPTION sub CONNECTION '$connstr' PUBLICATION pub WITH (synchronous_commit = on)");
my $stopped = stop_while_copying(scalar @first, 5);
$holder->quit;
cmp_ok($stopped, '>', 0, 'the subscriber was stopped during the first copies');
ppa_wait_ready($sub, 'sub');
is(ready(), scalar @first, 'the tables are ready');

# Added under load, in the middle of transactions that write to old and new tables.
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLE ' . join(', ', @tables[ @first .. $#tables ]));
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
$stopped = stop_while_copying(scalar @tables, 2);
note "stopped $stopped times during the later copies";
ppa_wait_ready($sub, 'sub');
is(ready(), scalar @tables, 'the added tables are ready');

# Taken out and put in again: copied anew into an empty table, while its rows go on coming.
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub SET PUBLICATION pub WITH (refresh = false)');
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub DROP TABLE log_1, count_1');
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
$sub->safe_psql('postgres', 'TRUNCATE log_1, count_1');
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLE log_1, count_1');
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
ppa_wait_ready($sub, 'sub');

# From here on all is applied by the apply worker.
fault_progress($sub);
fault_load_stop($load);
ppa_catchup($pub, $sub);
ppa_same_table($pub, $sub, $_, "$_ equal") for @tables;
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> \'r\''), 0, 'all tables ready in the end');
ppa_wait_for($pub, 'SELECT count(*) = 1 FROM pg_replication_slots', 'the slots of the copies to be dropped');
ok(1, 'only the slot of the subscription is left');
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
