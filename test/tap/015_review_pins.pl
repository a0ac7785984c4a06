# 015_review_pins.pl: one remote transaction over many tables, on a subscriber with few shared buffers.
# Shows: it is applied, and keeps no page pinned that somebody else needs for himself.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time usleep);

my $tables = 600;

# 256 shared buffers. No autovacuum: it would need some.
my $conf = "autovacuum = off\nmax_locks_per_transaction = 256\n";
my ($pub, $sub) = ppa_pair(pub_conf => $conf, sub_conf => $conf . 'shared_buffers = 2MB');

ppa_both($pub, $sub, <<"SQL");
SELECT format('CREATE TABLE update_%s (id int PRIMARY KEY, n int)', g) FROM generate_series(1, $tables) g \\gexec
SQL
$pub->safe_psql('postgres', <<"SQL");
SELECT format('INSERT INTO update_%s SELECT i, 0 FROM generate_series(1, 10) i', g) FROM generate_series(1, $tables) g \\gexec
SQL
$sub->safe_psql('postgres', <<"SQL");
SELECT format('INSERT INTO update_%s SELECT i, 0 FROM generate_series(1, 10) i', g) FROM generate_series(1, $tables) g \\gexec
SQL
ppa_subscribe($pub, $sub, with => 'copy_data = false');
my $offset = ppa_log_pos($sub);
my $processes = ppa_apply_pids_sql(ppa_worker_pid($sub));

# ---- one transaction that updates many tables, while somebody holds the row that comes last
# The tables are announced in the order in which they are updated.
my ($locker, $locker_pid) = fault_session($sub);
$locker->query_safe("BEGIN; SELECT FROM update_$tables WHERE id = 5 FOR UPDATE");
$pub->safe_psql('postgres', <<"SQL");
DO \$\$ BEGIN
	FOR i IN 1 .. $tables LOOP
		EXECUTE format('UPDATE update_%s SET n = 1 WHERE id = 5', i);
	END LOOP;
END \$\$;
SQL

# Looked at by hand: where it cannot get there it fails again and again.
my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
my ($blocked, @errors) = ('f');
until ($blocked eq 't' || @errors)
{
	die 'timed out waiting for the worker to reach the last table' if time() > $end;
	usleep(50_000);
	$blocked = $sub->safe_psql('postgres', "SELECT bool_or($locker_pid = ANY (pg_blocking_pids(pid))) FROM ($processes) p");
	@errors = grep { /ERROR:/ } split /\n/, ppa_log($sub, $offset);
}
is($errors[0], undef, 'the worker reaches the last table') or die 'the subscription stands still';

# To freeze rows VACUUM needs each page for itself, and would wait as long as the worker has it pinned.
foreach my $table (1, $tables - 70, $tables - 10, $tables - 1)
{
	my ($status, undef, $stderr) = $sub->psql('postgres',
		"SET statement_timeout = '20s'; VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) update_$table");
	is("$status $stderr", '0 ', "update_$table: VACUUM gets its page while the transaction is open");
}
$locker->query_safe('COMMIT');
$locker->quit;
fault_applied($pub, $sub, $offset, "one transaction over $tables tables, 256 shared buffers");
my $sum = "SELECT sum((xpath('//s/text()', query_to_xml(format('SELECT sum(n) AS s FROM update_%s', g), false, true, '')))[1]::text::int)"
  . " FROM generate_series(1, $tables) g";
is($sub->safe_psql('postgres', $sum), $tables, 'all tables updated');

# Once more, each table many times in a row and with inserts in between.
$pub->safe_psql('postgres', <<"SQL");
DO \$\$ BEGIN
	FOR pass IN 1 .. 2 LOOP
		FOR i IN 1 .. $tables LOOP
			EXECUTE format('UPDATE update_%s SET n = n + 1', i);
			EXECUTE format('INSERT INTO update_%s VALUES (10 + %s, 0)', i, pass);
			EXECUTE format('DELETE FROM update_%s WHERE id = %s', i, pass);
		END LOOP;
	END LOOP;
END \$\$;
SQL
fault_applied($pub, $sub, $offset, 'twice over all tables in one transaction');
is($sub->safe_psql('postgres', $sum), $pub->safe_psql('postgres', $sum), 'all tables equal');

unlike(ppa_log($sub, $offset), qr/WARNING: .*(?:leak|refcount)/, 'no leak warning');
fault_no_crash($pub, $sub);
done_testing();
