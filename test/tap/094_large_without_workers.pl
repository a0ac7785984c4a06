# 094_large_without_workers.pl: the first transaction after workers = 0 is large, describes a known table anew in its middle, and there
# is no background worker for it: the leader begins to forward it, and then has to apply it by itself.
# Shows: all of it is applied, and changes before the new description are read by the old one.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

# The launcher and the leader take two.
my ($pub, $sub) = ppa_pair(sub_conf => "max_worker_processes = 2\nmax_logical_replication_workers = 1");
$pub->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, a text, b text, c text)');
$sub->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, a text, b text, c text)');
ppa_subscribe($pub, $sub, with => 'copy_data = false');
$pub->safe_psql('postgres', "INSERT INTO t VALUES (0)");
my $offset = ppa_log_pos($sub);
my $first = 0;
foreach my $column (qw(a b))
{
	foreach my $bytes (1000, 1_500_000)
	{
		my $rows = int($bytes / 100);
		my $what = "column $column dropped after $bytes bytes";
		my $next = $first + $rows + 1;

		# A new leader: another one would not ask for workers again so soon. It knows the table when they are to come.
		ppa_disable($sub);
		fault_setting($sub, 'workers', 0);
		ppa_enable($sub);
		$pub->safe_psql('postgres', 'UPDATE t SET c = c WHERE id = 0');
		ppa_catchup($pub, $sub);
		fault_setting($sub, 'workers', 2);
		$pub->safe_psql('postgres', <<"SQL");
BEGIN;
INSERT INTO t (id, a, b, c) SELECT $first + g, 'a' || g, 'b' || g, repeat('c', 90) FROM generate_series(1, $rows) g;
ALTER TABLE t DROP COLUMN $column;
INSERT INTO t (id, c) SELECT $next + g, repeat('d', 100) FROM generate_series(1, 30000) g;
COMMIT;
SQL
		fault_applied($pub, $sub, $offset, $what);
		is($sub->safe_psql('postgres', "SELECT a, b, left(c, 1), count(*) FROM t WHERE id = $first + 1 GROUP BY 1, 2, 3"),
			'a1|b1|c|1', "$what: each value in its column");
		is($sub->safe_psql('postgres', "SELECT count(*) FROM t WHERE id BETWEEN $first + 1 AND $first + $rows AND a = 'a' || (id - $first) AND b = 'b' || (id - $first)"),
			$rows, "$what: in all rows");
		ppa_same_table($pub, $sub, 't', "$what: what the publisher still has is equal", cols => 'id, c');
		$first = $next + 30000;
		$pub->safe_psql('postgres', "ALTER TABLE t ADD COLUMN $column text");
		ppa_catchup($pub, $sub);
	}
}
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
