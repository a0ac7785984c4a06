# 065_missing_rows.pl: updates and deletes of rows that are not there, and of rows that an earlier transaction inserts, moves
# or brings back while the later one is executed already.
# Shows: a row is missing only if it is missing after all earlier transactions; each is counted once; the rest is applied.
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
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE keyed (id int PRIMARY KEY, n int);
CREATE TABLE keyless (id int, n int);
ALTER TABLE keyless REPLICA IDENTITY FULL;
SQL
$pub->safe_psql('postgres', 'CREATE TABLE parted (id int PRIMARY KEY, n int)');
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE parted (n int, id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (500);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (500) TO (MAXVALUE);
SQL
my @tables = qw(keyed keyless parted);
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);
my $missing = fault_missing($sub);

sub check
{
	my ($what, $lost) = @_;
	fault_applied($pub, $sub, $offset, $what);
	ppa_same_table($pub, $sub, $_, "$what: $_ equal", cols => 'id, n') for @tables;
	return if ppa_builtin();
	is(fault_missing($sub) - $missing, $lost, "$what: rows counted as missing");
	$missing = fault_missing($sub);
	return;
}

# The oldest transaction inserts a row, deletes another, moves a third, after a second. Those behind need what it leaves.
fault_setting($sub, 'group_commit', 'off');
my $base = 0;
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	fault_warm_up($pub, $sub);
	foreach my $table (@tables)
	{
		$base += 10;
		my ($new, $old, $from, $to) = map { $base + $_ } 1 .. 4;
		$pub->safe_psql('postgres', "INSERT INTO $table VALUES ($old, 0), ($from, 0)");
		ppa_catchup($pub, $sub);
		$pub->safe_psql('postgres', join ";\n", 'BEGIN', fault_gate_sql(0.7) . " INSERT INTO $table VALUES ($new, 0)",
			"DELETE FROM $table WHERE id = $old", "UPDATE $table SET id = $to WHERE id = $from", 'COMMIT',
			"UPDATE $table SET n = 1 WHERE id = $new",
			"UPDATE $table SET n = n + 1 WHERE id = $to",
			"INSERT INTO $table VALUES ($old, 5)",
			"UPDATE $table SET n = 6 WHERE id = $old",
			"DELETE FROM $table WHERE id = $new");
		check("$guess, $table: needs an earlier transaction", 0);
	}
}
fault_setting($sub, 'debug_dependencies', 'table');

# Rows that are really missing, in front of others and behind them; the oldest transaction is slow again.
foreach my $table (@tables)
{
	$pub->safe_psql('postgres', "INSERT INTO $table SELECT g, 0 FROM generate_series(481, 520) g");
	ppa_catchup($pub, $sub);
	$sub->safe_psql('postgres', "DELETE FROM $table WHERE id BETWEEN 491 AND 510");
	$pub->safe_psql('postgres', join '', fault_gate_sql(0.7), (map { "UPDATE $table SET n = 1 WHERE id = $_;" } 489 .. 492),
		"DELETE FROM $table WHERE id BETWEEN 491 AND 510;", map { "UPDATE $table SET n = 2 WHERE id = $_;" } 485, 515);
	check("$table: rows that are missing", 22);
}
fault_setting($sub, 'group_commit');

# Inserted, changed, moved and deleted by transactions right behind each other, in a backlog.
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	ppa_backlog($pub, $sub, 'sub', sub {
		foreach my $table (@tables)
		{
			# A scan finds the rows of the table without a key.
			my $count = $table eq 'keyless' ? 60 : 200;
			$pub->safe_psql('postgres', join '', map { <<"SQL" } 1001 .. 1000 + $count);
INSERT INTO $table VALUES ($_, 0);
UPDATE $table SET n = 1 WHERE id = $_;
UPDATE $table SET id = -id WHERE id = $_;
UPDATE $table SET n = 2 WHERE id = -$_;
DELETE FROM $table WHERE id = -$_;
INSERT INTO $table VALUES (-$_, 3);
UPDATE $table SET n = 4 WHERE id = -$_;
DELETE FROM $table WHERE id = -$_ AND $_ % 2 = 0;
SQL
		}
	});
	check("$guess: backlog", 0);
	$pub->safe_psql('postgres', "DELETE FROM $_ WHERE id < 0") for @tables;
	check("$guess: deleted", 0);
	note "$guess: " . fault_stats($sub, 'sub', qw(groups retries_missing retries_unique groups_aborted));
}
fault_no_crash($pub, $sub);
done_testing();
