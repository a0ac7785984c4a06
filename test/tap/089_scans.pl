# 089_scans.pl: many rows of a table with REPLICA IDENTITY FULL and no index, changed by one statement.
# Shows: each is looked for from where the last one was found, so that few pages are read for it; rows that lie before
# that place, and a table that has become shorter, are no obstacle.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaFault;
use PpaTest;
use Test::More;

use constant ROWS => 5000;

my ($pub, $sub) = ppa_pair(sub_conf => 'autovacuum = off');
ppa_both($pub, $sub, 'CREATE TABLE f (id int, n int, filler text); ALTER TABLE f REPLICA IDENTITY FULL');
ppa_subscribe($pub, $sub, tables => 'TABLE f');
my $offset = ppa_log_pos($sub);

# The pages of f that have been looked at.  The worker's counts are up to date once it has gone.
sub pages
{
	ppa_disable($sub);
	my $pages = $sub->safe_psql('postgres',
		"SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables WHERE relname = 'f'");
	ppa_enable($sub);
	return $pages;
}

sub table_pages
{
	return $sub->safe_psql('postgres', q{SELECT pg_relation_size('f') / current_setting('block_size')::int});
}

# Pages per row that a statement costs.
sub cost
{
	my ($statement, $rows, $what) = @_;
	my $before = pages();
	$pub->safe_psql('postgres', $statement);
	fault_applied($pub, $sub, $offset, $what);
	my $cost = (pages() - $before) / $rows;
	ppa_same_table($pub, $sub, 'f', "$what: equal");
	note sprintf '%s: %.1f pages per row, the table has %d', $what, $cost, table_pages();
	return $cost;
}

$pub->safe_psql('postgres', "INSERT INTO f SELECT g, 0, repeat('x', 100) FROM generate_series(1, ${\ROWS}) g");
fault_applied($pub, $sub, $offset, 'rows');
my $missing = fault_missing($sub);
cmp_ok(table_pages(), '>', 50, 'the table has many pages');

# Without the place it would be half the table for each.
foreach my $what ('all rows', 'all rows again')
{
	my $cost = cost('UPDATE f SET n = n + 1', ROWS, $what);
	cmp_ok($cost, '<', 10, "$what: few pages for each") unless ppa_builtin();
}
cost("UPDATE f SET n = n + 1 WHERE id = $_", 1, "row $_, alone") foreach (ROWS, 1, ROWS / 2, 2);
cost("DELETE FROM f WHERE id % 50 <> 0", ROWS * 49 / 50, 'most rows deleted');

# The place is near the end when the table becomes shorter.
$pub->safe_psql('postgres', 'UPDATE f SET n = -1 WHERE id = ' . ROWS);
fault_applied($pub, $sub, $offset, 'the last row');
my $long = table_pages();
ppa_both($pub, $sub, 'VACUUM FULL f');
cmp_ok(table_pages(), '<', $long / 10, 'the table is shorter');
cost('UPDATE f SET n = n + 1', ROWS / 50, 'the rest');
$pub->safe_psql('postgres', 'UPDATE f SET n = -1 WHERE id = ' . ROWS);
cost('TRUNCATE f', 1, 'truncated');
cost(q{INSERT INTO f VALUES (1, 1, 'y')}, 1, 'a new row');
cost('DELETE FROM f', 1, 'and gone');
is(fault_missing($sub), $missing, 'no row was missing') unless ppa_builtin();
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
