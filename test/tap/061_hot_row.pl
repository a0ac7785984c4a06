# 061_hot_row.pl: 16 clients of the publisher update one hot row and a private row each, in either order, in one transaction
# or in two.
# Shows: equal, without a deadlock and without ever waiting for deadlock_timeout, which is longer than any wait of this test.
# TRANSACTIONS per client (default 150).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $transactions = fault_env('TRANSACTIONS', 150);
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
ppa_both($pub, $sub, 'CREATE TABLE hot (id int PRIMARY KEY, n bigint, note text); CREATE TABLE private (id int PRIMARY KEY, n bigint); CREATE TABLE done (client int, n bigint)');
$pub->safe_psql('postgres', 'INSERT INTO hot VALUES (1, 0), (2, 0); INSERT INTO private SELECT g, 0 FROM generate_series(0, 15) g');
ppa_subscribe($pub, $sub);
my @scripts = (<<'SQL', <<'SQL', <<'SQL', <<'SQL');
BEGIN;
UPDATE hot SET n = n + 1 WHERE id = 1;
UPDATE private SET n = n + 1 WHERE id = :client_id;
COMMIT;
SQL
BEGIN;
UPDATE private SET n = n + 1 WHERE id = :client_id;
UPDATE hot SET n = n + 1, note = :client_id WHERE id = 1;
INSERT INTO done SELECT :client_id, n FROM hot WHERE id = 1;
COMMIT;
SQL
UPDATE private SET n = n + 1 WHERE id = :client_id;
UPDATE hot SET n = n + 1 WHERE id = 2;
SQL
BEGIN;
UPDATE hot SET n = n + 1 WHERE id = 1;
UPDATE hot SET n = n + 1 WHERE id = 2;
SAVEPOINT s;
UPDATE private SET n = n + 1 WHERE id = :client_id;
ROLLBACK TO s;
UPDATE private SET n = n + 2 WHERE id = :client_id;
COMMIT;
SQL

sub run
{
	my ($what) = @_;
	my $offset = ppa_log_pos($sub);
	ppa_load_finish(ppa_load_start($pub, script => \@scripts, clients => 16, transactions => $transactions));
	fault_applied($pub, $sub, $offset, $what) unless $what =~ /backlog/;
	return $offset;
}
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	run("live, $guess");
	my $offset;
	ppa_backlog($pub, $sub, 'sub', sub { $offset = run("backlog, $guess") });
	fault_applied($pub, $sub, $offset, "backlog, $guess");
	ppa_same_table($pub, $sub, $_, "$guess: $_ equal") for qw(hot private done);
	note "$guess: " . fault_stats($sub, 'sub', qw(groups groups_aborted retries_missing retries_deadlock retries_other groups_alone));
}
is($sub->safe_psql('postgres', q{SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'}), 0, 'no deadlock counted');
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
