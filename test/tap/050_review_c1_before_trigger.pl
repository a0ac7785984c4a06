# 050_review_c1_before_trigger.pl: review finding C1. A BEFORE ROW trigger that fires for applied changes meets a row that a
# local session changes, deletes or only locks meanwhile, with other groups in front of it and behind it.
# Shows: no crash; the change is applied to the version that the local session left, the trigger sees exactly that version,
# once; a row that is gone is missing, and the trigger does not fire.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
# Rows 1 .. 6 are met by a local session, one case each. quiet has no trigger: its groups run ahead where that is allowed.
my ($pub, $sub) = ppa_pair();
ppa_both($pub, $sub, 'CREATE TABLE quiet (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, version int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
INSERT INTO quiet SELECT g, 0 FROM generate_series(1, 100) g;
SQL
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, version int, note text DEFAULT 'old');
CREATE TABLE saw (nr serial, op text, id int, version int, note text);
CREATE FUNCTION saw() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.saw (op, id, version, note) VALUES (TG_OP, OLD.id, OLD.version, OLD.note);
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER saw BEFORE UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION saw();
ALTER TABLE t ENABLE REPLICA TRIGGER saw;
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);
my $missing = fault_missing($sub);

# [id, remote, what the local session does, its end, what the trigger sees, the row afterwards]
my @cases = (
	[ 1, 'UPDATE', q{UPDATE t SET note = 'new' WHERE id = 1}, 'COMMIT', 'UPDATE|1|0|new', '1|1|new' ],
	[ 2, 'UPDATE', q{UPDATE t SET note = 'new' WHERE id = 2}, 'ROLLBACK', 'UPDATE|2|0|old', '2|1|old' ],
	[ 3, 'UPDATE', 'DELETE FROM t WHERE id = 3', 'COMMIT', '', '' ],
	[ 4, 'DELETE', q{UPDATE t SET note = 'new' WHERE id = 4}, 'COMMIT', 'DELETE|4|0|new', '' ],
	[ 5, 'DELETE', 'DELETE FROM t WHERE id = 5', 'COMMIT', '', '' ],
	[ 6, 'UPDATE', 'SELECT FROM t WHERE id = 6 FOR UPDATE', 'COMMIT', 'UPDATE|6|0|old', '6|1|old' ]);
foreach my $case (@cases)
{
	my ($id, $command, $hold, $end, $saw, $row) = @$case;
	my $what = "$command, local $hold, $end";
	my ($local, $local_pid) = fault_session($sub);
	$local->query_safe("BEGIN; $hold");
	my $remote = $command eq 'UPDATE' ? "UPDATE t SET version = 1 WHERE id = $id" : "DELETE FROM t WHERE id = $id";

	# One by one, so that they are groups of their own.
	$pub->safe_psql('postgres', "UPDATE quiet SET n = n + 1 WHERE id = $_") for 1 .. 5;
	$pub->safe_psql('postgres', $remote);
	$pub->safe_psql('postgres', "UPDATE quiet SET n = n + 1 WHERE id = $_") for 3 .. 8;
	fault_blocked($sub, ppa_worker_pid($sub), $local_pid);
	$local->query_safe($end);
	$local->quit;
	fault_applied($pub, $sub, $offset, $what);
	is($sub->safe_psql('postgres', "SELECT op, id, version, note FROM saw WHERE id = $id ORDER BY nr"), $saw, "$what: what the trigger saw");
	is($sub->safe_psql('postgres', "SELECT * FROM t WHERE id = $id"), $row, "$what: the row");
}
ppa_same_table($pub, $sub, 'quiet', 'the table without a trigger is equal');
is(fault_missing($sub) - $missing, 2, 'two rows were missing') unless ppa_builtin();

# ---- a backlog over all rows while local sessions change the same rows
# The note is their count; the trigger counts in saw. Nothing of either may be lost.
$sub->safe_psql('postgres', q{TRUNCATE saw; UPDATE t SET note = '0'; CREATE TABLE local_done (id int)});
my $local = fault_load_start($sub, clients => 4, scripts => [ [ <<'SQL' ] ], options => '-c synchronous_commit=off');
\set id random(7, 100)
WITH u AS (UPDATE t SET note = note::int + 1 WHERE id = :id RETURNING id) INSERT INTO local_done SELECT id FROM u;
SQL
ppa_backlog($pub, $sub, 'sub', sub {
	$pub->safe_psql('postgres', join '', map {
		my $id = 7 + $_ % 94;
		"UPDATE t SET version = version + 1 WHERE id = $id; UPDATE quiet SET n = n + 1 WHERE id = $id;"
	} 1 .. 1000);
});
fault_applied($pub, $sub, $offset, 'backlog against local updates');
fault_load_stop($local);
is( $sub->safe_psql('postgres', <<'SQL'), '', 'no local update lost');
SELECT t.id, t.note, d.n FROM t LEFT JOIN (SELECT id, count(*) AS n FROM local_done GROUP BY id) d USING (id)
WHERE id > 6 AND t.note::int <> coalesce(d.n, 0)
SQL

# The built-in worker of 15 misses rows that are moved meanwhile.
unless (ppa_builtin())
{
	is( $sub->safe_psql('postgres', q{SELECT count(*), count(DISTINCT (id, version)) FROM saw WHERE op = 'UPDATE' AND id > 6}),
		'1000|1000', 'the trigger saw each update once');
	ppa_same_table($pub, $sub, 't', 'no remote update lost', cols => 'id, version', where => 'id > 6');
}
ppa_same_table($pub, $sub, 'quiet', 'quiet equal');
fault_no_crash($pub, $sub);
done_testing();
