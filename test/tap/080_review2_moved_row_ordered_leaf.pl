# 080_review2_moved_row_ordered_leaf.pl: second review. An UPDATE moves a row into a partition whose changes are ordered, for an
# exclusion constraint that only this partition has. The worker learns that when it has found the row already, and lets go
# of it while it waits for the transactions before its own.
# Shows: the row is looked for again. What the transactions before, and local sessions, have made of it meanwhile moves; no
# attempt fails, and the table that it leaves does not grow.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
fault_gate($pub, $sub);

# The long note is not sent when the row moves: it comes from the row that was found.
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE moved (id int, region int, n int, note text, PRIMARY KEY (id, region));
ALTER TABLE moved ALTER note SET STORAGE EXTERNAL;
INSERT INTO moved SELECT g, 1, 0, repeat('note' || g, 1000) FROM generate_series(1, 30) g;
SQL
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE moved (id int, region int, n int, note text, own int DEFAULT 0, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE moved_from PARTITION OF moved FOR VALUES IN (1);
CREATE TABLE moved_to (own int DEFAULT 0, note text, n int, region int NOT NULL, id int NOT NULL, EXCLUDE (id WITH =));
ALTER TABLE moved ATTACH PARTITION moved_to FOR VALUES IN (2);
SQL
ppa_subscribe($pub, $sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my $holder = fault_gate_lock($sub);
my $offset = ppa_log_pos($sub);
my $size = $sub->safe_psql('postgres', q{SELECT pg_relation_size('moved_from')});
my $id = 0;
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	fault_warm_up($pub, $sub);

	# The first of three rows is moved as it is, the second is changed by the transaction at the gate, the third by a local
	# session while somebody waits to move it.
	my ($plain, $by_head, $by_local) = map { $id + $_ } 1 .. 3;
	$id += 3;
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$pub->safe_psql('postgres', join "\n", 'BEGIN;', fault_gate_sql(0.01), "UPDATE moved SET n = n + 1 WHERE id = $by_head;", 'COMMIT;',
		map { "UPDATE moved SET region = 2 WHERE id = $_;" } $plain, $by_head, $by_local);
	ppa_flush($pub);
	if (ppa_parallel($sub) > 3)
	{
		# The leader has the second wait behind the one at the gate, in its worker, if it knows of that.
		my $want = $guess eq 'table' ? 2 : 3;
		ppa_views($sub);
		ppa_wait_for($sub, <<"SQL", 'the workers that move rows to wait for the one at the gate');
SELECT count(*) = $want FROM parallel_apply.stat_worker WHERE wait = 'dependency' AND relation = 'public.moved'
SQL
	}
	$sub->safe_psql('postgres', "UPDATE moved SET own = 7 WHERE id = $by_local");
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	fault_applied($pub, $sub, $offset, $guess);
	ppa_same_table($pub, $sub, 'moved', "$guess: equal", cols => 'id, region, n, note');
	is($sub->safe_psql('postgres', "SELECT id, n, own FROM moved_to WHERE id > $id - 3 ORDER BY id"),
		"$plain|0|0\n$by_head|1|0\n$by_local|0|7", "$guess: what was done to the rows meanwhile has moved with them");
	is($sub->safe_psql('postgres', q{SELECT pg_relation_size('moved_from')}), $size, "$guess: the partition that they leave has not grown");
}
unless (ppa_builtin())
{
	is(ppa_stat($sub, 'sub', 'retries_other'), 0, 'no attempt has failed') if ppa_views($sub);
	is(fault_missing($sub), 0, 'no row was missing');
}
is(ppa_error_count($sub), 0, 'no apply error');
$holder->quit;
fault_no_crash($pub, $sub);
done_testing();
