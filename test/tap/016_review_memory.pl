# 016_review_memory.pl: private memory of the apply worker in serial mode. Shows: runs of inserted rows in many tables, and
# one very large row, cost memory only for a while. Parallel mode: see 070.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my $run_tables = 400;
my $bound_kb = 40 * 1024;

my $conf = "autovacuum = off\nmax_locks_per_transaction = 256\n";
my ($pub, $sub) = ppa_pair(pub_conf => $conf, sub_conf => $conf);

fault_setting($sub, 'workers', 0);
ppa_both($pub, $sub, <<"SQL");
SELECT format('CREATE TABLE run_%s (id int PRIMARY KEY, n int, note text)', g) FROM generate_series(1, $run_tables) g \\gexec
CREATE TABLE large (id int PRIMARY KEY, note text);
ALTER TABLE large ALTER note SET STORAGE EXTERNAL;
SQL
ppa_subscribe($pub, $sub, with => 'copy_data = false');
my $offset = ppa_log_pos($sub);
my $pid = ppa_worker_pid($sub);

# ---- runs of 1,000 rows in many tables: in one transaction each, and again all in one
my $before = fault_private_kb($pid);
$pub->safe_psql('postgres', <<"SQL");
SELECT format('INSERT INTO run_%s SELECT i, 0, ''short'' FROM generate_series(1, 1000) i', g) FROM generate_series(1, $run_tables) g \\gexec
SQL
fault_applied($pub, $sub, $offset, 'runs in one transaction each');
my $each = fault_private_kb($pid);
$pub->safe_psql('postgres', <<"SQL");
DO \$\$ BEGIN
	FOR i IN 1 .. $run_tables LOOP
		EXECUTE format('INSERT INTO run_%s SELECT i, 0, ''short'' FROM generate_series(1001, 2000) i', i);
	END LOOP;
END \$\$;
SQL
fault_applied($pub, $sub, $offset, 'runs in one transaction');
my $together = fault_private_kb($pid);
diag "private memory: $before kB before, $each kB after runs in $run_tables tables, $together kB after all in one transaction";
cmp_ok($each - $before, '<', $bound_kb, "runs in $run_tables transactions: less than $bound_kb kB more");
cmp_ok($together - $before, '<', $bound_kb, "runs in one transaction: less than $bound_kb kB more");
ppa_same_table($pub, $sub, "run_$_", "run_$_ equal") for (1, int($run_tables / 2), $run_tables);
is(ppa_worker_pid($sub), $pid, 'the same worker applied them all');

# ---- one row of 64 MB; in a worker of its own, that knows only a few tables
ppa_disable($sub);
ppa_enable($sub);
$pid = ppa_worker_pid($sub);
$pub->safe_psql('postgres', "INSERT INTO large VALUES (0, 'short')");
ppa_catchup($pub, $sub);
my $small = fault_private_kb($pid);
$pub->safe_psql('postgres', "INSERT INTO large VALUES (1, repeat('x', 64 * 1024 * 1024))");
fault_applied($pub, $sub, $offset, 'a row of 64 MB');
my $large = fault_private_kb($pid);
$pub->safe_psql('postgres', join '', map { "INSERT INTO large VALUES ($_, 'short');" } 2 .. 300);
fault_applied($pub, $sub, $offset, 'small rows');
my $after = fault_private_kb($pid);
is(ppa_worker_pid($sub), $pid, 'the same worker applied them');
diag "private memory: $small kB before, $large kB after a row of 64 MB, $after kB after small rows";

# The client library keeps its input buffer at the size of the largest message as long as the connection lives, and so
# it is with the built-in worker: 64 MB that are not ours.
my $large_bound_kb = 64 * 1024 + 16 * 1024;
cmp_ok($after - $small, '<', $large_bound_kb, "small rows after one of 64 MB: less than $large_bound_kb kB more");
ppa_same($pub, $sub, 'SELECT count(*), sum(length(note)) FROM large', 'large equal');
unlike(ppa_log($sub, $offset), qr/WARNING: .*(?:leak|refcount)/, 'no leak warning');
fault_no_crash($pub, $sub);
done_testing();
