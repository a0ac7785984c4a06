# 081_review2_moved_group_progress.pl: second review. A group of two transactions is applied one by one, as an attempt has
# failed; the first is committed; the second turns out to fire a trigger of a partition, and the group goes to the worker
# where triggers are fired.
# Shows: that worker goes on behind the first, which is not applied twice.
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

# Nothing would stop a second row in log: it has no key.
ppa_both($pub, $sub, 'CREATE TABLE u (id int PRIMARY KEY, v text); CREATE TABLE log (n int)');
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE parted (id int PRIMARY KEY);
INSERT INTO u SELECT g, 'VALUE' || g FROM generate_series(1, 10) g;
INSERT INTO u VALUES (100, 'other');
SQL

# The leader does not know that 'VALUE1' and 'value1' are one here, nor of the partition's trigger.
$sub->safe_psql('postgres', <<'SQL');
CREATE UNIQUE INDEX ON u (lower(v));
CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parted_fires PARTITION OF parted FOR VALUES FROM (0) TO (1000);
CREATE TABLE saw (id int);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.saw VALUES (NEW.id); RETURN NEW; END $$;
CREATE TRIGGER look BEFORE INSERT ON parted_fires FOR EACH ROW EXECUTE FUNCTION look();
ALTER TABLE parted_fires ENABLE ALWAYS TRIGGER look;
SQL
ppa_subscribe($pub, $sub);
my $parallel = ppa_parallel($sub) > 1;
ppa_views($sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
fault_setting($sub, 'group_commit');
my $holder = fault_gate_lock($sub);
my $offset = ppa_log_pos($sub);

# ---- a transaction stands at the gate, in worker 0: then the group behind it is in another
# It will free the unique value number $n when it gets through.
my $n = 0;
while (1)
{
	$n++;
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$pub->safe_psql('postgres', 'BEGIN;' . fault_gate_sql(0.01) . "DELETE FROM u WHERE id = $n; COMMIT;");
	ppa_flush($pub);
	last unless $parallel;
	my $at_gate = "FROM parallel_apply.stat_worker WHERE state = 'executing' AND relation = 'public.gate'";
	ppa_wait_for($sub, "SELECT count(*) = 1 $at_gate", 'a worker at the gate');
	last if $sub->safe_psql('postgres', "SELECT worker $at_gate") == 0;
	die 'worker 0 is never the first' if $n == 10;
	$holder->query_safe('SELECT pg_advisory_unlock(1)');
	ppa_catchup($pub, $sub);
}

# ---- the group: the leader sleeps until both transactions are there for it
my $leader = ppa_worker_pid($sub);
my $retries = $parallel ? ppa_stat($sub, 'sub', 'retries_unique') : 0;
kill 'STOP', $leader if $parallel;
$pub->safe_psql('postgres', "BEGIN; INSERT INTO log VALUES (1); UPDATE u SET v = 'value$n' WHERE id = 100; COMMIT; INSERT INTO parted VALUES (1)");
if ($parallel)
{
	ppa_flush($pub);
	my $lsn = $pub->lsn('write');
	ppa_wait_for($pub, "SELECT sent_lsn >= '$lsn' FROM pg_stat_replication WHERE application_name = 'sub'", 'the walsender');
	kill 'CONT', $leader;
	ppa_wait_for($sub, "SELECT retries_unique > $retries FROM parallel_apply.stat_subscription", 'the group to fail ahead of the one at the gate');
}
$holder->query_safe('SELECT pg_advisory_unlock(1)');
fault_applied($pub, $sub, $offset, 'the group');
is($sub->safe_psql('postgres', 'SELECT n FROM log'), 1, 'its first transaction is applied once');
is($sub->safe_psql('postgres', 'SELECT id FROM saw'), 1, 'its second, too');
ppa_same_table($pub, $sub, $_, "$_ equal") for qw(u log parted);
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
$holder->quit;
fault_no_crash($pub, $sub);
done_testing();
