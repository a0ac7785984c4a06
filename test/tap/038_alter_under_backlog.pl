# 038_alter_under_backlog.pl: ALTER SUBSCRIPTION and DROP SUBSCRIPTION while a backlog, or one large transaction, is applied.
# Shows: each takes effect soon although the stream never runs dry, and nothing is lost or doubled by it.
# The times are printed; the verdict has only the generous bound of all waits. LARGE: rows of the large transaction
# (default 500000).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time);

my $large = fault_env('LARGE', 500_000);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => 'autovacuum = off',
	sub_conf => "wal_retrieve_retry_interval = 50ms\nautovacuum = off");
fault_schema($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE added (n int); CREATE TABLE big (n int); CREATE ROLE another SUPERUSER LOGIN');
$pub->safe_psql('postgres', 'INSERT INTO added SELECT generate_series(1, 1000)');

# Made now, because decoding a backlog looks the publication up as of the position it has reached.
$pub->safe_psql('postgres', 'CREATE PUBLICATION pub2 FOR TABLE added');
ppa_subscribe($pub, $sub, tables => 'TABLE fault_log, fault_count, fault_move, big');
my $connstr = $pub->connstr . ' dbname=postgres';

# Rows arrive faster than they can be applied, so there is a backlog all the time.
my @scripts = ([ <<'SQL', 20 ], [ <<'SQL', 20 ]);
INSERT INTO fault_log SELECT txid_current(), :client_id, g FROM generate_series(1, 100) g;
SQL
\set id random(1, 500)
UPDATE fault_count SET version = version + 1 WHERE id = :id;
SQL
my $load;

sub start_backlog
{
	$load = fault_load_start($pub, clients => 3, scripts => \@scripts, options => '-c synchronous_commit=off');
	fault_progress($sub);
	ppa_wait_for($pub, <<'SQL', 'a backlog');
SELECT pg_current_wal_insert_lsn() - coalesce(replay_lsn, '0/0') > 1000000 FROM pg_stat_replication WHERE application_name = 'sub'
SQL
	return;
}

# The backlog at its place: what the worker has applied, and how far the publisher is.
sub backlog_bytes
{
	my $origin = fault_origin($sub);
	return $pub->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$origin'");
}

# $sql on the subscriber, then $effect (SQL or code) becomes true. Prints the time, checks that there was a backlog before.
sub check_soon
{
	my ($what, $sql, $effect) = @_;
	my $bytes = backlog_bytes();

	# Enough for this step: the clients go on when it gets less.
	kill $bytes > 15e6 ? 'STOP' : 'CONT', $load->{pid} if $load;
	my $start = time();
	$sub->safe_psql('postgres', $sql);
	my $returned = time() - $start;
	ref $effect ? $effect->() : ppa_wait_for($sub, $effect, $what);
	diag sprintf('%-45s returned after %.2f s, in effect after %.2f s, backlog %.1f MB',
		$what, $returned, time() - $start, $bytes / 1e6);
	ok(1, "$what: took effect");
	return;
}

my $worker = "SELECT count(*) = 1 FROM pg_stat_subscription WHERE subname = 'sub' AND relid IS NULL AND pid IS NOT NULL AND pid";
my $no_worker = "SELECT count(*) = 0 FROM pg_stat_subscription WHERE subname = 'sub' AND relid IS NULL AND pid IS NOT NULL";

# First on an idle stream: what is committed after ALTER has returned comes under the new setting.
foreach my $n (1 .. 3)
{
	ppa_catchup($pub, $sub);
	my $idle = ppa_worker_pid($sub);
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub DISABLE');
	$pub->safe_psql('postgres', "INSERT INTO big VALUES (-$n)");
	ppa_wait_for($sub, $no_worker, 'the end of the worker');
	is($sub->safe_psql('postgres', "SELECT count(*) FROM big WHERE n = -$n"), 0, "DISABLE on an idle stream, $n: nothing applied after it");
	ppa_enable($sub);
	fault_replaced($sub, 'sub', $idle);
}

start_backlog();
my $pid = ppa_worker_pid($sub);
check_soon('DISABLE', 'ALTER SUBSCRIPTION sub DISABLE', $no_worker);
my $stopped_at = fault_origin($sub);
check_soon('ENABLE', 'ALTER SUBSCRIPTION sub ENABLE', sub { fault_progress($sub, 'sub', $stopped_at) });

foreach my $change (
	[ 'CONNECTION', "ALTER SUBSCRIPTION sub CONNECTION '$connstr connect_timeout=100'" ],
	[ 'SET (binary)', 'ALTER SUBSCRIPTION sub SET (binary = true)' ],
	[ 'SET (streaming)', 'ALTER SUBSCRIPTION sub SET (streaming = true)' ],
	[ 'OWNER TO', 'ALTER SUBSCRIPTION sub OWNER TO another' ],
	[ 'RENAME TO', 'ALTER SUBSCRIPTION sub RENAME TO other; ALTER SUBSCRIPTION other RENAME TO sub' ])
{
	my ($what, $sql) = @$change;
	fault_progress($sub);
	$pid = ppa_worker_pid($sub);

	# All of these make the worker begin anew, except for a change of name that is undone before it was seen.
	check_soon($what, $sql, $what =~ /RENAME/ ? sub { fault_progress($sub) } : "$worker <> $pid");
	fault_progress($sub);
}
is( $sub->safe_psql('postgres', <<'SQL'), 'another', 'the new owner applies');
SELECT usename FROM pg_stat_activity a JOIN pg_stat_subscription s USING (pid) WHERE s.subname = 'sub' AND s.relid IS NULL
SQL

check_soon('SET PUBLICATION with refresh', 'ALTER SUBSCRIPTION sub SET PUBLICATION pub, pub2',
	"SELECT count(*) = 1 FROM pg_subscription_rel WHERE srrelid = 'added'::regclass");
$pub->safe_psql('postgres', 'INSERT INTO added SELECT generate_series(1001, 2000)');

# The other slot begins where the first one is confirmed, the origin says where to go on.
$pub->safe_psql('postgres', "SELECT pg_copy_logical_replication_slot('sub', 'sub_other')");
$pid = ppa_worker_pid($sub);
check_soon('SET (slot_name)', 'ALTER SUBSCRIPTION sub SET (slot_name = sub_other)', "$worker <> $pid");
ppa_wait_for($pub, "SELECT active FROM pg_replication_slots WHERE slot_name = 'sub_other'", 'the other slot to be in use');
ppa_wait_for($pub, "SELECT NOT active FROM pg_replication_slots WHERE slot_name = 'sub'", 'the first slot to be free');
$pub->safe_psql('postgres', "SELECT pg_drop_replication_slot('sub')");
fault_progress($sub);

# A worker that answers its reload while it applies.
my $offset = ppa_log_pos($sub);
check_soon('reload', "ALTER SYSTEM SET wal_receiver_timeout = '55s'; SELECT pg_reload_conf()",
	sub { ppa_log_match($sub, qr/parameter "wal_receiver_timeout" changed/, $offset); fault_progress($sub) });
cmp_ok(backlog_bytes(), '>', 100_000, 'there was a backlog up to here');
fault_load_stop($load);
$load = undef;
ppa_wait_ready($sub, 'sub');
ppa_catchup($pub, $sub);
fault_equal($pub, $sub, 'after ALTER SUBSCRIPTION');
ppa_same_table($pub, $sub, 'added', 'the table added meanwhile is equal');

# One large transaction. What stops the process at once (DROP) must not wait for its end; what the worker reads between
# transactions may.
sub large_transaction
{
	my $before = $sub->safe_psql('postgres', "SELECT pg_relation_size('big')");
	$pub->safe_psql('postgres', "INSERT INTO big SELECT generate_series(1, $large)");
	ppa_wait_for($sub, "SELECT pg_relation_size('big') > $before + 1000000", 'the large transaction to arrive');
	return;
}
large_transaction();
check_soon('DISABLE in a large transaction', 'ALTER SUBSCRIPTION sub DISABLE', $no_worker);
my $rows = $sub->safe_psql('postgres', 'SELECT count(*) FROM big');
ok($rows == 3 || $rows == 3 + $large, 'all of the large transaction or nothing') or diag "$rows rows";
ppa_enable($sub);
ppa_catchup($pub, $sub);
ppa_same_table($pub, $sub, 'big', 'applied once after ENABLE');

large_transaction();
$pid = ppa_worker_pid($sub);
check_soon('CONNECTION in a large transaction', "ALTER SUBSCRIPTION sub CONNECTION '$connstr'", "$worker <> $pid");
ppa_catchup($pub, $sub);
ppa_same_table($pub, $sub, 'big', 'applied once after CONNECTION');

large_transaction();
check_soon('DROP in a large transaction', 'DROP SUBSCRIPTION sub', 'SELECT count(*) = 0 FROM pg_subscription');
is($pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), 0, 'its slot is gone');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_origin'), 0, 'its origin is gone');
$rows = $sub->safe_psql('postgres', 'SELECT count(*) FROM big');
ok($rows == 3 + 2 * $large || $rows == 3 + 3 * $large, 'nothing of the transaction or all of it') or diag "$rows rows";

# DROP under a backlog of many transactions, on a subscription made anew.
$sub->safe_psql('postgres', 'TRUNCATE fault_log, fault_count, fault_move, added, big');
$pub->safe_psql('postgres', 'DROP PUBLICATION pub2; TRUNCATE big');
ppa_subscribe($pub, $sub, tables => undef);
start_backlog();
check_soon('DROP under a backlog', 'DROP SUBSCRIPTION sub', 'SELECT count(*) = 0 FROM pg_subscription');
is($pub->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), 0, 'its slot is gone');
fault_load_stop($load);
is($sub->safe_psql('postgres', 'SELECT count(*) FROM (SELECT 1 FROM fault_log GROUP BY xid HAVING count(*) % 100 <> 0) d'),
	0, 'whole transactions only');
fault_no_crash($pub, $sub);
done_testing();
