# 071_blocked_by_later.pl: review finding H2. The oldest transaction in flight is blocked by a later one: by a unique value that
# the leader cannot know of, by a row, through a local session that waits itself, through a chain of two,
# through queued DDL.
# Shows: it is freed, by the later one giving way, and never by waiting for deadlock_timeout, which is longer than any wait
# of this test; the result is the serial one; local sessions get no error. ROUNDS (default 2).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $rounds = fault_env('ROUNDS', 2);
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE u (id int PRIMARY KEY, v text); CREATE TABLE r (id int PRIMARY KEY, n int, note text); CREATE TABLE s (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'INSERT INTO r SELECT g, 0 FROM generate_series(1, 100) g; INSERT INTO s SELECT g, 0 FROM generate_series(1, 100) g');

# Unique over an expression, only here.
$sub->safe_psql('postgres', 'CREATE UNIQUE INDEX ON u (lower(v)); ALTER TABLE r ADD own int DEFAULT 0');
ppa_subscribe($pub, $sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my $offset = ppa_log_pos($sub);

# A session that runs all of $sql and may have to wait in the middle of it.
sub begin_session
{
	my ($sql) = @_;
	my ($session, $pid) = fault_session($sub);
	$session->query_until(qr/sent/, "\\echo sent\n$sql\n");
	return $session;
}

sub end_sessions
{
	my ($what, @sessions) = @_;
	foreach my $session (@sessions)
	{
		is($session->query('SELECT 7'), 7, "$what: the local session goes on");
		$session->quit;
	}
	return;
}

# The oldest transaction is slow first, and comes to $sql when those behind it (@later) have been executed.
sub behind_gate
{
	my ($sql, @later) = @_;
	$pub->safe_psql('postgres', join ";\n", 'BEGIN', fault_gate_sql(1.5) . " $sql", 'COMMIT', @later);
	ppa_flush($pub);
	return;
}

sub check
{
	my ($what) = @_;
	fault_applied($pub, $sub, $offset, $what);
	ppa_same_table($pub, $sub, $_, "$what: $_ equal", cols => $_ eq 'r' ? 'id, n, note' : '*') for qw(u r s);
	return;
}

my $id = 0;
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	fault_warm_up($pub, $sub);
	foreach my $round (1 .. $rounds)
	{
		my $what = "$guess, $round";

		# ---- a unique value: the row is inserted, deleted, and the value inserted in another row
		$id += 10;
		my ($one, $two) = ($id + 1, $id + 2);
		behind_gate("INSERT INTO u VALUES ($one, 'value$id')", "DELETE FROM u WHERE id = $one", "INSERT INTO u VALUES ($two, 'VALUE$id')", "UPDATE s SET n = n + 1 WHERE id = 1");
		fault_in_flight($sub, 2);
		check("$what: unique value");

		# ---- a row that a later one has changed: only without dependencies
		behind_gate('UPDATE r SET n = 1 WHERE id = 1', 'UPDATE r SET n = 2 WHERE id = 1', 'UPDATE r SET n = n + 1 WHERE id = 1', 'DELETE FROM s WHERE id = 100', 'INSERT INTO s VALUES (100, 0)');
		fault_in_flight($sub, 1 + ($guess eq 'none'));
		check("$what: row");

		# ---- through a local session: it holds row 2 and waits for row 3
		behind_gate('UPDATE r SET n = n + 1 WHERE id = 2', 'UPDATE r SET n = n + 1 WHERE id = 3', 'UPDATE s SET n = n + 1 WHERE id = 2');
		fault_in_flight($sub, 2);
		my $session = begin_session('BEGIN; UPDATE r SET own = own + 1 WHERE id = 2; UPDATE r SET own = own + 1 WHERE id = 3; COMMIT;');
		check("$what: through a local session");
		end_sessions("$what: through a local session", $session);

		# ---- through two: the first holds row 4 and waits for the second's row 5, which waits for row 6
		behind_gate('UPDATE r SET n = n + 1 WHERE id = 4', 'UPDATE s SET n = n + 1 WHERE id = 3', 'UPDATE r SET n = n + 1 WHERE id = 6', 'UPDATE r SET n = n + 1 WHERE id = 7');
		fault_in_flight($sub, 2);
		my $second = begin_session('BEGIN; UPDATE r SET own = own + 1 WHERE id = 5; UPDATE r SET own = own + 1 WHERE id = 6; COMMIT;');
		my $first = begin_session('BEGIN; UPDATE r SET own = own + 1 WHERE id = 4; UPDATE r SET own = own + 1 WHERE id = 5; COMMIT;');
		check("$what: through two local sessions");
		end_sessions("$what: through two local sessions", $first, $second);

		# ---- queued DDL: it waits for a later one that has changed s, and the oldest queues behind it
		behind_gate('UPDATE s SET n = n + 1 WHERE id = 4', 'UPDATE s SET n = n + 1 WHERE id = 5', 'UPDATE r SET n = n + 1 WHERE id = 8');
		fault_in_flight($sub, 2);
		$session = begin_session("ALTER TABLE s SET (fillfactor = " . (50 + $id % 50) . ");");
		check("$what: queued DDL");
		end_sessions("$what: queued DDL", $session);

		# ---- a table lock that a local session holds, and waits for the row of a later one
		behind_gate('UPDATE s SET n = n + 1 WHERE id = 6', 'UPDATE r SET n = n + 1 WHERE id = 9', 'UPDATE r SET n = n + 1 WHERE id = 10');
		fault_in_flight($sub, 2);
		$session = begin_session('BEGIN; LOCK TABLE s IN SHARE MODE; UPDATE r SET own = own + 1 WHERE id = 10; COMMIT;');
		check("$what: table lock");
		end_sessions("$what: table lock", $session);
	}
	note "$guess: " . fault_stats($sub, 'sub', qw(groups groups_aborted groups_alone retries_unique retries_missing retries_deadlock retries_other));
}
is($sub->safe_psql('postgres', 'SELECT sum(own) FROM r'), (ppa_parallel($sub) && fault_knows($sub, 'debug_dependencies') ? 2 : 1) * $rounds * 7, 'no local update lost');
is($sub->safe_psql('postgres', q{SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'}), 0, 'no deadlock counted');
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
if (ppa_parallel($sub) && ppa_views($sub))
{
	cmp_ok(ppa_stat($sub, 'sub', 'groups_aborted'), '>', 0, 'later groups have given way');
}
fault_no_crash($pub, $sub);
done_testing();
