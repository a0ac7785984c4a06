# 042_odd_publisher.pl: publishers that stop, freeze or have nothing to say.
# Shows: a clean stop of the publisher returns and leaves nothing behind that the subscriber lacks; the end of the stream is
# handled; a frozen walsender ends in the server's timeout error; keepalive positions are confirmed on a quiet database, but
# never past a transaction that is not yet applied.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time);

fault_seed();
my ($pub, $sub) = ppa_pair(sub_conf => 'wal_retrieve_retry_interval = 50ms');
fault_schema($pub, $sub);
ppa_subscribe($pub, $sub);
my @tables = qw(fault_log fault_count fault_move);

sub checksums
{
	my ($node) = @_;
	return join ' ', map { $node->safe_psql('postgres', "SELECT count(*), sum(hashtextextended(t::text, 0)) FROM $_ t") } @tables;
}

# A fast shutdown waits until the subscriber has confirmed all. What it has then is compared while the publisher is down.
foreach my $how ('idle', 'idle, subscription synchronous_commit on', 'under load', 'with a backlog')
{
	my $setting = $how =~ /synchronous_commit on/ ? 'on' : 'off';
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SET (synchronous_commit = $setting)");
	my $load;
	if ($how =~ /idle/)
	{
		$pub->safe_psql('postgres', 'INSERT INTO fault_log VALUES (1, 1, 1)');
		ppa_catchup($pub, $sub);
	}
	else
	{
		$load = fault_load_start($pub, clients => 4, $how =~ /backlog/ ? () : (rate => 500));
		fault_progress($sub);
		fault_pause(0.5, 1.5);
	}
	my $offset = ppa_log_pos($sub);
	my $start = time();
	ok($pub->stop('fast', fail_ok => 1), "$how: a fast stop of the publisher returns");
	diag sprintf('%s: fast stop took %.2f s', $how, time() - $start);
	my $before = checksums($sub);
	ppa_log_match($sub, qr/data stream from publisher has ended|could not connect to the publisher/, $offset);
	ok(ppa_log_count($sub, qr/LOG:  data stream from publisher has ended/, $offset) == 1, "$how: the end of the stream is logged");

	# The built-in loop answers the end of the stream, which fails when the walsender has gone by then.
	is(ppa_log_count($sub, qr/ERROR:  (?!could not (?:connect|send end-of-streaming))/, $offset), 0, "$how: no other error than the lost publisher");
	$pub->start;
	fault_load_stop($load, ended => 1) if $load;
	is($before, checksums($pub), "$how: the subscriber had all when the publisher was down");
	$pub->safe_psql('postgres', 'INSERT INTO fault_log VALUES (2, 2, 2)');
	ppa_catchup($pub, $sub);
	ppa_same_table($pub, $sub, $_, "$how: $_ equal after the reconnect") for @tables;
}

# A quiet database: WAL that holds nothing for the subscription is confirmed.
$pub->safe_psql('postgres', 'CREATE DATABASE elsewhere');
my $write = 'CREATE TABLE w (t text); INSERT INTO w SELECT repeat(md5(g::text), 20) FROM generate_series(1, 5000) g; DROP TABLE w';
my $confirmed = 'SELECT confirmed_flush_lsn FROM pg_replication_slots';

foreach my $round (1, 2)
{
	$pub->safe_psql('elsewhere', $write);
	my $lsn = $pub->lsn('flush');
	ppa_wait_for($pub, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots", 'the position of a keepalive to be confirmed');
	ok(1, "quiet, round $round: positions of other databases are confirmed");
}

# The same while a transaction waits for a local lock: its position must not be confirmed.
ppa_set($sub, 'wal_receiver_status_interval', "'1s'");
my ($local, $local_pid) = fault_session($sub);
$local->query_safe('BEGIN; LOCK TABLE fault_count');
my $before = $pub->lsn('insert');
$pub->safe_psql('postgres', 'UPDATE fault_count SET version = version + 1 WHERE id = 1');
fault_blocked($sub, ppa_worker_pid($sub), $local_pid);
my $passed = 0;
foreach (1 .. 6)
{
	$pub->safe_psql('elsewhere', $write);
	fault_pause(0.5, 0.5);
	$passed++ if $pub->safe_psql('postgres', "SELECT confirmed_flush_lsn > '$before' FROM pg_replication_slots") eq 't';
}
is($passed, 0, 'nothing is confirmed past a transaction that is not applied');
$local->query_safe('COMMIT');
$local->quit;
ppa_catchup($pub, $sub);
my $lsn = $pub->lsn('flush');
ppa_wait_for($pub, "SELECT confirmed_flush_lsn >= '$lsn' FROM pg_replication_slots", 'the position to be confirmed after the lock');
ppa_same_table($pub, $sub, 'fault_count', 'the transaction that had to wait is applied');

# A frozen walsender: the server's own timeout error, then a reconnect when it thaws.
ppa_set($sub, 'wal_receiver_timeout', "'3s'");
my $pid = ppa_worker_pid($sub);
my $walsender = fault_walsender($pub);
my $offset = ppa_log_pos($sub);
kill 'STOP', $walsender or die "kill: $!";
$pub->safe_psql('postgres', 'INSERT INTO fault_log VALUES (3, 3, 3)');
my $error = eval { ppa_apply_error($sub, $offset, qr/timeout/) };
kill 'CONT', $walsender;
die $@ unless $error;
is($error->{text}, 'terminating logical replication worker due to timeout', 'a frozen walsender: the timeout error');
is($error->{sqlstate}, '08006', 'its SQLSTATE');
ppa_catchup($pub, $sub);
isnt(ppa_worker_pid($sub), $pid, 'another apply worker after it');
ppa_same_table($pub, $sub, $_, "after the timeout: $_ equal") for @tables;

# An idle connection with the same timeout lives on: the worker asks, the walsender answers.
$pid = ppa_worker_pid($sub);
$walsender = fault_walsender($pub);
fault_pause(7, 7);
is(ppa_worker_pid($sub), $pid, 'idle for more than twice the timeout: the same worker');
is(fault_walsender($pub), $walsender, 'the same walsender');
fault_no_crash($pub, $sub);
done_testing();

END
{
	kill 'CONT', $walsender if $walsender;
}
