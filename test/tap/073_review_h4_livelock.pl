# 073_review_h4_livelock.pl: review finding H4. Whoever gives way could take the lock again before the one that it gave way to
# wakes, for ever: unique entries have no queue. Few unique values go round through many rows, each step in a transaction
# of its own, and nothing tells the leader that they belong together.
# Shows: it comes to an end (within the bound of all waits), equal, without an error. STEPS (default 1500).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $steps = fault_env('STEPS', 1500);
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE u (id int PRIMARY KEY, v text, n int); CREATE TABLE other (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'INSERT INTO other SELECT g, 0 FROM generate_series(1, 20) g');

# The publisher sends 'v', 'V' ... in turn: they are one value here, and different bytes.
$sub->safe_psql('postgres', 'CREATE UNIQUE INDEX ON u (lower(v))');
$pub->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE go_round(first int, steps int, pairs int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN first .. first + steps - 1 LOOP
		FOR p IN 1 .. pairs LOOP
			INSERT INTO u VALUES (i * 10 + p, CASE WHEN i % 2 = 0 THEN 'value' ELSE 'VALUE' END || p, i);
			COMMIT;
			UPDATE u SET n = n + 1 WHERE id = i * 10 + p;
			COMMIT;
			DELETE FROM u WHERE id = i * 10 + p;
			COMMIT;
		END LOOP;
		UPDATE other SET n = n + 1 WHERE id = 1 + i % 20;
		COMMIT;
	END LOOP;
END $$;
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);
my $next = 1;
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	foreach my $group_commit ('off', 'auto')
	{
		# Not without groups alone, and not with them alone.
		fault_setting($sub, 'group_commit', $group_commit);
		fault_setting($sub, 'workers', 8);
		foreach my $pairs (1, 3)
		{
			my $what = "$guess, group_commit $group_commit, $pairs values";
			my $count = int($steps / 4 / $pairs);
			ppa_backlog($pub, $sub, 'sub', fault_gate_sql(0.3) . "CALL go_round($next, $count, $pairs)");
			fault_applied($pub, $sub, $offset, $what);
			$next += $count;
			$pub->safe_psql('postgres', "INSERT INTO u VALUES ($next * 10, 'value1', 0), ($next * 10 + 1, 'value2', 0); DELETE FROM u");
			fault_applied($pub, $sub, $offset, "$what: the values once more");
			ppa_same_table($pub, $sub, $_, "$what: $_ equal") for qw(u other);
			$next++;
		}
	}
	note "$guess: " . fault_stats($sub, 'sub', qw(groups groups_aborted groups_alone retries_unique retries_missing retries_other relations_ordered));
}
is(ppa_error_count($sub), 0, 'no apply error');
is($sub->safe_psql('postgres', q{SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'}), 0, 'no deadlock counted');
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
fault_no_crash($pub, $sub);
done_testing();
