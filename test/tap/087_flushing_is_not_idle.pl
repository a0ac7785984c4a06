# 087_flushing_is_not_idle.pl: a worker waits for the subscriber's own standbys, which do not answer.
# Shows: what comes then is given to the others, and is visible, while there is another one; and all is confirmed once nobody
# waits for standbys any more.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(usleep);
my ($pub, $sub) = ppa_pair();
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY)');
ppa_subscribe($pub, $sub, with => 'synchronous_commit = on');
plan skip_all => 'one process that applies waits by itself' unless ppa_parallel($sub);
fault_setting($sub, 'group_commit', 'off');
fault_setting($sub, 'workers', 4);
fault_warm_up($pub, $sub);
my $offset = ppa_log_pos($sub);

# Each waits in a worker of its own once its transaction is visible.
sub waiting
{
	return $sub->safe_psql('postgres', <<'SQL');
SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'pg_parallel_apply worker'
SQL
}

# No session of ours may commit on the subscriber from here on. The rule holds from when the checkpointer hears of it.
ppa_set($sub, 'synchronous_standby_names', "'nobody'");
my $next = 1;
for (my $tries = 0; !waiting(); $tries++)
{
	die 'no worker waits for standbys' if $tries > 100;
	$pub->safe_psql('postgres', 'INSERT INTO t VALUES (' . $next++ . ')');
	usleep(100_000);
}
foreach my $more (1 .. 3)
{
	my $id = $next++;
	my $before = waiting();
	last if $before >= 4;
	$pub->safe_psql('postgres', "INSERT INTO t VALUES ($id)");
	ppa_wait_for($sub, "SELECT count(*) = 1 FROM t WHERE id = $id", "transaction $id while $before workers wait");
	pass("with $before workers waiting for standbys the next transaction is applied");
}
ppa_set($sub, 'synchronous_standby_names', "''");
fault_applied($pub, $sub, $offset, 'in the end');
ppa_same_table($pub, $sub, 't', 'equal');
fault_no_crash($pub, $sub);
done_testing();
