# 039_long_lock.pl: a lock held locally for longer than wal_receiver_timeout and wal_sender_timeout (10 s each).
# Shows: while apply waits for it, keepalives are still answered: no reconnect. One subscription waits for a table lock,
# another for a row lock. LOCK_SECONDS (default 25; 60 for the long run).
#
# The built-in worker does not answer meanwhile and is disconnected: with PPA_BUILTIN only a short wait is tested.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my $seconds = fault_env('LOCK_SECONDS', ppa_builtin() ? 2 : 25);
my $timeouts = "wal_sender_timeout = 10s\nwal_receiver_timeout = 10s";
my ($pub, $sub) = ppa_pair(pub_conf => $timeouts, sub_conf => $timeouts);
ppa_both($pub, $sub, 'CREATE TABLE whole (id int PRIMARY KEY, n int); CREATE TABLE one (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'INSERT INTO whole VALUES (1, 0); INSERT INTO one VALUES (1, 0), (2, 0)');
ppa_subscribe($pub, $sub, name => 'sub_whole', publication => 'pub_whole', tables => 'TABLE whole');
ppa_subscribe($pub, $sub, name => 'sub_one', publication => 'pub_one', tables => 'TABLE one');

my %lock = (whole => 'LOCK TABLE whole', one => 'SELECT FROM one WHERE id = 1 FOR UPDATE');
my (%session, %worker, %walsender, %offset);
foreach my $table (sort keys %lock)
{
	$worker{$table} = ppa_worker_pid($sub, "sub_$table");
	$walsender{$table} = fault_walsender($pub, "sub_$table");
	my ($session, $pid) = fault_session($sub);
	$session->query_safe("BEGIN; $lock{$table}");
	$session{$table} = [ $session, $pid ];
}
%offset = map { $_->name => ppa_log_pos($_) } ($pub, $sub);
$pub->safe_psql('postgres', 'UPDATE whole SET n = 1; UPDATE one SET n = 1 WHERE id = 1');
fault_blocked($sub, $worker{$_}, $session{$_}[1]) for sort keys %lock;

# The publisher goes on, so that there is data to send as well as silence.
my $half = $seconds / 2;
my $load = fault_load_start($pub, clients => 1, rate => 20, scripts => [ ['UPDATE one SET n = n + 1 WHERE id = 2'] ]);
fault_pause($half, $half);
fault_load_stop($load);
fault_pause($half, $half);
fault_blocked($sub, $worker{$_}, $session{$_}[1]) for sort keys %lock;
foreach my $table (sort keys %lock)
{
	is(ppa_worker_pid($sub, "sub_$table"), $worker{$table}, "$table: the same apply worker after $seconds s");
	is(fault_walsender($pub, "sub_$table"), $walsender{$table}, "$table: the same walsender after $seconds s");
	$session{$table}[0]->query_safe('COMMIT');
	$session{$table}[0]->quit;
	ppa_catchup($pub, $sub, "sub_$table");
	ppa_same_table($pub, $sub, $table, "$table: applied after the lock");
	is(ppa_worker_pid($sub, "sub_$table"), $worker{$table}, "$table: the same apply worker in the end");
	is(fault_walsender($pub, "sub_$table"), $walsender{$table}, "$table: the same walsender in the end");
}
unlike(ppa_log($_, $offset{ $_->name }), qr/terminating|timeout/, 'no process ended on the ' . $_->name) for ($pub, $sub);
fault_no_crash($pub, $sub);
done_testing();
