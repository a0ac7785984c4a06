# 018_review_missing_rows.pl: rows that are not there, in a table with REPLICA IDENTITY FULL and no index.
# Shows: each is counted, at the cost of one scan of the table if nobody else writes and two if somebody does; a row that
# a local session is inserting is waited for.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaFault;
use PpaTest;
use Test::More;

# Autovacuum would scan the table, and be somebody who writes.
my ($pub, $sub) = ppa_pair(sub_conf => 'autovacuum = off');
ppa_both($pub, $sub, 'CREATE TABLE f (id int, n int); ALTER TABLE f REPLICA IDENTITY FULL; CREATE TABLE other (id int)');
$pub->safe_psql('postgres', 'INSERT INTO f SELECT g, 0 FROM generate_series(1, 500) g');
ppa_subscribe($pub, $sub, tables => 'TABLE f');
my $offset = ppa_log_pos($sub);

# The worker's counts are up to date once it has gone.
sub scans
{
	ppa_disable($sub);
	my $scans = $sub->safe_psql('postgres', "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'f'");
	ppa_enable($sub);
	return $scans;
}

# [first of 50 rows, whether half of them are missing, whether a local session has a transaction open, scans per row]
foreach my $case ([ 1, 0, 0, 1 ], [ 101, 1, 0, 1 ], [ 201, 1, 1, 2 ], [ 301, 0, 1, 1 ])
{
	my ($first, $missing, $writer, $per_row) = @$case;
	my $what = ($missing ? 'every second row missing' : 'no row missing') . ($writer ? ', somebody writes' : '');
	my $last = $first + 49;
	$sub->safe_psql('postgres', "DELETE FROM f WHERE id BETWEEN $first AND $last AND id % 2 = 0") if $missing;
	my $session;
	if ($writer)
	{
		($session) = fault_session($sub);
		$session->query_safe('BEGIN; INSERT INTO other VALUES (1)');
	}
	my $scans = scans();
	my $counted = fault_missing($sub);
	$pub->safe_psql('postgres', "DELETE FROM f WHERE id BETWEEN $first AND $last");
	fault_applied($pub, $sub, $offset, $what);
	$scans = scans() - $scans;
	if ($writer)
	{
		$session->query_safe('COMMIT');
		$session->quit;
	}
	note "$what: $scans scans for 50 rows";
	next if ppa_builtin();
	is(fault_missing($sub) - $counted, $missing ? 25 : 0, "$what: counted");

	# A few for the queries above that look at the table.
	my $bound = 25 + 25 * $per_row + 5;
	cmp_ok($scans, '<=', $bound, "$what: at most $bound scans for 50 rows");
}
ppa_same_table($pub, $sub, 'f', 'equal');

# ---- rows that a local session is inserting
my $counted = fault_missing($sub);
foreach my $end ('COMMIT', 'ROLLBACK')
{
	foreach my $change ('DELETE FROM f WHERE id = 1000', 'UPDATE f SET n = 2 WHERE id = 1000')
	{
		my $command = substr $change, 0, 6;
		$pub->safe_psql('postgres', 'INSERT INTO f VALUES (1000, 1)');
		ppa_catchup($pub, $sub);
		$sub->safe_psql('postgres', 'DELETE FROM f WHERE id = 1000');
		my ($session, $pid) = fault_session($sub);
		$session->query_safe('BEGIN; INSERT INTO f VALUES (1000, 1)');
		$pub->safe_psql('postgres', $change);
		fault_blocked($sub, ppa_worker_pid($sub), $pid);
		$session->query_safe($end);
		$session->quit;
		fault_applied($pub, $sub, $offset, "$command, $end");
		is($sub->safe_psql('postgres', 'SELECT count(*), max(n) FROM f WHERE id = 1000'),
			$end eq 'COMMIT' && $command eq 'UPDATE' ? '1|2' : '0|', "$command, $end: what is there in the end");
		$pub->safe_psql('postgres', 'DELETE FROM f WHERE id >= 1000');
		fault_applied($pub, $sub, $offset, "$command, $end: the row deleted");
		$sub->safe_psql('postgres', 'DELETE FROM f WHERE id = 1000');
		ppa_same_table($pub, $sub, 'f', "$command, $end: equal");
	}
}

# After ROLLBACK the delete; the update, and the delete of the row that it did not make.
is(fault_missing($sub) - $counted, 3, 'missing only what the local session did not leave') unless ppa_builtin();
fault_no_crash($pub, $sub);
done_testing();
