# 041_memory.pl: memory of the apply worker in serial mode (parallel mode: see 070). Shows: it is flat over many changes and transactions, and further passes
# over many relations add nothing to the first.
# CHANGES (default 1000000; 5000000 for the long run), RELATIONS (default 1000; 10000 for the long run), PASSES (default 4).
#
# Measured is RssAnon of /proc: private memory, without the shared buffers that a process touches one after the other.
# Bound: 2 MB in all, that is 2 bytes per change with the default; a leak of one palloc (at least 16 bytes) per change or
# of one per transaction is seen.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my $changes = fault_env('CHANGES', 1_000_000);
my $relations = fault_env('RELATIONS', 1_000);
my $passes = fault_env('PASSES', 4);
my $bound_kb = 2048;
my ($pub, $sub) = ppa_pair(
	pub_conf => "synchronous_commit = off\nautovacuum = off\nmax_locks_per_transaction = 256",
	sub_conf => 'max_locks_per_transaction = 256');
fault_setting($sub, 'workers', 0);

# Inserts, updates and deletes of transactions of 1, 20 and 100 rows each; the table keeps its size.
ppa_both($pub, $sub, 'CREATE TABLE churn (id bigint PRIMARY KEY, version int, note text)');
$pub->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE churn(start_id bigint, changes bigint, per_transaction int) LANGUAGE plpgsql AS
$$ DECLARE i bigint := start_id; last_id bigint := start_id + changes / 3;
BEGIN
	WHILE i < last_id LOOP
		INSERT INTO churn SELECT g, 0, repeat('x', 50 + (g % 200)::int) FROM generate_series(i, i + per_transaction - 1) g;
		COMMIT;
		UPDATE churn SET version = version + 1 WHERE id >= i AND id < i + per_transaction;
		COMMIT;
		DELETE FROM churn WHERE id >= i AND id < i + per_transaction;
		COMMIT;
		i := i + per_transaction;
	END LOOP;
END $$;
SQL
my $create = <<"SQL";
SELECT format('CREATE TABLE rel_%s (id int PRIMARY KEY, version int, note text)', g) FROM generate_series(1, $relations) g \\gexec
SQL
ppa_both($pub, $sub, $create);
ppa_subscribe($pub, $sub, with => 'copy_data = false');
my $pid = ppa_worker_pid($sub);
my $next_id = 1;

sub run_churn
{
	my ($count) = @_;
	foreach my $part ([ 1, 0.1 ], [ 20, 0.4 ], [ 100, 0.5 ])
	{
		my $part_changes = int($count * $part->[1]);
		$pub->safe_psql('postgres', "CALL churn($next_id, $part_changes, $part->[0])");
		$next_id += $part_changes;
	}
	ppa_catchup($pub, $sub);
	return fault_private_kb($pid);
}

my $warm = run_churn(int($changes / 10));
my $after = run_churn($changes);
diag "memory: $warm kB after " . int($changes / 10) . " changes, $after kB after $changes more";
is(ppa_worker_pid($sub), $pid, 'the same worker applied them all');
cmp_ok($after - $warm, '<', $bound_kb, "grows by less than $bound_kb kB over $changes changes");
ppa_same_table($pub, $sub, 'churn', 'churn equal');

# Each pass changes every relation in transactions of its own.
$pub->safe_psql('postgres', <<'SQL');
CREATE PROCEDURE pass(relations int, pass int) LANGUAGE plpgsql AS
$$ BEGIN
	FOR i IN 1 .. relations LOOP
		EXECUTE format('INSERT INTO rel_%s VALUES (%s, 0, ''pass'')', i, pass);
		EXECUTE format('UPDATE rel_%s SET version = version + 1 WHERE id = %s', i, pass);
		COMMIT;
	END LOOP;
END $$;
SQL
my @passes;
foreach my $pass (1 .. $passes)
{
	$pub->safe_psql('postgres', "CALL pass($relations, $pass)");
	ppa_catchup($pub, $sub);
	push @passes, fault_private_kb($pid);
}
diag "memory after passes over $relations relations: @passes kB";
is(ppa_worker_pid($sub), $pid, 'the same worker applied them all');

# The second pass is the first over relations that are not empty, it still belongs to the warm-up.
cmp_ok($passes[$_] - $passes[1], '<', $bound_kb, 'pass ' . ($_ + 1) . ": less than $bound_kb kB above the second") for 2 .. $#passes;
cmp_ok($passes[1], '<', 20_000 + 64 * $relations, 'at most 64 kB per relation');
ppa_same_table($pub, $sub, "rel_$_", "rel_$_ equal") for (1, int($relations / 2), $relations);
fault_no_crash($pub, $sub);
done_testing();
