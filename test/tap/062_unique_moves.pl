# 062_unique_moves.pl: unique values that move between rows, in separate transactions: delete a row and insert a new one with
# the same e-mail, swap values over a third one, hand them round; next to tables that have nothing to do with it.
# Shows: equal and no error reported, with the publisher's unique index on the subscriber, with one that only the subscriber
# has, and with one whose value is an expression there. TRANSACTIONS per client (default 400), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $transactions = fault_env('TRANSACTIONS', 400);
fault_seed();
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');

# Unique over lower(email) on the subscriber; the publisher's values differ in case from one row to the next.
my @tables = qw(both_unique sub_unique sub_expression);
ppa_both($pub, $sub, join '', map { "CREATE TABLE $_ (id bigint PRIMARY KEY, email text, n int DEFAULT 0);" } @tables, 'other_1', 'other_2');
ppa_both($pub, $sub, 'CREATE UNIQUE INDEX ON both_unique (email)');
$sub->safe_psql('postgres', 'CREATE UNIQUE INDEX ON sub_unique (email); CREATE UNIQUE INDEX ON sub_expression (lower(email))');
$pub->safe_psql('postgres', 'CREATE SEQUENCE ids START 1000001');
$pub->safe_psql('postgres', "INSERT INTO $_ SELECT g, 'mail' || g FROM generate_series(1, 16) g") for @tables;
$pub->safe_psql('postgres', "INSERT INTO $_ SELECT g, 'mail' || g FROM generate_series(1, 100) g") for qw(other_1 other_2);
ppa_subscribe($pub, $sub);

# Each client has an e-mail of its own, and the row that holds it. Free for a moment between two transactions.
my (@moves, @others);
foreach my $table (@tables)
{
	push @moves, <<"SQL", <<"SQL";
SELECT nextval('ids') AS id \\gset
DELETE FROM $table WHERE lower(email) = 'mail' || (:client_id + 1);
INSERT INTO $table VALUES (:id, CASE WHEN :id % 2 = 0 AND '$table' <> 'both_unique' THEN 'mail' ELSE 'MAIL' END || (:client_id + 1));
SQL
SELECT nextval('ids') AS id \\gset
SELECT nextval('ids') AS other \\gset
INSERT INTO $table VALUES (:id, 'tmp' || :id);
UPDATE $table SET email = email || '-', n = n + 1 WHERE lower(email) = 'mail' || (:client_id + 1);
UPDATE $table SET email = 'mail' || (:client_id + 1) WHERE id = :id;
DELETE FROM $table WHERE email LIKE '%-' AND lower(email) = 'mail' || (:client_id + 1) || '-';
BEGIN;
DELETE FROM $table WHERE id = :id;
INSERT INTO $table VALUES (:other, 'Mail' || (:client_id + 1));
COMMIT;
SQL
}
@others = (<<'SQL', <<'SQL');
\set id random(1, 100)
UPDATE other_1 SET n = n + 1 WHERE id = :id;
SQL
\set id random(1, 100)
UPDATE other_2 SET n = n + 1 WHERE id = :id;
SQL

foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	my $what = "dependencies: $guess";
	my $offset = ppa_log_pos($sub);

	# Live, then as a backlog.
	my @run = (script => [ @moves, @others, @others ], clients => 8, transactions => $transactions);
	ppa_load_finish(ppa_load_start($pub, @run));
	fault_applied($pub, $sub, $offset, "$what, live");
	ppa_backlog($pub, $sub, 'sub', sub { ppa_load_finish(ppa_load_start($pub, @run)) });
	fault_applied($pub, $sub, $offset, "$what, backlog");
	ppa_same_table($pub, $sub, $_, "$what: $_ equal") for @tables, qw(other_1 other_2);
	note "$what: " . fault_stats($sub, 'sub', qw(groups dependency_waits groups_aborted retries_unique retries_missing retries_other relations_ordered));
}
is(ppa_error_count($sub), 0, 'no apply error');
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
is($sub->safe_psql('postgres', q{SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'}), 0, 'no deadlock counted');
if (ppa_parallel($sub) > 1 && ppa_views($sub))
{
	cmp_ok($sub->safe_psql('postgres', 'SELECT count(*) FROM parallel_apply.stat_worker WHERE groups_total > 0'), '>', 1, 'several workers have applied');
}
fault_no_crash($pub, $sub);
done_testing();
