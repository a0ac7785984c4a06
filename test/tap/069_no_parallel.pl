# 069_no_parallel.pl: settings under which transactions must not be applied in parallel, or keep what is theirs.
# Shows: with a default isolation level above READ COMMITTED (of the server, the database or the owner) no worker is started,
# also if the level comes while they run; with track_commit_timestamp each row has the commit time of its transaction on the
# publisher and the subscription's origin; with workers = 0 no worker either. All is applied.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(
	pub_conf => "synchronous_commit = off\ntrack_commit_timestamp = on",
	sub_conf => "wal_retrieve_retry_interval = 50ms\ntrack_commit_timestamp = on");
fault_schema($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE a (id bigint PRIMARY KEY, n int); CREATE TABLE b (id bigint PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'CREATE SEQUENCE ids');
ppa_subscribe($pub, $sub);

sub run_load
{
	my ($what) = @_;
	my $offset = ppa_log_pos($sub);
	my $load = fault_load_start($pub, rate => 1000);
	fault_progress($sub);
	fault_pause(1, 1);
	my @workers = fault_workers($sub);
	fault_load_stop($load);
	fault_applied($pub, $sub, $offset, $what);
	fault_equal($pub, $sub, $what);
	return scalar @workers;
}
my $running = run_load('as it comes');
cmp_ok($running, '>', 0, 'as it comes: there are workers') if ppa_parallel($sub);

# ---- commit timestamps
my @timestamps = (cols => 'id, n, pg_xact_commit_timestamp(xmin)');
my $offset = ppa_log_pos($sub);
my @run = (clients => 6, transactions => 150, script => [ <<'SQL', <<'SQL' ]);
SELECT nextval('ids') AS id \gset
BEGIN; INSERT INTO a VALUES (:id, 0); INSERT INTO b VALUES (-:id, 0); COMMIT;
UPDATE b SET n = 1 WHERE id = -:id;
SQL
SELECT nextval('ids') AS id \gset
INSERT INTO b VALUES (:id, 0);
UPDATE a SET n = n + 1 WHERE id = :id - 20;
SQL
ppa_load_finish(ppa_load_start($pub, @run));
fault_applied($pub, $sub, $offset, 'track_commit_timestamp, live');
ppa_backlog($pub, $sub, 'sub', sub { ppa_load_finish(ppa_load_start($pub, @run)) });
fault_applied($pub, $sub, $offset, 'track_commit_timestamp, backlog');
ppa_same_table($pub, $sub, $_, "$_: commit timestamps are those of the publisher", @timestamps) for qw(a b);
is($sub->safe_psql('postgres', <<'SQL'), '', 'and each transaction names the origin');
SELECT x.id, o.roident FROM (SELECT id, xmin FROM a UNION ALL SELECT id, xmin FROM b) x, pg_xact_commit_timestamp_origin(x.xmin) o
WHERE o.roident IS DISTINCT FROM (SELECT roident FROM pg_replication_origin
	WHERE roname = (SELECT 'pg_' || oid FROM pg_subscription)) LIMIT 5
SQL
if (!ppa_builtin())
{
	# Not even then are several transactions one.
	fault_setting($sub, 'group_commit', 'on');
	ppa_backlog($pub, $sub, 'sub', "INSERT INTO a SELECT -g, 0 FROM generate_series(1, 10) g; INSERT INTO b VALUES (0, 0)");
	fault_applied($pub, $sub, $offset, 'group_commit on');
	ppa_same_table($pub, $sub, $_, "group_commit on: $_ equal") for qw(a b);
	fault_setting($sub, 'group_commit');
}

# ---- isolation levels. An ALTER is seen by the next worker, a changed configuration by the running one as well.
foreach my $case (
	[ 'of the database', q{ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'}, 'ALTER DATABASE postgres RESET default_transaction_isolation' ],
	[ 'of the owner', q{ALTER ROLE CURRENT_USER SET default_transaction_isolation = 'repeatable read'}, 'ALTER ROLE CURRENT_USER RESET default_transaction_isolation' ],
	[ 'of the server', q{ALTER SYSTEM SET default_transaction_isolation = 'repeatable read'}, 'ALTER SYSTEM RESET default_transaction_isolation' ],
	[ 'of the server, reloaded', q{ALTER SYSTEM SET default_transaction_isolation = 'repeatable read'}, 'ALTER SYSTEM RESET default_transaction_isolation' ])
{
	my ($what, $set, $reset) = @$case;
	$what = "repeatable read $what";
	my $restart = $what !~ /reloaded/;
	ppa_disable($sub) if $restart;
	$offset = ppa_log_pos($sub);
	my $load = fault_load_start($pub, rate => 500);
	$sub->safe_psql('postgres', $set);
	$sub->reload;
	ppa_enable($sub) if $restart;
	if (ppa_parallel($sub))
	{
		# Those of before the reload go at the next boundary.
		fault_progress($sub);
		ppa_wait_for($sub, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'}, "the workers to end: $what");
		pass("$what: no workers");
	}
	fault_load_stop($load);
	is(run_load($what), 0, "$what: and none under load");
	$sub->safe_psql('postgres', $reset);
	$sub->reload;
	ppa_disable($sub);
	ppa_enable($sub);
}
$running = run_load('read committed again');
cmp_ok($running, '>', 0, 'read committed again: there are workers') if ppa_parallel($sub);
if (fault_setting($sub, 'workers', 0))
{
	my $load = fault_load_start($pub, rate => 500);
	ppa_wait_for($sub, q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'}, 'the workers to end');
	fault_load_stop($load);
	is(run_load('workers = 0'), 0, 'workers = 0: none');
}
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
