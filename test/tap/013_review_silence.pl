# 013_review_silence.pl: what wal_receiver_timeout and wal_sender_timeout mean while apply waits for local locks.
# Shows: a connection is given up only when the other side is silent, not when we were busy.
#	sub_burst	a large transaction waits for a row lock for longer than wal_receiver_timeout; right after that, in the middle
#				of it, the publisher pauses for less than the timeout
#	sub_first	the very first change that a new connection brings waits for longer than wal_sender_timeout; whether the
#				input runs dry before it comes is up to the publisher, so not each run meets the hard case
# The built-in worker does not answer meanwhile and is disconnected by the publisher: nothing to test.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'the built-in worker does not answer while it waits' if ppa_builtin();

my $lock_seconds = 15;
my ($pub, $sub) = ppa_pair(
	pub_conf => 'wal_sender_timeout = 6s',
	sub_conf => 'wal_receiver_timeout = 8s');
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE burst (id int PRIMARY KEY, n int, note text);
CREATE TABLE first (id int PRIMARY KEY, n int);
SQL
$pub->safe_psql('postgres', 'INSERT INTO burst VALUES (0, 0); INSERT INTO first VALUES (0, 0)');
my %stopped;

END
{
	my $status = $?;
	kill 'CONT', keys %stopped;
	$? = $status;
}

my %locker;
foreach my $table (qw(burst first))
{
	ppa_subscribe($pub, $sub, name => "sub_$table", publication => "pub_$table", tables => "TABLE $table");
	$locker{$table} = [ fault_session($sub) ];
	$locker{$table}[0]->query_safe("BEGIN; SELECT FROM $table WHERE id = 0 FOR UPDATE");
}
ppa_backlog($pub, $sub, 'sub_first', join '', map { "UPDATE first SET n = $_ WHERE id = 0; INSERT INTO first VALUES ($_, 0);" } 1 .. 20);

# Far above pg_parallel_apply.group_bytes, so applied as it arrives, and far above what the socket holds, so that the
# walsender is still sending when the lock is released.
$pub->safe_psql('postgres', <<'SQL');
BEGIN;
INSERT INTO burst SELECT g, 0, repeat('x', 1000) FROM generate_series(1, 500) g;
UPDATE burst SET n = 1 WHERE id = 0;
INSERT INTO burst SELECT g, 0, repeat('y', 1000) FROM generate_series(501, 5000) g;
COMMIT;
SQL
my %worker = map { $_ => ppa_worker_pid($sub, "sub_$_") } keys %locker;
fault_blocked($sub, $worker{$_}, $locker{$_}[1]) for keys %locker;
my $released_at = time() + $lock_seconds;

# No walsender need be in state "streaming" as long as it catches up.
my %walsender = map {
	$_ => $pub->safe_psql('postgres', "SELECT pid FROM pg_stat_replication WHERE application_name = 'sub_$_'")
} keys %locker;
like($walsender{$_}, qr/^\d+$/, "$_: connected") for sort keys %locker;
my %offset = map { $_->name => ppa_log_pos($_) } ($pub, $sub);
fault_pause($released_at - time(), $released_at - time());
fault_blocked($sub, $worker{$_}, $locker{$_}[1]) for keys %locker;

# The worker reads what the socket holds and then waits in the middle of the transaction, with the last data read
# and the lock only just got: not a silence of $lock_seconds. It looks at the clock once a second.
$stopped{ $walsender{burst} } = 1;
kill 'STOP', $walsender{burst};
$_->[0]->query_safe('COMMIT') for values %locker;
ppa_wait_for($sub,
	"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $worker{burst} AND wait_event IS DISTINCT FROM 'LogicalApplyMain'",
	'the end of the input');
fault_pause(2.5, 2.5);
kill 'CONT', keys %stopped;
%stopped = ();

foreach my $table (sort keys %locker)
{
	$locker{$table}[0]->quit;
	ppa_catchup($pub, $sub, "sub_$table");
	ppa_same_table($pub, $sub, $table, "$table: applied");
	is(ppa_worker_pid($sub, "sub_$table"), $worker{$table}, "$table: the same apply worker");
	is(fault_walsender($pub, "sub_$table"), $walsender{$table}, "$table: the same walsender");
}
foreach my $node ($pub, $sub)
{
	my @given_up = grep { /terminating|timeout/ } split /\n/, ppa_log($node, $offset{ $node->name });
	is($given_up[0], undef, 'no connection given up on the ' . $node->name);
}
fault_no_crash($pub, $sub);
done_testing();
