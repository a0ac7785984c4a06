# What the views show of parallel apply: workers that apply, wait for the commit turn, for a dependency, for a lock or for
# work; retries by cause; counters over the lives of several leaders; privileges. Skipped for the built-in worker.
#
# The head of line is kept busy by an index function that goes on only when an advisory lock can be had. It asks with "try":
# the head of line must not wait in the lock manager, or the later groups would be rolled back after a while.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

plan skip_all => 'the built-in worker has no views of ours' if ppa_builtin();

# each remote transaction is a group
my ($pub, $sub) = ppa_pair(sub_conf => "pg_parallel_apply.workers = 4\npg_parallel_apply.group_commit = off");
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int, name text UNIQUE);
CREATE TABLE gate (id int PRIMARY KEY, n int);
CREATE SCHEMA "Odd Names";
CREATE TABLE "Odd Names"."T" (id int PRIMARY KEY, v int);
SQL
$pub->safe_psql('postgres', 'INSERT INTO t SELECT g, 0, g FROM generate_series(1, 100) g; INSERT INTO "Odd Names"."T" VALUES (1, 0), (2, 0);
	INSERT INTO gate SELECT g, 0 FROM generate_series(1, 20) g');
$sub->safe_psql('postgres', <<'SQL');
CREATE FUNCTION public.passed(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT pg_catalog.pg_try_advisory_xact_lock_shared(1) LOOP
		PERFORM pg_catalog.pg_sleep(0.01);
	END LOOP;
	RETURN $1;
END $$;
CREATE INDEX ON gate (public.passed(n));
SQL
ppa_subscribe($pub, $sub);
ppa_views($sub);
my $log = ppa_log_pos($sub);

my $holder = $sub->background_psql('postgres');
my $holder_pid = $holder->query_safe('SELECT pg_backend_pid()');
my $gate = 0;       # last row updated there
my $next = 1000;    # last id inserted into t for its own sake

sub close_gate
{
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	return;
}

sub open_gate
{
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	ppa_catchup($pub, $sub, 'sub');
	return;
}

# An UPDATE that stops at the closed gate. An INSERT could be kept back and stop later.
sub gate_update
{
	$gate++;
	return "UPDATE gate SET n = n + 1 WHERE id = $gate;";
}

# One remote transaction; its xid.
sub publish
{
	my (@sql) = @_;
	my $out = $pub->safe_psql('postgres', "BEGIN; @sql SELECT txid_current(); COMMIT;");
	my ($xid) = $out =~ /(\d+)\s*$/;
	return $xid % 2**32;
}

# Waits for a row of stat_worker.
sub wait_worker
{
	my ($where, $what) = @_;
	ppa_wait_for($sub, "SELECT count(*) = 1 FROM parallel_apply.stat_worker WHERE $where", $what);
	return;
}

sub worker
{
	my ($columns, $where) = @_;
	return $sub->safe_psql('postgres', "SELECT $columns FROM parallel_apply.stat_worker WHERE $where");
}

# Waits until one remote transaction is being applied and holds the head of line. $columns of its worker's row.
sub wait_at_gate
{
	my ($xid) = @_;
	wait_worker("state = 'executing' AND wait IS NULL AND remote_xid = '$xid' AND relation = 'public.gate'", 'a worker at the gate');
	return;
}

# Has independent transactions pile up behind the gate until so many workers are there. A group goes to an idle worker, and
# another worker is started if there is none; so two groups are enough for one more.
sub start_workers
{
	my ($count) = @_;
	for my $running (2 .. $count)
	{
		for (1 .. 2)
		{
			$next++;
			publish("INSERT INTO t VALUES ($next, 0, '$next');");
		}
		ppa_wait_for($sub, "SELECT workers_running >= $running FROM parallel_apply.stat_subscription", "$running workers");
	}
	return;
}

# ---- all workers up: independent transactions behind a head of line that stands still
close_gate();
my $xid = publish(gate_update());
wait_at_gate($xid);
start_workers(4);
is(ppa_stat($sub, 'sub', 'workers_wanted'), 4, 'workers_wanted is the setting');
is(ppa_stat($sub, 'sub', 'workers_running'), 4, 'workers_running');
cmp_ok(ppa_stat($sub, 'sub', 'queued_groups'), '>=', 4, 'queued_groups');
cmp_ok(ppa_stat($sub, 'sub', 'queued_bytes'), '>', 0, 'queued_bytes');
is(ppa_stat($sub, 'sub', 'dispatched_lsn > applied_lsn AND dispatched_lsn <= received_lsn'), 't', 'dispatched is between applied and received');
is(ppa_stat($sub, 'sub', 'state'), 'applying', 'state of the subscription');
open_gate();

# ---- nothing to do
my $idle = <<'SQL';
SELECT count(*) BETWEEN 1 AND 4
	AND bool_and(state = 'idle' AND wait = 'queue empty' AND group_number IS NULL AND wait_group IS NULL
		AND blocking_pids IS NULL AND remote_xid IS NULL AND remote_lsn IS NULL AND relation IS NULL AND operation IS NULL)
FROM parallel_apply.stat_worker
SQL
ppa_wait_for($sub, $idle, 'idle workers');
pass('idle workers: queue empty, nothing of the last group');
is($sub->safe_psql('postgres', <<'SQL'), 't', 'identity of the workers');
SELECT bool_and(w.subid = s.oid AND w.subname = 'sub' AND w.datname = 'postgres' AND a.backend_type = 'pg_parallel_apply worker')
	AND count(DISTINCT w.worker) = count(*) AND min(w.worker) = 0 AND max(w.worker) < 4
FROM parallel_apply.stat_worker w LEFT JOIN pg_subscription s USING (subname) LEFT JOIN pg_stat_activity a ON a.pid = w.pid
SQL
is($sub->safe_psql('postgres', q{SELECT count(*) FROM parallel_apply.stat_worker w JOIN pg_stat_subscription s USING (pid)}), 0,
	'the leader is none of them');
ppa_wait_for($sub, q{SELECT queued_groups = 0 AND queued_bytes = 0 AND dispatched_lsn IS NOT NULL FROM parallel_apply.stat_subscription}, 'empty queues');
pass('nothing queued');
is($sub->safe_psql('postgres', <<'SQL'), 't', 'what the workers did adds up to what the subscription did');
SELECT sum(groups_total) BETWEEN 1 AND min(s.groups) AND sum(rows_total) BETWEEN 1 AND min(s.inserts + s.updates + s.deletes)
FROM parallel_apply.stat_worker CROSS JOIN parallel_apply.stat_subscription s
SQL

# ---- one applies, one waits for its turn, one for a dependency; one is idle
#
# A group goes to the worker whose newest group it depends on. The third transaction becomes that newest group, so that
# the fourth, which depends on the second, gets a worker of its own and begins.
my $turn_waits = ppa_stat($sub, 'sub', 'turn_waits');
my $dependency_waits = ppa_stat($sub, 'sub', 'dependency_waits');
my $before = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
close_gate();
my $first = publish(gate_update());
wait_at_gate($first);
my $second = publish('UPDATE t SET v = 1 WHERE id = 1; UPDATE t SET v = 1 WHERE id = 2;');
wait_worker("wait = 'commit turn' AND remote_xid = '$second'", 'a worker that waits for its turn');
publish('UPDATE t SET v = 2 WHERE id = 1;');
my $fourth = publish('UPDATE t SET v = 2 WHERE id = 3; UPDATE t SET v = 2 WHERE id = 2;');
wait_worker("wait = 'dependency' AND remote_xid = '$fourth'", 'a worker that waits for a dependency');

my %group = map { $_ => worker('group_number', "remote_xid = '$_'") } ($first, $second, $fourth);
is("$group{$second} $group{$fourth}", ($group{$first} + 1) . ' ' . ($group{$first} + 3), 'groups are numbered in commit order');
is(worker('state, wait, wait_group, relation, operation, rows_done', "remote_xid = '$first'"), 'executing|||public.gate|UPDATE|0',
	'at the head of line: executing');
is(worker('state, wait, wait_group, rows_done', "remote_xid = '$second'"), "waiting|commit turn|$group{$first}|2", 'executed: waits for its turn');
is(worker('state, wait, wait_group, relation, operation, rows_done', "remote_xid = '$fourth'"),
	"waiting|dependency|$group{$second}|public.t|UPDATE|1", 'dependency: on the group that wrote the row, at the change that needs it');
my $after = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
is(worker("bool_and(remote_lsn > '$before' AND remote_lsn <= '$after'), bool_and(blocking_pids IS NULL)", 'remote_xid IS NOT NULL'), 't|t',
	'LSNs of the publisher, no lock waits');
cmp_ok(ppa_stat($sub, 'sub', 'queued_groups'), '==', 4, 'four groups are queued');
open_gate();
cmp_ok(ppa_stat($sub, 'sub', 'turn_waits'), '>', $turn_waits, 'turn_waits');
cmp_ok(ppa_stat($sub, 'sub', 'dependency_waits'), '>=', $dependency_waits + 2, 'dependency_waits');

# ---- a worker waits for a local session's lock
for my $case (
	[ 'a row lock', 'SELECT FROM "Odd Names"."T" WHERE id = 1 FOR UPDATE', 'UPDATE "Odd Names"."T" SET v = 3 WHERE id = 1;', 'UPDATE t SET v = 3 WHERE id = 11;' ],
	[ 'a table lock', 'LOCK TABLE t IN SHARE MODE', 'DELETE FROM t WHERE id = 12;', 'UPDATE "Odd Names"."T" SET v = 4 WHERE id = 2;' ])
{
	my ($name, $lock, $change, $other) = @$case;
	$holder->query_safe("BEGIN; $lock");
	$xid = publish($change);
	wait_worker("wait = 'lock' AND remote_xid = '$xid'", "a worker that waits for $name");
	is(worker('state, blocking_pids, wait_group, rows_done', "remote_xid = '$xid'"), "executing|{$holder_pid}||0", "$name: who holds it");
	is(worker('relation, operation', "remote_xid = '$xid'"), '"Odd Names"."T"|UPDATE', "$name: for what") if $name eq 'a row lock';

	# one behind it may run ahead, but is rolled back to be out of the way
	my $group = worker('group_number', "remote_xid = '$xid'");
	publish($other);
	wait_worker("wait = 'start' AND wait_group = $group AND group_number = $group + 1", 'a group behind it that begins later');
	is(worker('state, rows_done', "group_number = $group + 1"), 'waiting|0', "$name: the group behind is undone and waits to start");
	$holder->query_safe('COMMIT');
	ppa_catchup($pub, $sub, 'sub');
}

# ---- retries by cause, with a leader that sees no dependencies
ppa_set($sub, 'pg_parallel_apply.debug_dependencies', 'none');
ppa_disable($sub, 'sub');
ppa_enable($sub, 'sub');
my %before = map { $_ => ppa_stat($sub, 'sub', $_) } qw(dependency_waits turn_waits retries_missing retries_unique);
close_gate();
wait_at_gate(publish(gate_update()));
# given to the worker of the group before, a change would find its row
start_workers(3);
open_gate();
for my $case ([ 'retries_missing', [ q{INSERT INTO t VALUES (502, 0, 'x');}, gate_update() ], q{UPDATE t SET v = 5 WHERE id = 502;} ],
	[ 'retries_unique', [ gate_update(), q{DELETE FROM t WHERE id = 20;} ], q{INSERT INTO t VALUES (503, 0, '20');} ])
{
	my ($column, $head, $change) = @$case;
	close_gate();
	$xid = publish(@$head);
	wait_at_gate($xid);
	my $group = worker('group_number', "remote_xid = '$xid'");
	publish($change);
	ppa_wait_for($sub, "SELECT $column > $before{$column} FROM parallel_apply.stat_subscription", $column);
	wait_worker("state = 'waiting' AND wait_group = $group AND group_number = $group + 1", 'the later group to wait for the earlier');
	pass("$column: counted, and shown to wait for the earlier group");
	open_gate();
}
is($sub->safe_psql('postgres', 'SELECT sum(replays) > 0 FROM parallel_apply.stat_worker'), 't', 'replays of a worker');
cmp_ok(ppa_stat($sub, 'sub', $_), '>=', $before{$_}, "$_ outlives a leader") for sort keys %before;
is($sub->safe_psql('postgres', 'SELECT errors FROM parallel_apply.stat_subscription'), 0, 'none of it is an error');
is(ppa_log_count($sub, qr/ ERROR: /, $log), 0, 'and none is logged');
ppa_set($sub, 'pg_parallel_apply.debug_dependencies', undef);

# ---- privileges
$sub->safe_psql('postgres', <<'SQL');
CREATE ROLE nobody LOGIN;
CREATE ROLE watcher LOGIN;
GRANT pg_monitor TO watcher;
CREATE ROLE granted LOGIN;
CREATE DATABASE other;
SQL
close_gate();
wait_at_gate(publish(gate_update()));
my $busy = q{SELECT count(*) FROM parallel_apply.stat_worker WHERE state = 'executing' AND remote_xid IS NOT NULL};
my ($status, $out, $error) = $sub->psql('postgres', $busy, extra_params => [ '-U', 'nobody' ]);
like($error, qr/permission denied for schema parallel_apply/, 'not for everybody');
for my $db (qw(postgres other))
{
	ppa_views($sub, db => $db);
	$sub->safe_psql($db, <<'SQL');
GRANT USAGE ON SCHEMA parallel_apply TO granted;
GRANT SELECT ON parallel_apply.stat_worker TO granted;
GRANT EXECUTE ON FUNCTION parallel_apply.stat_worker() TO granted;
SQL
}
for my $case ([ 'watcher', 'postgres', 1 ], [ 'watcher', 'other', 1 ], [ 'granted', 'postgres', 1 ], [ 'granted', 'other', 0 ])
{
	my ($role, $db, $rows) = @$case;
	($status, $out, $error) = $sub->psql($db, $busy, extra_params => [ '-U', $role ]);
	is("$out$error", $rows, "$role in database $db sees $rows busy worker");
}
is($sub->safe_psql('other', q{SELECT datname, relation IS NULL, operation FROM parallel_apply.stat_worker WHERE state = 'executing'}),
	'postgres|t|UPDATE', 'names of relations are for their own database');
open_gate();

# ---- no subscription, no workers
ppa_disable($sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM parallel_apply.stat_worker'), 0, 'disabled: no workers');
is(ppa_stat($sub, 'sub', "state || ' ' || workers_wanted || ' ' || workers_running || ' ' || queued_groups || ' ' || queued_bytes"),
	'down 0 0 0 0', 'disabled: nothing of the moment is left');
ppa_enable($sub, 'sub');
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, $_, "$_ is equal") for ('t', 'gate', '"Odd Names"."T"');
$holder->quit;

done_testing();
