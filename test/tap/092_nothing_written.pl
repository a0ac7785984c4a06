# 092_nothing_written.pl: a transaction that writes nothing here (its row is missing) commits behind one of another worker, and then
# the publisher is silent. Nobody else flushes the WAL: the WAL writer is stopped.
# Shows: the leader flushes what the first one has written, and the publisher learns of both.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(sub_conf => "bgwriter_lru_maxpages = 0\nautovacuum = off\ncheckpoint_timeout = 1h");
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'INSERT INTO t SELECT g, 0 FROM generate_series(1, 20) g');
ppa_subscribe($pub, $sub);
plan skip_all => 'the built-in worker leaves flushing to the WAL writer' if ppa_builtin();
fault_setting($sub, 'group_commit', 'off');
$sub->safe_psql('postgres', 'DELETE FROM t WHERE id > 10');

my $walwriter = $sub->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});
my $offset = ppa_log_pos($sub);
my $missing = fault_missing($sub);
foreach my $round (1 .. 3)
{
	# Each worker has a last commit of its own.
	fault_warm_up($pub, $sub);
	my ($session, $session_pid) = fault_session($sub);
	$session->query_safe("BEGIN; SELECT FROM t WHERE id = $round FOR UPDATE");
	$pub->safe_psql('postgres', "UPDATE t SET n = n + 1 WHERE id = $round");
	ppa_flush($pub);
	fault_blocked($sub, ppa_worker_pid($sub), $session_pid);
	$pub->safe_psql('postgres', "DELETE FROM t WHERE id = 10 + $round");
	my $lsn = $pub->lsn('flush');
	kill 'STOP', $walwriter or die "kill: $!";
	$session->query_safe('ROLLBACK');
	$session->quit;
	my $confirmed = $pub->poll_query_until('postgres', "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots WHERE slot_name = 'sub'");
	kill 'CONT', $walwriter;
	ok($confirmed, "round $round: the publisher learns that both are flushed");
	fault_applied($pub, $sub, $offset, "round $round");
}
is(fault_missing($sub) - $missing, 3, 'rows were missing');
ppa_same_table($pub, $sub, 't', 'what was there is equal', where => 'id <= 10');
fault_no_crash($pub, $sub);
done_testing();

END
{
	kill 'CONT', $walwriter if $walwriter;
}
