# 083_review2_description_ahead.pl: second review. A large transaction, which is given to a worker as it arrives, describes tables
# anew while a transaction before it, in the same worker, has not begun: it waits for one that waits for a local session.
# Shows: the values of the one before go where the old description says, those behind where the new one says, in all workers.
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

# The trigger is for the worker: such transactions begin when all before have committed.
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE fires (id int PRIMARY KEY, a int, b int);
CREATE TABLE quiet (id int PRIMARY KEY, a int, b int);
CREATE TABLE big (note text);
CREATE TABLE held (id int PRIMARY KEY, n int);
SQL
$pub->safe_psql('postgres', 'INSERT INTO held VALUES (1, 0), (2, 0)');
$sub->safe_psql('postgres', <<'SQL');
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE TRIGGER look BEFORE INSERT ON fires FOR EACH ROW EXECUTE FUNCTION look();
ALTER TABLE fires ENABLE ALWAYS TRIGGER look;
SQL
ppa_subscribe($pub, $sub);
my $parallel = ppa_parallel($sub) > 1;
ppa_views($sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my $offset = ppa_log_pos($sub);
my $id = 0;

# Rows with a = 1 and b = 2, one per transaction.
sub insert
{
	my ($table, $count) = @_;
	return join '', map { $id++; "INSERT INTO $table (id, a, b) VALUES ($id, 1, 2);" } 1 .. $count;
}

# All workers know the tables.
$pub->safe_psql('postgres', insert('fires', 1) . fault_gate_sql(0.3) . insert('quiet', 20));
fault_applied($pub, $sub, $offset, 'before');

# All that is committed on the publisher now has been received.
sub await_received
{
	ppa_flush($pub);
	my $lsn = $pub->lsn('write');
	ppa_wait_for($sub, "SELECT received_lsn >= '$lsn' FROM parallel_apply.stat_subscription", 'the leader to receive it') if $parallel;
	return;
}

# a and b change their names in the middle of it: more than 1 MB before that is given out early, less than 2 MB is read whole.
# The publisher must not know of that when it sends those before, or it would describe the tables once more for them.
my $fill = 'INSERT INTO big SELECT repeat(md5(g::text), 30) FROM generate_series(1, 1400) g;';
my $rename = join '', map { "ALTER TABLE $_ RENAME a TO c; ALTER TABLE $_ RENAME b TO a; ALTER TABLE $_ RENAME c TO b;" } 'fires', 'quiet';
foreach my $round (1, 2)
{
	my $local = fault_hold_behind($pub, $sub, 'held');
	$pub->safe_psql('postgres', insert('quiet', 4) . insert('fires', 1));
	await_received();
	ppa_wait_for($sub, "SELECT count(*) = 1 FROM parallel_apply.stat_worker WHERE worker = 0 AND wait = 'start'", 'worker 0 to wait') if $parallel;

	# In the first round it has a row of before, too.
	my $quiet = $round == 1 ? insert('quiet', 1) : '';
	$pub->safe_psql('postgres', join "\n", 'BEGIN;', $quiet, $fill, $rename, insert('quiet', 1), insert('fires', 1), 'COMMIT;');
	await_received();

	# Nothing says when worker 0 has read it. If it has not, this is the easier case.
	fault_pause(0.3, 0.3) if $parallel;
	$local->query_safe('COMMIT');
	$local->quit;
	$pub->safe_psql('postgres', insert('quiet', 20) . insert('fires', 2));
	fault_applied($pub, $sub, $offset, "round $round");
	is($sub->safe_psql('postgres', "SELECT * FROM $_ WHERE a <> 1 OR b <> 2 ORDER BY id"), '', "round $round: each value of $_ is in its column")
	  for 'quiet', 'fires';
	ppa_same_table($pub, $sub, $_, "round $round: $_ has the same rows", cols => 'id') for 'quiet', 'fires';
}
is(ppa_stat($sub, 'sub', 'groups_large'), 2, 'the large transactions were given out early') if $parallel;
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
