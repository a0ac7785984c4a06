# 057_review_h3_vacuum_pin.pl: review findings H3a and H2. A group that waits for its turn or for a row has changed a page that VACUUM
# wants for itself; ALTER TABLE queues behind VACUUM; the oldest group queues behind ALTER TABLE.
# Shows: VACUUM gets the page (who waits holds no pin), and all come to an end, without waiting for deadlock_timeout, which
# is longer than any wait of this test.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => "deadlock_timeout = 10min\nautovacuum = off");
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'INSERT INTO t SELECT g, 0 FROM generate_series(1, 50) g');
ppa_subscribe($pub, $sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my $offset = ppa_log_pos($sub);

# Sends a statement in a session that may have to wait.
sub begin_statement
{
	my ($sql) = @_;
	my ($session, $pid) = fault_session($sub);
	$session->query_until(qr/sent/, "\\echo sent\n$sql;\n");
	return [ $session, $pid ];
}

my $version = 0;
foreach my $ddl ('', 'ALTER TABLE t SET (fillfactor = 90)', 'ALTER TABLE t ADD COLUMN IF NOT EXISTS extra int', 'LOCK TABLE t', 'DROP INDEX IF EXISTS none; REINDEX TABLE t')
{
	my $what = $ddl eq '' ? 'VACUUM' : "VACUUM and $ddl";
	$version++;

	# The oldest group comes to t only after a second; the ones behind have changed its page by then. The last of them waits
	# in the middle, where it has looked up a row, as the next row is the oldest group's.
	$pub->safe_psql('postgres', join '', 'BEGIN; ', fault_gate_sql(1.5), " UPDATE t SET n = $version WHERE id = 1; INSERT INTO t VALUES (100 + $version, 0); COMMIT;",
		(map { "UPDATE t SET n = $version WHERE id = $_;" } 2 .. 4),
		"BEGIN; UPDATE t SET n = $version WHERE id = 5; UPDATE t SET n = n + 1 WHERE id = 1; COMMIT");
	ppa_flush($pub);
	fault_in_flight($sub, 2);
	my $vacuum = begin_statement('VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) t');
	my $alter = begin_statement($ddl =~ /LOCK/ ? "BEGIN; $ddl; COMMIT" : $ddl eq '' ? 'DO $$ BEGIN END $$' : $ddl);
	fault_applied($pub, $sub, $offset, $what);
	foreach my $session ($vacuum, $alter)
	{
		is($session->[0]->query('SELECT 7'), 7, "$what: its session goes on");
		$session->[0]->quit;
	}
	ppa_same_table($pub, $sub, 't', "$what: equal", cols => 'id, n');
}

# All at once under load, VACUUM and ALTER TABLE again and again.
my $load = ppa_load_start($pub, clients => 4, rate => 1000, seconds => 600, script => "\\set id random(1, 50)\nUPDATE t SET n = n + 1 WHERE id = :id;\n");
foreach my $round (1 .. 10)
{
	my @sessions = map { begin_statement($_) } 'VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) t',
	  'ALTER TABLE t SET (fillfactor = ' . (50 + $round) . ')', 'REINDEX TABLE t', 'BEGIN; LOCK TABLE t; COMMIT';
	foreach my $session (@sessions)
	{
		$session->[0]->query_safe('SELECT 1');
		$session->[0]->quit;
	}
	fault_progress($sub);
}
ppa_load_stop($pub, $load);
fault_applied($pub, $sub, $offset, 'under load');
ppa_same_table($pub, $sub, 't', 'under load: equal', cols => 'id, n');
note fault_stats($sub, 'sub', qw(groups groups_aborted groups_alone retries_other));
fault_no_crash($pub, $sub);
done_testing();
