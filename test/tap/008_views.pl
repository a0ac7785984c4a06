# The views and the functions of our extension: columns that add up after known work, positions, lag, errors, serial mode,
# wait_until_applied, privileges, a library that is not preloaded. What the views show of parallel apply is in
# 020_parallel_views.pl. Skipped as a whole for the built-in worker.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

plan skip_all => 'the built-in worker has no views of ours' if ppa_builtin();

my ($pub, $sub) = ppa_pair();
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE plain (id int PRIMARY KEY, v int);
SQL
$pub->safe_psql('postgres', 'INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g');
ppa_subscribe($pub, $sub);
ppa_views($sub);

my @counters = qw(groups transactions inserts updates deletes truncates multi_insert_rows group_replays missing_rows errors);

# What the counters gained while $work ran on the publisher as a backlog.
sub gained
{
	my ($work) = @_;
	my $row = 'SELECT ' . join(', ', @counters) . q{ FROM parallel_apply.stat_subscription WHERE subname = 'sub'};
	my @before = split /\|/, $sub->safe_psql('postgres', $row);
	ppa_backlog($pub, $sub, 'sub', $work);
	ppa_catchup($pub, $sub, 'sub');
	my @after = split /\|/, $sub->safe_psql('postgres', $row);
	return map { $counters[$_] => $after[$_] - $before[$_] } 0 .. $#counters;
}

# ---- identity
is( $sub->safe_psql('postgres', <<'SQL'), 't', 'subid, datname and pid are those of the server');
SELECT s.subid = p.oid AND s.datname = current_database() AND s.pid = b.pid
FROM parallel_apply.stat_subscription s JOIN pg_subscription p USING (subname) JOIN pg_stat_subscription b USING (subname)
SQL
is($sub->safe_psql('postgres', 'SELECT count(*) FROM parallel_apply.stat_subscription'), 1, 'one row per subscription');

# ---- counters
my %n = gained(join("\n", map { "INSERT INTO t VALUES ($_, 0);" } 1001 .. 1300));
is($n{transactions}, 300, 'backlog of inserts: transactions');
is($n{inserts}, 300, 'backlog of inserts: inserts');
cmp_ok($n{groups}, '<', 300, 'backlog of inserts: fewer groups than transactions');
cmp_ok($n{groups}, '>=', 3, 'backlog of inserts: groups of at most 100');
cmp_ok($n{multi_insert_rows}, '>', 0, 'backlog of inserts: rows inserted many at a time');
cmp_ok($n{multi_insert_rows}, '<=', 300, 'backlog of inserts: not more than there are');
is($n{$_}, 0, "backlog of inserts: no $_") for qw(updates deletes truncates group_replays missing_rows errors);

%n = gained(<<'SQL');
BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(2001, 2050) g; UPDATE t SET v = 1 WHERE id <= 30; COMMIT;
UPDATE t SET v = 2 WHERE id <= 12;
DELETE FROM t WHERE id <= 7;
INSERT INTO plain VALUES (1, 1);
TRUNCATE plain;
BEGIN; DELETE FROM t WHERE id BETWEEN 8 AND 10; ROLLBACK;
SQL
is("$n{transactions} $n{inserts} $n{updates} $n{deletes} $n{truncates} $n{missing_rows} $n{errors}", '5 51 42 7 1 0 0',
	'mixed work: every change counted once, nothing of what was rolled back');

# ---- missing rows
$sub->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 1001 AND 1010');
%n = gained(<<'SQL');
UPDATE t SET v = 3 WHERE id BETWEEN 1001 AND 1005;
DELETE FROM t WHERE id BETWEEN 1006 AND 1012;
SQL
is($n{missing_rows}, 10, 'updates and deletes of absent rows');
is($n{errors}, 0, 'they are no errors');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id BETWEEN 1001 AND 1012'), 0, 'they change nothing');

# ---- serial mode: nothing of workers
ppa_disable($sub, 'sub');
ppa_set($sub, 'pg_parallel_apply.workers', 0);
ppa_enable($sub, 'sub');
my @parallel = qw(groups_alone groups_large groups_aborted ordered_changes relations_ordered dependency_waits turn_waits
  retries_missing retries_unique retries_deadlock retries_other refused_workers);
my $parallel = join ' || \' \' || ', @parallel;
my $sums = ppa_stat($sub, 'sub', $parallel);
%n = gained("UPDATE t SET v = 3 WHERE id = 20; UPDATE t SET v = 4 WHERE id = 20; BEGIN; TRUNCATE plain; INSERT INTO plain VALUES (1, 1); COMMIT;");
is($n{transactions}, 3, 'serial mode: transactions');
is(ppa_stat($sub, 'sub', $parallel), $sums, 'serial mode: counters of parallel apply do not move');
like($sums, qr/^\d+( \d+){11}$/, 'they are numbers');
is(ppa_stat($sub, 'sub', "workers_wanted || ' ' || workers_running || ' ' || queued_groups || ' ' || queued_bytes || ' ' || (dispatched_lsn IS NULL)"),
	'0 0 0 0 true', 'serial mode: no workers, no queue');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM parallel_apply.stat_worker'), 0, 'serial mode: no row in stat_worker');
ppa_disable($sub, 'sub');
ppa_set($sub, 'pg_parallel_apply.workers', undef);
ppa_enable($sub, 'sub');

# ---- settings of groups
for my $case ([ 'group_transactions', '7', 15, 50 ], [ 'group_commit', 'off', 100, 100 ])
{
	my ($name, $value, $least, $most) = @$case;
	ppa_set($sub, "pg_parallel_apply.$name", $value);
	my $base = $name eq 'group_commit' ? 3000 : 4000;
	%n = gained(join("\n", map { "INSERT INTO t VALUES ($base + $_, 0);" } 1 .. 100));
	is($n{transactions}, 100, "$name = $value: transactions");
	cmp_ok($n{groups}, '>=', $least, "$name = $value: groups");
	cmp_ok($n{groups}, '<=', $most, "$name = $value: not more") if $name eq 'group_commit';
	ppa_set($sub, "pg_parallel_apply.$name", undef);
}
ppa_set($sub, 'pg_parallel_apply.group_bytes', q{'1kB'});
%n = gained(join("\n", map { "INSERT INTO t VALUES (5000 + $_, 0);" } 1 .. 200));
cmp_ok($n{groups}, '>=', 5, 'group_bytes = 1kB: groups');
ppa_set($sub, 'pg_parallel_apply.group_bytes', undef);

# ---- positions and lag on a quiet publisher
my $end = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
ppa_wait_for($sub, <<"SQL", 'positions at the end of the publisher');
SELECT received_lsn >= '$end' AND applied_lsn >= '$end' AND flushed_lsn >= '$end' AND received_lsn = applied_lsn
	AND applied_lsn = flushed_lsn FROM parallel_apply.stat_subscription
SQL
ppa_wait_for($sub, q{SELECT state = 'idle' AND lag_bytes = 0 AND lag_seconds IS NULL FROM parallel_apply.stat_subscription}, 'idle state');
pass('quiet: received, applied and flushed are equal, no lag, idle');

# ---- lag while a lock holds the worker
my $holder = $sub->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE t IN SHARE MODE');
$pub->safe_psql('postgres', 'UPDATE t SET v = 4 WHERE id = 20');
my $target = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
ppa_wait_for($sub, q{SELECT state = 'applying' AND lag_seconds > 0 AND lag_bytes > 0 AND applied_lsn < received_lsn
	FROM parallel_apply.stat_subscription}, 'lag');
pass('held by a lock: applying, with lag');

# ---- wait_until_applied
is($sub->safe_psql('postgres', "SELECT parallel_apply.wait_until_applied('sub', '$target', '300 ms')"), 'f', 'wait: false at the timeout');
is($sub->safe_psql('postgres', "SELECT parallel_apply.wait_until_applied('sub', '$end', '60 s')"), 't', 'wait: what is there already');
my $waiter = $sub->background_psql('postgres');
$waiter->query_until(qr/waiting/, "\\echo waiting\nSELECT 'woken ' || parallel_apply.wait_until_applied('sub', '$target') || ' ' || v FROM t WHERE id = 20;\n");
ppa_wait_for($sub, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT ''woken%' AND state = 'active'}, 'a waiter');
$holder->query_safe('COMMIT');
$holder->quit;
like($waiter->query('SELECT 1'), qr/1/, 'wait: a waiter without timeout is woken');
$waiter->quit;
is($sub->safe_psql('postgres', "SELECT parallel_apply.wait_until_applied('sub', '$target'); SELECT v FROM t WHERE id = 20"), "t\n4",
	'wait: what was waited for is visible');
is($sub->safe_psql('postgres', "SELECT parallel_apply.wait_until_applied('sub', NULL) IS NULL"), 't', 'wait: NULL position');
my ($status, $out, $error) = $sub->psql('postgres', q{\set VERBOSITY verbose
SELECT parallel_apply.wait_until_applied('none', '0/1')});
like($error, qr/ERROR: +42704: subscription "none" does not exist/, 'wait: unknown subscription');
# many waiters at once, for positions to come
my $base = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
my $load = ppa_load_start($pub, script => "\\set id random(1, 100)\nUPDATE plain SET v = :id WHERE id = 1;\n", clients => 1, transactions => 200);
ppa_load_finish($load);
$target = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
is($sub->safe_psql('postgres', "SELECT bool_and(parallel_apply.wait_until_applied('sub', '$base'::pg_lsn + g, '60 s'))
	FROM generate_series(0, ('$target'::pg_lsn - '$base'::pg_lsn)::bigint, 100) g"), 't', 'wait: one position after the other');
# a waiter can be cancelled
($status, $out, $error) = $sub->psql('postgres', q{\set VERBOSITY verbose
SET statement_timeout = '300ms';
SELECT parallel_apply.wait_until_applied('sub', 'FFFF/0')});
like($error, qr/ERROR: +57014: /, 'wait: can be cancelled');

# ---- errors
$sub->safe_psql('postgres', 'INSERT INTO plain VALUES (50, 0)');
my $before = ppa_stat($sub, 'sub', 'errors');
my $offset = ppa_log_pos($sub);
$pub->safe_psql('postgres', 'INSERT INTO plain VALUES (50, 1)');
my $entry = ppa_apply_error($sub, $offset);
ppa_wait_for($sub, "SELECT errors > $before FROM parallel_apply.stat_subscription", 'an error that is counted');
ppa_disable($sub, 'sub');
is(ppa_stat($sub, 'sub', 'last_error'), $entry->{text}, 'last error');
is(ppa_stat($sub, 'sub', 'last_error_sqlstate'), '23505', 'its SQLSTATE');
is(ppa_stat($sub, 'sub', q{last_error_time BETWEEN now() - interval '10 min' AND clock_timestamp()}), 't', 'its time');
is(ppa_stat($sub, 'sub', 'errors') - $before, ppa_log_count($sub, qr/\[logical replication worker\] ERROR: /, $offset), 'errors are counted as logged');
ppa_wait_for($sub, q{SELECT state = 'down' AND pid IS NULL FROM parallel_apply.stat_subscription}, 'state down');
pass('disabled: down, without pid');
$sub->safe_psql('postgres', 'DELETE FROM plain WHERE id = 50');
ppa_enable($sub, 'sub');
ppa_catchup($pub, $sub, 'sub');

# ---- several subscriptions, one is dropped
$pub->safe_psql('postgres', 'CREATE TABLE more (id int); CREATE PUBLICATION pub_more FOR TABLE more');
$sub->safe_psql('postgres', 'CREATE TABLE more (id int)');
ppa_subscribe($pub, $sub, name => 'more', publication => 'pub_more', tables => undef);
is($sub->safe_psql('postgres', q{SELECT string_agg(subname, ' ' ORDER BY subname) FROM parallel_apply.stat_subscription}), 'more sub', 'two subscriptions');
$pub->safe_psql('postgres', 'INSERT INTO more VALUES (1), (2)');
ppa_catchup($pub, $sub, 'more');
is(ppa_stat($sub, 'more', 'inserts'), 2, 'each counts its own');
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION more');
($status, $out, $error) = $sub->psql('postgres', q{SELECT parallel_apply.wait_until_applied('more', '0/1')});
like($error, qr/subscription "more" does not exist/, 'a dropped subscription is unknown');

# ---- privileges
$sub->safe_psql('postgres', <<'SQL');
CREATE ROLE nobody LOGIN;
CREATE ROLE watcher LOGIN;
GRANT pg_monitor TO watcher;
CREATE ROLE granted LOGIN;
CREATE DATABASE other;
SQL
my $view = 'SELECT count(*) > 0 FROM parallel_apply.stat_subscription';
my $worker = 'SELECT count(*) >= 0 FROM parallel_apply.stat_worker';
my $wait = q{SELECT parallel_apply.wait_until_applied('sub', '0/1', '10 s')};
for my $sql ($view, $worker, $wait)
{
	($status, $out, $error) = $sub->psql('postgres', $sql, extra_params => [ '-U', 'nobody' ]);
	like($error, qr/permission denied for schema parallel_apply/, "not for everybody: $sql");
	($status, $out, $error) = $sub->psql('postgres', $sql, extra_params => [ '-U', 'watcher' ]);
	is($out, 't', "for pg_monitor: $sql");
}
# the schema alone does not open the views
$sub->safe_psql('postgres', 'GRANT USAGE ON SCHEMA parallel_apply TO nobody');
for my $name (qw(stat_subscription stat_worker))
{
	($status, $out, $error) = $sub->psql('postgres', "SELECT * FROM parallel_apply.$name", extra_params => [ '-U', 'nobody' ]);
	like($error, qr/permission denied for view $name/, "the schema alone does not open $name");
	($status, $out, $error) = $sub->psql('postgres', "SELECT parallel_apply.$name()", extra_params => [ '-U', 'nobody' ]);
	like($error, qr/permission denied for function $name/, "nor its function");
}
# somebody with grants but no right to see all statistics: the own database only
for my $db (qw(postgres other))
{
	ppa_views($sub, db => $db);
	$sub->safe_psql($db, <<'SQL');
GRANT USAGE ON SCHEMA parallel_apply TO granted;
GRANT SELECT ON ALL TABLES IN SCHEMA parallel_apply TO granted;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA parallel_apply TO granted;
SQL
}
my $names = q{SELECT string_agg(subname || ' in ' || datname, ' ' ORDER BY subname) FROM parallel_apply.stat_subscription};
for my $case ([ 'granted', 'postgres', 1 ], [ 'granted', 'other', 0 ], [ 'watcher', 'postgres', 1 ], [ 'watcher', 'other', 1 ])
{
	my ($role, $db, $sees) = @$case;
	($status, $out, $error) = $sub->psql($db, $names, extra_params => [ '-U', $role ]);
	is($out =~ /\bsub in postgres\b/ ? 1 : 0, $sees, "$role in database $db: " . ($sees ? 'sees it' : 'does not see it'));
	is($error, '', 'without an error');
}
is($sub->safe_psql('postgres', q{SELECT count(*) FROM pg_proc WHERE pronamespace = 'parallel_apply'::regnamespace AND prosecdef}), 0,
	'no function runs with the rights of its owner');

# ---- without preload: loading is silent, the functions say what is missing
$pub->safe_psql('postgres', 'SELECT 1');
($status, $out, $error) = $pub->psql('postgres', q{LOAD 'pg_parallel_apply'; SELECT count(*) FROM pg_settings WHERE name LIKE 'pg_parallel_apply.%'});
is($status, 0, 'LOAD without preload succeeds');
is($error, '', 'and says nothing');
is($out, 0, 'and defines no setting');
$pub->safe_psql('postgres', 'CREATE EXTENSION pg_parallel_apply');
for my $sql ('SELECT * FROM parallel_apply.stat_subscription', 'SELECT * FROM parallel_apply.stat_worker', q{SELECT parallel_apply.wait_until_applied('sub', '0/1')})
{
	($status, $out, $error) = $pub->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($error, qr/ERROR: +55000: pg_parallel_apply must be loaded via shared_preload_libraries/, "without preload: $sql");
}
$pub->safe_psql('postgres', 'DROP EXTENSION pg_parallel_apply');

done_testing();
