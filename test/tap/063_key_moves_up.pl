# 063_key_moves_up.pl: the primary key of a whole table moves up by one, row by row, each row in a transaction of its own: the
# new key of a row is the old key of the one before.
# Shows: equal, no error reported, no row missing. With a second unique column that moves the other way. ROWS (default 400).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $rows = fault_env('ROWS', 400);
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE moves (id int PRIMARY KEY, was int, code int UNIQUE);
CREATE TABLE other (id int PRIMARY KEY, n int);
SQL
$pub->safe_psql('postgres', <<"SQL");
INSERT INTO moves SELECT g, g, 10000 - g FROM generate_series(1, $rows) g;
INSERT INTO other SELECT g, 0 FROM generate_series(1, 50) g;
CREATE PROCEDURE up() LANGUAGE plpgsql AS \$\$
BEGIN
	FOR i IN REVERSE (SELECT max(id) FROM moves) .. (SELECT min(id) FROM moves) LOOP
		UPDATE moves SET id = i + 1, code = code - 1 WHERE id = i;
		COMMIT;
		UPDATE other SET n = n + 1 WHERE id = 1 + i % 50;
		COMMIT;
	END LOOP;
END \$\$;
CREATE PROCEDURE down() LANGUAGE plpgsql AS \$\$
BEGIN
	FOR i IN (SELECT min(id) FROM moves) .. (SELECT max(id) FROM moves) LOOP
		UPDATE moves SET id = i - 1, code = code + 1 WHERE id = i;
		COMMIT;
	END LOOP;
END \$\$;
SQL
ppa_subscribe($pub, $sub);
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	my $offset = ppa_log_pos($sub);
	foreach my $pass (1, 2)
	{
		$pub->safe_psql('postgres', 'CALL up()');
		fault_applied($pub, $sub, $offset, "$guess, live $pass");
		ppa_backlog($pub, $sub, 'sub', 'CALL up(); CALL down()');
		fault_applied($pub, $sub, $offset, "$guess, backlog $pass");
	}
	ppa_same_table($pub, $sub, $_, "$guess: $_ equal") for qw(moves other);
	note "$guess: " . fault_stats($sub, 'sub', qw(groups dependency_waits groups_aborted retries_unique retries_missing relations_ordered));
}
is($sub->safe_psql('postgres', 'SELECT min(id - was), max(id - was) FROM moves'), $pub->safe_psql('postgres', 'SELECT min(id - was), max(id - was) FROM moves'), 'all rows have moved as far');
is(ppa_error_count($sub), 0, 'no apply error');
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
fault_no_crash($pub, $sub);
done_testing();
