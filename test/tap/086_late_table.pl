# 086_late_table.pl: a table of the publication that the subscription does not have yet is created on the subscriber while
# its changes are in flight. Shows: they are none of ours, as for the built-in worker: the copy will bring them. The leader,
# which saw no table, does not decide for the worker that finds one.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair(sub_conf => 'deadlock_timeout = 10min');
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY)');
ppa_subscribe($pub, $sub);
ppa_views($sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my $holder = fault_gate_lock($sub);
my $offset = ppa_log_pos($sub);

# The transaction at the gate is the oldest. When the table comes, the leader has decided about the one behind it, and has
# given out the next one, too, which runs ahead.
$holder->query_safe('SELECT pg_advisory_lock(1)');
$pub->safe_psql('postgres', 'CREATE TABLE late (id int PRIMARY KEY)');
$pub->safe_psql('postgres', fault_gate_sql(0.01));
$pub->safe_psql('postgres', 'INSERT INTO late SELECT generate_series(1, 10)');
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
ppa_flush($pub);
ppa_wait_for($sub, <<'SQL', 'the transaction after it')
SELECT count(*) = 1 FROM parallel_apply.stat_worker WHERE wait = 'commit turn' AND relation = 'public.t'
SQL
  if ppa_parallel($sub) > 1;
$sub->safe_psql('postgres', 'CREATE TABLE late (id int PRIMARY KEY)');
$holder->query_safe('SELECT pg_advisory_unlock(1)');
fault_applied($pub, $sub, $offset, 'what was in flight');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM late'), 0, 'changes of a table that is not subscribed are none of ours');
ppa_same_table($pub, $sub, 't', 'what comes after them is applied');

$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
ppa_wait_ready($sub, 'sub');
ppa_catchup($pub, $sub);
ppa_same_table($pub, $sub, 'late', 'the copy brings them, once');
fault_no_crash($pub, $sub);
done_testing();
