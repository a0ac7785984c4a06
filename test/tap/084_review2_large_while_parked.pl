# 084_review2_large_while_parked.pl: second review. A large transaction, which is given to a worker as it arrives, arrives while no
# worker may begin anything: the oldest transaction waits for a local session's lock, and all others have been told to wait.
# Shows: the leader stops reading instead of having a worker collect it. When the lock is released all is applied. MB of the
# large transaction (default 100).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time usleep);
my $mb = fault_env('MB', 100);
my $bound_kb = 32 * 1024;
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE big (n int, note text); CREATE TABLE r (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'INSERT INTO r SELECT g, 0 FROM generate_series(1, 100) g');
ppa_subscribe($pub, $sub);
my $parallel = ppa_parallel($sub) > 1;
ppa_views($sub);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my $offset = ppa_log_pos($sub);
my $leader = ppa_worker_pid($sub);

# ---- the oldest transaction waits for a local session, in another worker than 0, where large ones go
my $local = fault_hold_behind($pub, $sub, 'r');

# ---- all that comes is told to wait
$pub->safe_psql('postgres', 'UPDATE r SET n = n + 1 WHERE id = 3');
ppa_flush($pub);
ppa_wait_for($sub, q{SELECT count(*) = 1 FROM parallel_apply.stat_worker WHERE wait = 'start'}, 'the transaction behind to wait')
  if $parallel;

# ---- the large one
my @pids = split /\n/, $sub->safe_psql('postgres', ppa_apply_pids_sql($leader));
my %before = map { $_ => fault_private_kb($_) } @pids;
my $most = 0;
$pub->safe_psql('postgres', "INSERT INTO big SELECT g, repeat(md5(g::text), 31) FROM generate_series(1, $mb * 1024) g");
ppa_flush($pub);

# For as long as it would need to arrive: nobody can wait for something not to happen.
my $end = time() + 4;
while (time() < $end && $most <= $bound_kb)
{
	usleep(100_000);
	$most = max($most, map { fault_private_kb($_) - $before{$_} } @pids);
}
cmp_ok($most, '<=', $bound_kb, 'kB: no process collects it') or diag "a process has grown by $most kB";
note "the largest growth was $most kB";
$local->query_safe('COMMIT');
$local->quit;
$pub->safe_psql('postgres', 'UPDATE r SET n = n + 1');
fault_applied($pub, $sub, $offset, 'after the lock');
ppa_same_table($pub, $sub, $_, "$_ equal") for 'big', 'r';
$most = max(map { fault_private_kb($_) - $before{$_} } @pids);
cmp_ok($most, '<=', $bound_kb, 'kB: nor when it was applied') or diag "a process has grown by $most kB";
is(ppa_stat($sub, 'sub', 'groups_large'), 1, 'it was given out early') if $parallel;
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
