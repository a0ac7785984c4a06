# 072_review_h3_backstop.pl: review finding H3b. The oldest transaction waits for a local session that waits for nothing the
# server knows of: its client waits for another session, and that one is blocked by a later transaction.
# Shows: the other session gets its lock while the first holds its own, as it would with the built-in worker, which has not
# begun the later transaction; then all goes on.
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
ppa_both($pub, $sub, 'CREATE TABLE r (id int PRIMARY KEY, n int); CREATE TABLE whole (id int PRIMARY KEY)');
$pub->safe_psql('postgres', 'INSERT INTO r SELECT g, 0 FROM generate_series(1, 50) g');
$sub->safe_psql('postgres', 'ALTER TABLE r ADD own int DEFAULT 0');
ppa_subscribe($pub, $sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my $offset = ppa_log_pos($sub);
my $leader = ppa_worker_pid($sub);

foreach my $case (
	[ 'row', 'UPDATE r SET own = own + 1 WHERE id = 1', 'UPDATE r SET n = n + 1 WHERE id = 1' ],
	[ 'table', 'LOCK TABLE whole IN SHARE MODE', 'INSERT INTO whole VALUES (1)' ])
{
	my ($name, $hold, $remote) = @$case;
	my ($first, $first_pid) = fault_session($sub);
	$first->query_safe("BEGIN; $hold");

	# The later ones are executed while the oldest is slow.
	$pub->safe_psql('postgres', join '', 'BEGIN; ', fault_gate_sql(1.5), " $remote; COMMIT;", map { "UPDATE r SET n = n + 1 WHERE id = $_;" } 11 .. 16);
	ppa_flush($pub);
	fault_in_flight($sub, 3);

	# Blocked by a later one, if there is one that has begun.
	my ($second) = fault_session($sub);
	is($second->query('UPDATE r SET own = own + 1 WHERE id = 11; SELECT 7'), 7, "$name: the second session gets what it wants while the first holds its lock");
	$second->quit;
	fault_blocked($sub, $leader, $first_pid);
	is($sub->safe_psql('postgres', 'SELECT count(*) FROM r WHERE id BETWEEN 11 AND 16 AND own > 0'), 1, "$name: and has committed");

	# Others, too: whoever comes now finds no row locked behind the oldest.
	my ($status, undef, $stderr) = $sub->psql('postgres', q{SET statement_timeout = '60s'; UPDATE r SET own = own + 1 WHERE id BETWEEN 12 AND 16});
	is("$status $stderr", '0 ', "$name: a third session gets all rows of later transactions");
	$first->query_safe('COMMIT');
	$first->quit;
	fault_applied($pub, $sub, $offset, $name);
	ppa_same_table($pub, $sub, 'r', "$name: equal", cols => 'id, n');
	$sub->safe_psql('postgres', 'UPDATE r SET own = 0');
}
note fault_stats($sub, 'sub', qw(groups groups_aborted groups_alone));
fault_no_crash($pub, $sub);
done_testing();
