# 012_review_lost_publisher.pl: the publisher dies while apply workers wait for a local row lock, so that the status
# message that is due every second cannot be sent.
# Shows: the workers can still be interrupted, with the lock held all the time: pg_terminate_backend(), DROP
# SUBSCRIPTION and a fast shutdown end them at once.  Serial mode: in parallel mode the process that has the connection
# never waits for a lock, and ends its workers when the publisher is lost (see 05x).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

# Far more than an interrupt takes, and far less than the lock is held: that is until the end of the test.
my $bound = 20;

my ($pub, $sub) = ppa_pair(sub_conf => ppa_builtin() ? '' : 'pg_parallel_apply.workers = 0');
my @tables = qw(terminated dropped stopped);
my (%worker, %locker);
foreach my $table (@tables)
{
	ppa_both($pub, $sub, "CREATE TABLE $table (id int PRIMARY KEY, n int)");
	$pub->safe_psql('postgres', "INSERT INTO $table VALUES (1, 0)");
	ppa_subscribe($pub, $sub, name => "sub_$table", publication => "pub_$table", tables => "TABLE $table");
	$worker{$table} = ppa_worker_pid($sub, "sub_$table");
}

# A fast shutdown ends sessions, too; a prepared transaction keeps its locks until the very end.
$sub->append_conf('postgresql.conf', 'max_prepared_transactions = 3');
$sub->restart;
foreach my $table (@tables)
{
	ppa_catchup($pub, $sub, "sub_$table");
	$worker{$table} = ppa_worker_pid($sub, "sub_$table");
	$sub->safe_psql('postgres', "BEGIN; UPDATE $table SET n = -1 WHERE id = 1; PREPARE TRANSACTION 'lock_$table'");
	$pub->safe_psql('postgres', "UPDATE $table SET n = 1 WHERE id = 1");
	fault_blocked($sub, $worker{$table});
}
$pub->stop('immediate');

# Let some status messages fail: one is due every second.
fault_pause(4, 4);
is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_activity WHERE pid IN (' . join(', ', values %worker) . ')'),
	scalar @tables, 'the workers still wait for the locks');

sub is_gone
{
	my ($table) = @_;
	my $gone = eval {
		local $PostgreSQL::Test::Utils::timeout_default = $bound;
		ppa_wait_for($sub, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $worker{$table}", "the end of $worker{$table}");
		1;
	};
	return $gone;
}

my $offset = ppa_log_pos($sub);
is($sub->safe_psql('postgres', "SELECT pg_terminate_backend($worker{terminated})"), 't', 'signal sent');
ok(is_gone('terminated'), 'pg_terminate_backend ends a worker that waits for a lock');
ppa_log_match($sub,
	qr/\[$worker{terminated}\] 57P01 .* FATAL:  terminating logical replication worker due to administrator command/, $offset);

my ($status, undef, $stderr) = $sub->psql('postgres', <<"SQL", on_error_stop => 1);
SET statement_timeout = '${bound}s';
ALTER SUBSCRIPTION sub_dropped DISABLE;
ALTER SUBSCRIPTION sub_dropped SET (slot_name = NONE);
DROP SUBSCRIPTION sub_dropped;
SQL
is("$status $stderr", '0 ', 'DROP SUBSCRIPTION ends a worker that waits for a lock');
is($sub->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $worker{dropped}"), 0, 'the dropped worker has gone');

is($sub->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 3, 'the locks are still held');
is($sub->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE pid = $worker{stopped}"), 1, 'the third worker still waits');
{
	local $ENV{PGCTLTIMEOUT} = $bound;
	ok($sub->stop('fast', fail_ok => 1), 'a fast shutdown ends a worker that waits for a lock');
}
$sub->stop('immediate');

# Everything is applied once all are back.
$pub->start;
$sub->start;
$sub->safe_psql('postgres', "ROLLBACK PREPARED 'lock_$_'") for @tables;
foreach my $table (qw(terminated stopped))
{
	ppa_catchup($pub, $sub, "sub_$table");
	ppa_same_table($pub, $sub, $table, "$table: applied in the end");
}
fault_no_crash($pub, $sub);
done_testing();
