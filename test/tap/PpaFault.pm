# PpaFault.pm: what the fault and concurrency tests (030-079) share beyond PpaTest: a load that shows every lost or
# doubled transaction, random moments, waiting for blocked processes, and the check that no server crashed.
#
#   fault_seed()                     seeds the random generator from SEED, or anew; prints how to repeat the run
#   fault_pause($min, $max)          a random moment: sleeps between $min and $max seconds. Never used to wait for a result
#   fault_schema($pub, $sub)         the tables that the load writes, on both nodes
#   fault_load_start($pub, %opt)     pgbench clients on these tables -> handle. clients => 4, scripts => [[SQL, weight], ...]
#                                    to run something else, db, rate => transactions per second, options => PGOPTIONS
#   fault_load_resume($load)         starts it again if it has ended (the server was down)
#   fault_load_stop($load, %opt)     ends it, waits until its sessions have gone. ended => 1: the server was stopped under it
#   fault_equal($pub, $sub, $what)   TAP: the tables of fault_schema are equal, no transaction is applied twice
#   fault_origin($sub, $name)        position of the subscription's replication origin ('0/0' at first)
#   fault_progress($sub, $name, $from)  waits until that position has left $from (default: the one of now)
#   fault_walsender($pub, $name)     pid of the walsender of the subscription (waits for one)
#   fault_replaced($sub, $name, $pid)   waits for an apply worker with another pid -> its pid
#   fault_blocked($node, $pid, $by)  waits until the apply worker $pid, or a worker of that leader, waits for a lock (held by
#                                    $by, if given) -> the process that waits
#   fault_workers($sub)              pids of all apply workers beside the leaders; none in serial mode
#   fault_no_workers($sub, $what)    TAP: the last of them has gone (at once: whoever waited for the leader has waited for them)
#   fault_knows($sub, $setting)      does the server know pg_parallel_apply.$setting?
#   fault_setting($sub, $setting, $value)  ALTER SYSTEM SET pg_parallel_apply.$setting and reload, or nothing and false if the
#                                    server does not know it. value undef: RESET. debug_dependencies: with a new leader
#   fault_stats($sub, $name, @columns)  those of parallel_apply.stat_subscription that exist -> "column n, column n" for a note
#   fault_gate($pub, $sub)           a published table whose updates take as long on the subscriber as they say
#   fault_gate_sql($seconds)         such an update. Neither a trigger nor a lock: groups behind it can run ahead meanwhile
#   fault_gate_lock($sub)            from now on the gate is closed as long as a session holds advisory lock 1, too: it does
#                                    not matter how fast anything is. -> such a session, which does not hold it yet
#   fault_hold_behind($pub, $sub, $table)  has the oldest transaction wait for a local session, in another worker than 0, where
#                                    large ones go. $table (id, n) has the rows 1 and 2. -> the session; COMMIT lets go
#   fault_warm_up($pub, $sub)        keeps as many workers busy as there may be, so that all have been started
#   fault_in_flight($sub, $count)    waits until $count workers have a transaction open that has written something, for 5 s
#                                    at most -> whether it came to that. In serial mode at once, true
#   fault_no_crash(@nodes)           TAP: no process crashed, no server re-initialised, no assertion failed
#   fault_missing($sub, $name)       missing_rows of our view (undef when the built-in worker is tested)
#   fault_session($node, $db)        background psql session -> (session, pid of its backend)
#   fault_moved_rows($pub, $sub, %opt)  the scenario of 033, 034 and 036, see there
#   fault_applied($pub, $sub, $offset, $what, $name)  TAP: all that is committed on the publisher now is applied, and no
#                                    process that applies has logged an ERROR since $offset of the log; dies if one has
#   fault_private_kb($pid)           private memory (RssAnon) of a process, without shared buffers
#   fault_env($name, $default)       a number from the environment
package PpaFault;

use strict;
use warnings;
use Carp qw(croak);
use Exporter 'import';
use POSIX ();
use PpaTest;
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  fault_seed fault_pause fault_schema fault_load_start fault_load_resume fault_load_stop fault_equal fault_origin
  fault_progress fault_walsender fault_replaced fault_blocked fault_no_crash fault_missing fault_env
  fault_session fault_moved_rows fault_applied fault_private_kb
  fault_workers fault_no_workers fault_knows fault_setting fault_stats fault_gate fault_gate_sql fault_gate_lock fault_hold_behind
  fault_warm_up fault_in_flight
);

my %running;    # pgbench pids that must not outlive a test that dies
my $load_count = 0;

sub fault_env
{
	my ($name, $default) = @_;
	my $value = $ENV{$name};
	return $default unless defined $value && $value ne '';
	croak "$name=$value is not a whole number" unless $value =~ /^\d+$/;
	return $value;
}

sub fault_seed
{
	my $seed = fault_env('SEED', (time() * 1000 + $$) % 1_000_000_000);
	srand($seed);
	diag "random seed: repeat with SEED=$seed";
	return $seed;
}

sub fault_pause
{
	my ($min, $max) = @_;
	usleep(int(1_000_000 * ($min + rand($max - $min))));
	return;
}

# fault_log has no key: a transaction applied twice leaves its rows twice, a lost one none. fault_count shows updates in
# the wrong order, fault_move rows that come and go.
sub fault_schema
{
	my ($pub, $sub) = @_;
	ppa_both($pub, $sub, <<'SQL');
CREATE TABLE fault_log (xid bigint, client int, n int);
CREATE TABLE fault_count (id int PRIMARY KEY, version bigint);
CREATE TABLE fault_move (id int PRIMARY KEY, version bigint);
SQL
	$pub->safe_psql('postgres', 'INSERT INTO fault_count SELECT g, 0 FROM generate_series(1, 500) g');
	return;
}

my @default_scripts = (
	[ <<'SQL', 100 ],
\set id random(1, 500)
\set rows random(1, 3)
BEGIN;
INSERT INTO fault_log SELECT txid_current(), :client_id, g FROM generate_series(1, :rows) g;
UPDATE fault_count SET version = version + 1 WHERE id = :id;
COMMIT;
SQL
	[ <<'SQL', 30 ],
\set id random(1, 2000)
INSERT INTO fault_move VALUES (:id, 1) ON CONFLICT (id) DO UPDATE SET version = fault_move.version + 1;
SQL
	[ <<'SQL', 20 ],
\set id random(1, 2000)
DELETE FROM fault_move WHERE id = :id;
SQL
	[ <<'SQL', 1 ],
INSERT INTO fault_log SELECT txid_current(), :client_id, g FROM generate_series(1, 2000) g;
SQL
);

sub launch_load
{
	my ($load) = @_;
	my $pid = fork() // croak "could not fork: $!";
	if ($pid == 0)
	{
		open(STDIN, '<', '/dev/null');
		open(STDOUT, '>>', $load->{output});
		open(STDERR, '>&', \*STDOUT);
		$ENV{PGAPPNAME} = $load->{name};
		$ENV{PGOPTIONS} = $load->{options} if defined $load->{options};
		exec @{ $load->{cmd} } or POSIX::_exit(127);
	}
	$load->{pid} = $pid;
	$running{$pid} = 1;
	return;
}

sub fault_load_start
{
	my ($node, %opt) = @_;
	my $name = 'fault_load_' . ++$load_count;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my @cmd = ('pgbench', '-n', '-c', $opt{clients} // 4, '-j', 1, '-T', 100_000);
	push @cmd, "--random-seed=" . int(rand(1_000_000_000));
	push @cmd, '-R', $opt{rate} if $opt{rate};
	my $n = 0;
	foreach my $script (@{ $opt{scripts} // \@default_scripts })
	{
		my $file = "$dir/script" . $n++;
		PostgreSQL::Test::Utils::append_to_file($file, $script->[0]);
		push @cmd, '-f', $file . '@' . ($script->[1] // 1);
	}
	my $db = $opt{db} // 'postgres';
	my $load = {
		node => $node, db => $db, name => $name, output => "$dir/output",
		cmd => [ @cmd, $node->connstr($db) ], options => $opt{options}
	};
	launch_load($load);
	return $load;
}

sub fault_load_resume
{
	my ($load) = @_;
	return if waitpid($load->{pid}, POSIX::WNOHANG()) == 0;
	delete $running{ $load->{pid} };
	launch_load($load);
	return;
}

sub fault_load_stop
{
	my ($load, %opt) = @_;
	if (waitpid($load->{pid}, POSIX::WNOHANG()) == 0)
	{
		kill $_, $load->{pid} for qw(TERM CONT);
		waitpid($load->{pid}, 0);
	}
	elsif (!$opt{ended})
	{
		delete $running{ $load->{pid} };
		croak 'the load has ended by itself: ' . PostgreSQL::Test::Utils::slurp_file($load->{output});
	}
	delete $running{ $load->{pid} };
	ppa_wait_for($load->{node}, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '$load->{name}'",
		'the end of the sessions of the load', db => $load->{db});
	return;
}

sub fault_equal
{
	my ($pub, $sub, $what) = @_;
	ppa_same_table($pub, $sub, $_, "$what: $_ equal") for qw(fault_log fault_count fault_move);
	is( $sub->safe_psql('postgres',
			'SELECT count(*) FROM (SELECT 1 FROM fault_log GROUP BY xid, n HAVING count(*) > 1) d'),
		0,
		"$what: nothing applied twice");
	return;
}

sub fault_origin
{
	my ($sub, $name) = @_;
	$name //= 'sub';
	return $sub->safe_psql('postgres', <<"SQL");
SELECT coalesce(pg_replication_origin_progress('pg_' || oid, false), '0/0') FROM pg_subscription WHERE subname = '$name'
SQL
}

sub fault_progress
{
	my ($sub, $name, $from) = @_;
	$name //= 'sub';
	$from //= fault_origin($sub, $name);
	ppa_wait_for($sub, <<"SQL", 'progress of the replication origin');
SELECT coalesce(pg_replication_origin_progress('pg_' || oid, false), '0/0') <> '$from'
FROM pg_subscription WHERE subname = '$name'
SQL
	return;
}

sub fault_walsender
{
	my ($pub, $name) = @_;
	$name //= 'sub';
	my $from = "FROM pg_stat_replication WHERE application_name = '$name' AND state = 'streaming'";
	ppa_wait_for($pub, "SELECT count(*) = 1 $from", 'a walsender');
	return $pub->safe_psql('postgres', "SELECT pid $from");
}

sub fault_replaced
{
	my ($sub, $name, $pid) = @_;
	$name //= 'sub';
	ppa_wait_for($sub, <<"SQL", "a new apply worker after $pid");
SELECT count(*) = 1 FROM pg_stat_subscription WHERE subname = '$name' AND relid IS NULL AND pid <> $pid
SQL
	return ppa_worker_pid($sub, $name);
}

sub fault_blocked
{
	my ($node, $pid, $by) = @_;
	my $waits = defined $by ? "$by = ANY (pg_blocking_pids(pid))" : 'cardinality(pg_blocking_pids(pid)) > 0';
	my $processes = ppa_apply_pids_sql($pid);

	# Who blocks says which subscription it is; else our view does.
	$processes = "SELECT $pid AS pid UNION SELECT w.pid FROM parallel_apply.stat_worker w
		JOIN pg_stat_subscription s USING (subid) WHERE s.pid = $pid"
	  if !defined $by && ppa_parallel($node) && ppa_views($node);
	my $query = "FROM ($processes) p WHERE $waits";
	ppa_wait_for($node, "SELECT count(*) > 0 $query", "process $pid, or a worker of it, to wait for a lock");
	return $node->safe_psql('postgres', "SELECT coalesce(min(pid), $pid) $query");
}

sub fault_workers
{
	my ($sub) = @_;
	return split /\n/,
	  $sub->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'");
}

sub fault_no_workers
{
	my ($sub, $what) = @_;
	is(join(' ', fault_workers($sub)), '', $what);
	return;
}

sub fault_knows
{
	my ($sub, $setting) = @_;
	return 0 if ppa_builtin();
	return $sub->safe_psql('postgres', "SELECT current_setting('pg_parallel_apply.$setting', true) IS NOT NULL") eq 't';
}

sub fault_setting
{
	my ($sub, $setting, $value) = @_;
	return 0 unless fault_knows($sub, $setting);
	ppa_set($sub, "pg_parallel_apply.$setting", defined $value ? "'$value'" : undef);

	# A leader keeps its dependency table as long as it has workers.
	fault_new_leaders($sub) if $setting eq 'debug_dependencies';
	return 1;
}

sub fault_new_leaders
{
	my ($sub) = @_;
	foreach my $name (split /\n/, $sub->safe_psql('postgres', 'SELECT subname FROM pg_subscription WHERE subenabled'))
	{
		ppa_disable($sub, $name);
		ppa_enable($sub, $name);
	}
	return;
}

sub fault_stats
{
	my ($sub, $name, @columns) = @_;
	return '' unless ppa_views($sub);
	my @there = grep {
		$sub->safe_psql('postgres', <<"SQL")
SELECT count(*) FROM pg_attribute WHERE attrelid = 'parallel_apply.stat_subscription'::regclass AND attname = '$_'
SQL
	} @columns;
	return join ', ', map { "$_ " . ppa_stat($sub, $name, $_) } @there;
}

# The function of the index is called for each new version of a row. It says that it is immutable, so that the table is
# like any other for whoever decides on the order of changes.
sub fault_gate
{
	my ($pub, $sub) = @_;
	ppa_both($pub, $sub, 'CREATE TABLE gate (id int PRIMARY KEY, seconds float8)');
	$pub->safe_psql('postgres', 'INSERT INTO gate SELECT g, 0 FROM generate_series(1, 1000) g');
	$sub->safe_psql('postgres', <<'SQL');
CREATE FUNCTION gate_wait(float8) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_catalog.pg_sleep($1); RETURN $1; END $$;
CREATE INDEX ON gate (gate_wait(seconds));
SQL
	return;
}

my $gate = 0;

sub fault_gate_sql
{
	my ($seconds) = @_;
	$gate++;
	croak 'too many gates for one test' if $gate > 1000;
	return "UPDATE gate SET seconds = $seconds WHERE id = $gate;";
}

sub fault_gate_lock
{
	my ($sub) = @_;
	$sub->safe_psql('postgres', <<'SQL');
CREATE OR REPLACE FUNCTION gate_wait(float8) RETURNS float8 IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	WHILE NOT pg_catalog.pg_try_advisory_xact_lock_shared(1) LOOP
		PERFORM pg_catalog.pg_sleep(0.01);
	END LOOP;
	PERFORM pg_catalog.pg_sleep($1);
	RETURN $1;
END $$;
SQL
	my ($session) = fault_session($sub);
	return $session;
}

# A transaction in worker 0 only makes that worker busy when the one that is to wait is given out.
sub fault_hold_behind
{
	my ($pub, $sub, $table) = @_;
	my $leader = ppa_worker_pid($sub);
	foreach (1 .. 10)
	{
		my ($first, $first_pid) = fault_session($sub);
		my ($second, $second_pid) = fault_session($sub);
		$first->query_safe("BEGIN; SELECT FROM $table WHERE id = 1 FOR UPDATE");
		$second->query_safe("BEGIN; SELECT FROM $table WHERE id = 2 FOR UPDATE");
		$pub->safe_psql('postgres', "UPDATE $table SET n = n + 1 WHERE id = 1");
		ppa_flush($pub);
		fault_blocked($sub, $leader, $first_pid);
		$pub->safe_psql('postgres', "UPDATE $table SET n = n + 1 WHERE id = 2");
		ppa_flush($pub);
		$first->query_safe('COMMIT');
		$first->quit;
		my $waits = fault_blocked($sub, $leader, $second_pid);
		return $second if ppa_parallel($sub) <= 1
		  || $sub->safe_psql('postgres', "SELECT max(worker) > 0 FROM parallel_apply.stat_worker WHERE pid = $waits") eq 't';
		$second->query_safe('COMMIT');
		$second->quit;
		ppa_catchup($pub, $sub);
	}
	croak 'worker 0 is never free';
}

sub fault_warm_up
{
	my ($pub, $sub) = @_;
	my $workers = ppa_parallel($sub) or return;
	foreach (1 .. 3)
	{
		# Sent together, and yet not one group: the second half comes while the first is slow.
		$pub->safe_psql('postgres', join '', map { fault_gate_sql(0.3) } 1 .. 2 * $workers);
		ppa_flush($pub);
		ppa_catchup($pub, $sub);
		last if fault_workers($sub) >= $workers;
	}
	return;
}

sub fault_in_flight
{
	my ($sub, $count) = @_;
	return 1 unless ppa_parallel($sub);
	my $end = time() + 5;
	until (
		$sub->safe_psql('postgres', <<'SQL') >= $count)
SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE a.backend_type = 'pg_parallel_apply worker' AND l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
SQL
	{
		if (time() > $end)
		{
			diag "no $count transactions in flight at the same time";
			return 0;
		}
		usleep(10_000);
	}
	return 1;
}

sub fault_no_crash
{
	my (@nodes) = @_;
	foreach my $node (@nodes)
	{
		my @bad = grep { /terminated by signal|reinitializing|PANIC: |TRAP: / } split /\n/, ppa_log($node);
		is(scalar @bad, 0, 'no crash on the ' . $node->name) or diag join("\n", @bad);
	}
	return;
}

sub fault_missing
{
	my ($sub, $name) = @_;
	return if ppa_builtin();
	return ppa_stat($sub, $name // 'sub', 'missing_rows');
}

sub fault_session
{
	my ($node, $db) = @_;
	my $session = $node->background_psql($db // 'postgres');
	return ($session, $session->query_safe('SELECT pg_backend_pid()'));
}

sub fault_applied
{
	my ($pub, $sub, $offset, $what, $name) = @_;
	$name //= 'sub';
	ppa_flush($pub);
	my $target = $pub->lsn('write');
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
	my $done = "SELECT count(*) FROM pg_stat_replication WHERE application_name = '$name' AND replay_lsn >= '$target'";
	my (@errors, $applied);
	until (@errors || $applied)
	{
		croak "timed out waiting until it is applied: $what" if time() > $end;
		usleep(50_000);
		$applied = $pub->safe_psql('postgres', $done);
		@errors = map { "$_->{text} ($_->{context})" }
		  grep { $_->{level} eq 'ERROR' && $_->{backend} =~ /logical replication|pg_parallel_apply/ } ppa_log_entries($sub, $offset);
	}

	# The worker tries again and again: nothing that follows would be reached.
	is($errors[0], undef, "$what: applied without an error") or croak "the subscription stands still: $what";
	return;
}

sub fault_private_kb
{
	my ($pid) = @_;
	my ($kb) = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m
	  or croak "no RssAnon of $pid";
	return $kb;
}

# Local sessions update a column that only the subscriber has while the publisher updates the same rows. That column is
# indexed, so each local update moves the row to a place with a new entry in the primary key: a lookup that began before
# may see neither the old nor the new version. Every local update is recorded in local_done by its own transaction.
# Options: trigger => 1: BEFORE ROW triggers ENABLE ALWAYS on the subscriber, which count the updates and record the
# deletes; seconds; local_options => PGOPTIONS of the local sessions.
sub fault_moved_rows
{
	my ($pub, $sub, %opt) = @_;
	fault_schema($pub, $sub);
	$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE moved (id int PRIMARY KEY, version bigint DEFAULT 0);
CREATE TABLE victim (id int PRIMARY KEY, version bigint DEFAULT 0);
INSERT INTO moved SELECT g FROM generate_series(1, 200) g;
CREATE TABLE once (id int PRIMARY KEY, version bigint DEFAULT 0);
CREATE SEQUENCE once_id;
INSERT INTO once SELECT g FROM generate_series(1, 60000) g;
INSERT INTO victim SELECT g FROM generate_series(1, 50) g;
SQL
	$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE moved (id int PRIMARY KEY, version bigint, local_n bigint DEFAULT 0, trigger_n bigint DEFAULT 0);
CREATE INDEX ON moved (local_n);
CREATE TABLE once (LIKE moved INCLUDING ALL);
CREATE INDEX ON fault_log (n);
CREATE TABLE victim (id int PRIMARY KEY, version bigint, local_n bigint DEFAULT 0);
CREATE INDEX ON victim (local_n);
CREATE TABLE local_done (id int);
SQL
	if ($opt{trigger})
	{
		# victim_deleted on the publisher is filled by the clients themselves and is not published.
		ppa_both($pub, $sub, 'CREATE TABLE victim_deleted (id int, version bigint)');
		$sub->safe_psql('postgres', <<'SQL');
CREATE FUNCTION count_update() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.trigger_n := OLD.trigger_n + 1; RETURN NEW; END $$;
CREATE FUNCTION record_delete() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public.victim_deleted VALUES (OLD.id, OLD.version); RETURN OLD; END $$;
CREATE TRIGGER count_update BEFORE UPDATE ON moved FOR EACH ROW EXECUTE FUNCTION count_update();
CREATE TRIGGER count_update BEFORE UPDATE ON once FOR EACH ROW EXECUTE FUNCTION count_update();
CREATE TRIGGER record_delete BEFORE DELETE ON victim FOR EACH ROW EXECUTE FUNCTION record_delete();
ALTER TABLE moved ENABLE ALWAYS TRIGGER count_update;
ALTER TABLE once ENABLE ALWAYS TRIGGER count_update;
ALTER TABLE victim ENABLE ALWAYS TRIGGER record_delete;
SQL
	}
	ppa_subscribe($pub, $sub, tables => 'TABLE fault_log, fault_count, fault_move, moved, once, victim');

	my $record = $opt{trigger} ? 'INSERT INTO victim_deleted SELECT id, version FROM d;' : 'SELECT 1 FROM d;';
	# A later update of a row of moved repairs a lost one. Each row of once is updated once, in the order of its key, and
	# the local sessions move the rows that come next.
	my @remote = ([ <<'SQL', 3 ], [ <<'SQL', 3 ]);
\set id random(1, 200)
UPDATE moved SET version = version + 1 WHERE id = :id;
SQL
SELECT nextval('once_id') AS id \gset
BEGIN;
UPDATE once SET version = 1 WHERE id = :id;
INSERT INTO fault_log SELECT txid_current(), :client_id, :id;
COMMIT;
SQL
	my @local = ([ <<'SQL', 3 ], [ <<'SQL', 3 ]);
\set id random(1, 200)
WITH u AS (UPDATE moved SET local_n = local_n + 1 WHERE id = :id RETURNING id) INSERT INTO local_done SELECT id FROM u;
SQL
\set ahead random(1, 20)
WITH u AS (UPDATE once SET local_n = local_n + 1
	WHERE id = (SELECT coalesce(max(n), 0) FROM fault_log) + :ahead RETURNING id)
INSERT INTO local_done SELECT -id FROM u;
SQL

	# A delete that finds no row makes the next insert of the key fail for ever. The built-in worker of 15 runs into
	# that, see below.
	unless (ppa_builtin())
	{
		push @remote, [ <<"SQL", 1 ], [ <<'SQL', 2 ];
\\set id random(1, 50)
WITH d AS (DELETE FROM victim WHERE id = :id RETURNING id, version) $record
SQL
\set id random(1, 50)
INSERT INTO victim VALUES (:id, 1) ON CONFLICT (id) DO UPDATE SET version = victim.version + 1;
SQL
		push @local, [ <<'SQL', 2 ];
\set id random(1, 50)
UPDATE victim SET local_n = local_n + 1 WHERE id = :id;
SQL
	}
	my @loads = (
		fault_load_start($pub, clients => 4, scripts => \@remote, rate => 1000),
		fault_load_start($sub, clients => 8, scripts => \@local,
			options => '-c synchronous_commit=off ' . ($opt{local_options} // '')));
	fault_pause($opt{seconds}, $opt{seconds});
	fault_load_stop($_) for @loads;
	ppa_catchup($pub, $sub);
	diag sprintf('%s remote and %s local updates',
		$pub->safe_psql('postgres', 'SELECT sum(version) FROM moved'),
		$sub->safe_psql('postgres', 'SELECT count(*) FROM local_done'));

	# The local columns first: these hold for the built-in worker too.
	is( $sub->safe_psql('postgres', <<'SQL'), '', 'no local update lost');
SELECT t.id, t.local_n, coalesce(d.n, 0)
FROM (SELECT id, local_n FROM moved UNION ALL SELECT -id, local_n FROM once) t
	LEFT JOIN (SELECT id, count(*) AS n FROM local_done GROUP BY id) d USING (id)
WHERE t.local_n <> coalesce(d.n, 0) LIMIT 5
SQL
	cmp_ok($sub->safe_psql('postgres', 'SELECT count(*) FROM local_done'), '>', 100, 'there were local updates');
	fault_equal($pub, $sub, 'other tables');
	if (ppa_builtin())
	{
		# Its lookup misses rows that move meanwhile (an open bug in all stock versions): nothing to compare.
		diag 'built in: lost remote updates: '
		  . ($pub->safe_psql('postgres', 'SELECT sum(version) FROM once') -
			  $sub->safe_psql('postgres', 'SELECT sum(version) FROM once'));
		return;
	}
	ppa_same_table($pub, $sub, 'moved', 'no remote update lost', cols => 'id, version');
	ppa_same_table($pub, $sub, 'once', 'no remote update of a row that moves lost', cols => 'id, version');
	ppa_same_table($pub, $sub, 'victim', 'no remote delete lost', cols => 'id, version');
	is(fault_missing($sub), 0, 'no row was missing');
	if ($opt{trigger})
	{
		is($sub->safe_psql('postgres', "SELECT * FROM $_ WHERE trigger_n <> version + local_n LIMIT 5"),
			'', "the trigger saw each update of $_ once")
		  for qw(moved once);
		ppa_same_table($pub, $sub, 'victim_deleted', 'the trigger saw each delete once');
	}
	return;
}

END
{
	# Keep the exit status of the test.
	my $status = $?;
	foreach my $pid (keys %running)
	{
		kill $_, $pid for qw(TERM CONT);
		waitpid($pid, 0);
	}
	$? = $status;
}

1;
