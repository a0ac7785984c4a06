# 074_large_transaction.pl: review finding M4. Transactions of several MB, more than is kept for a second attempt, among small
# ones that want the same rows and unique values, before them and behind them; with a local lock in the middle; with an
# error at the end.
# Shows: equal; no wait for deadlock_timeout, which is longer than any wait of this test; the error stops at the right place,
# once, and the transaction comes whole when its cause is gone. ROWS of a large transaction (default 20000).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $rows = fault_env('ROWS', 20_000);
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => "deadlock_timeout = 10min\nwal_retrieve_retry_interval = 100ms");
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE big (id int PRIMARY KEY, n int, note text); CREATE TABLE u (id int PRIMARY KEY, v text); CREATE TABLE small (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', "INSERT INTO big SELECT g, 0, repeat('x', 300) FROM generate_series(1, $rows) g; INSERT INTO small SELECT g, 0 FROM generate_series(1, 100) g");
$sub->safe_psql('postgres', 'CREATE UNIQUE INDEX ON u (lower(v)); ALTER TABLE big ADD own int DEFAULT 0; ALTER TABLE small ADD own int DEFAULT 0');
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);

sub check
{
	my ($what) = @_;
	fault_applied($pub, $sub, $offset, $what);
	ppa_same_table($pub, $sub, 'big', "$what: big equal", cols => 'id, n, note');
	ppa_same_table($pub, $sub, 'small', "$what: small equal", cols => 'id, n');
	ppa_same_table($pub, $sub, 'u', "$what: u equal");
	return;
}

my $id = 0;
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	fault_warm_up($pub, $sub);
	foreach my $case ('behind a slow one', 'in the way of a slow one', 'in a backlog', 'with a local lock')
	{
		my $what = "$guess, $case";
		$id += 10;
		my $large = "BEGIN; UPDATE big SET n = n + 1, note = note || 'y'; INSERT INTO u VALUES ($id, 'value$id'); UPDATE small SET n = n + 1 WHERE id = 7; COMMIT;";
		my @before = map { "UPDATE small SET n = n + 1 WHERE id = $_; UPDATE big SET n = n + 1 WHERE id = $rows - $_;" } 1 .. 10;
		my @behind = (
			"DELETE FROM u WHERE id = $id;", "INSERT INTO u VALUES ($id + 1, 'VALUE$id');",
			(map { "UPDATE small SET n = n + 1 WHERE id = $_;" } 5 .. 30), (map { "UPDATE big SET n = n + 1, note = 'behind' WHERE id = $rows - $_;" } 0 .. 20));
		my $local;
		if ($case eq 'behind a slow one')
		{
			$pub->safe_psql('postgres', join "\n", fault_gate_sql(1), @before[ 0 .. 2 ], $large, @behind[ 0 .. 5 ]);
		}
		elsif ($case eq 'in the way of a slow one')
		{
			# It can be undone only as long as it is kept, so it must not go on without the slow one.
			my $slow = join ' ', 'BEGIN;', fault_gate_sql(1.5), 'UPDATE big SET n = n + 1 WHERE id IN (5, 10000); COMMIT;';
			$pub->safe_psql('postgres', join "\n", $slow, $large, @behind[ 0 .. 5 ]);
		}
		elsif ($case eq 'in a backlog')
		{
			ppa_backlog($pub, $sub, 'sub', join '', @before, $large, @behind, $large =~ s/value/other/r =~ s/\($id,/($id + 5,/r, "DELETE FROM u WHERE id = $id + 5;", $large =~ s/\($id,/($id + 6,/r =~ s/value/third/r);
		}
		else
		{
			# Row 2 * $rows / 3 is held for a while; a later transaction's row is wanted by the one that holds it.
			my $at = int(2 * $rows / 3);
			my $local_pid;
			($local, $local_pid) = fault_session($sub);
			$local->query_safe("BEGIN; UPDATE big SET own = own + 1 WHERE id = $at");
			$pub->safe_psql('postgres', $_) for $large, @behind;
			fault_blocked($sub, ppa_worker_pid($sub), $local_pid);
			$local->query_safe('UPDATE small SET own = own + 1 WHERE id BETWEEN 8 AND 30');
			$local->query_safe('COMMIT');
			$local->quit;
		}
		check($what);
	}
	note "$guess: " . fault_stats($sub, 'sub', qw(groups groups_large groups_aborted groups_alone retries_unique));
}
is($sub->safe_psql('postgres', 'SELECT sum(own) FROM big'), $id / 40, 'no local update lost') unless ppa_builtin();
is(ppa_error_count($sub), 0, 'no apply error');

# ---- an error at the end of a large transaction
$pub->safe_psql('postgres', 'DELETE FROM u');
ppa_catchup($pub, $sub);
foreach my $disable ('true', 'false')
{
	my $what = "error, disable_on_error $disable";
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SET (disable_on_error = $disable); INSERT INTO u VALUES (-1, 'taken')");
	my $count = ppa_error_count($sub);
	my $n = $pub->safe_psql('postgres', 'SELECT n FROM small WHERE id = 50');
	$offset = ppa_log_pos($sub);
	$pub->safe_psql('postgres', fault_gate_sql(0.5) . 'UPDATE small SET n = n + 1 WHERE id = 50;');
	$pub->safe_psql('postgres', "BEGIN; UPDATE big SET n = n + 1; INSERT INTO u VALUES (1, 'TAKEN'); COMMIT;");
	$pub->safe_psql('postgres', 'UPDATE small SET n = n + 1 WHERE id = 50;');
	my $error = ppa_apply_error($sub, $offset);
	is($error->{text}, 'duplicate key value violates unique constraint "u_lower_idx"', "$what: text");
	is($error->{relation}, 'public.u', "$what: relation");
	ppa_wait_for($sub, 'SELECT NOT subenabled FROM pg_subscription', 'disabled subscription') if $disable eq 'true';
	ppa_disable($sub);
	is($sub->safe_psql('postgres', 'SELECT n FROM small WHERE id = 50'), $n + 1, "$what: what came before is there, what came behind is not");
	my $attempts = grep { $_->{level} eq 'ERROR' && $_->{backend} =~ /logical replication|pg_parallel_apply/ } ppa_log_entries($sub, $offset);
	is($attempts, 1, "$what: one ERROR") if $disable eq 'true';
	ppa_wait_for($sub, "SELECT apply_error_count >= $count + $attempts FROM pg_stat_subscription_stats", 'the errors to be counted');
	is(ppa_error_count($sub), $count + $attempts, "$what: each attempt counted once");
	$sub->safe_psql('postgres', 'DELETE FROM u WHERE id = -1');
	$offset = ppa_log_pos($sub);
	ppa_enable($sub);
	check("$what, repaired");
	$pub->safe_psql('postgres', 'DELETE FROM u');
	ppa_catchup($pub, $sub);
}
fault_no_crash($pub, $sub);
done_testing();
