# 066_error_under_load.pl: an error (duplicate key with a local row) and SKIP while several transactions are in flight.
# Shows: the stop is the built-in worker's: all transactions before the bad one are committed, nothing of it and nothing behind
# it; one log entry per attempt, with the context of the built-in worker, counted once; disable_on_error disables once;
# SKIP skips this transaction and no other.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(
	pub_conf => 'synchronous_commit = off',
	sub_conf => "deadlock_timeout = 10min\nwal_retrieve_retry_interval = 100ms");
fault_gate($pub, $sub);
my $tables = 5;
ppa_both($pub, $sub, join '', map { "CREATE TABLE t_$_ (id int PRIMARY KEY, n int);" } 1 .. $tables);
$pub->safe_psql('postgres', "INSERT INTO t_$_ SELECT -g, 0 FROM generate_series(1, 50) g") for 1 .. $tables;
ppa_subscribe($pub, $sub);
my $oid = $sub->safe_psql('postgres', 'SELECT oid FROM pg_subscription');
my $all = join ' UNION ALL ', map { "SELECT id FROM t_$_ WHERE id > 0" } 1 .. $tables;

# Transaction $n inserts $n into one of the tables and updates rows of others, all clients' rows being the same few.
sub transaction
{
	my ($n) = @_;
	my ($t, $u) = (1 + $n % $tables, 1 + ($n + 1) % $tables);
	return "BEGIN; UPDATE t_$u SET n = n + 1 WHERE id = -(1 + $n % 50); INSERT INTO t_$t VALUES ($n, 0); COMMIT;";
}

# Errors of all processes that apply.
sub errors
{
	my ($offset) = @_;
	return grep { $_->{level} eq 'ERROR' && $_->{backend} =~ /logical replication|pg_parallel_apply/ } ppa_log_entries($sub, $offset);
}

sub check_stop
{
	my ($what, $first, $bad) = @_;
	is($sub->safe_psql('postgres', "SELECT count(*), max(id) FROM ($all) a WHERE id >= $first AND id <> $bad"),
		($bad - $first) . '|' . ($bad - 1), "$what: all before it is committed, nothing behind it");
	return;
}

my $next = 1;
foreach my $how ('disabled', 'again and again')
{
	foreach my $case ('behind a slow one', 'in a backlog', 'live')
	{
		my $what = "$case, $how";
		my $first = $next;
		my $bad = $first + ($case eq 'behind a slow one' ? 3 : 250);
		my $last = $bad + ($case eq 'behind a slow one' ? 6 : 250);
		$next = $last + 1;
		my $table = 't_' . (1 + $bad % $tables);
		$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub SET (disable_on_error = ' . ($how eq 'disabled' ? 'true' : 'false') . ')');
		$sub->safe_psql('postgres', "INSERT INTO $table VALUES ($bad, -1)");
		my $count = ppa_error_count($sub);
		my $offset = ppa_log_pos($sub);
		if ($case eq 'behind a slow one')
		{
			# Alone in its group, at the time it fails there is one before it and some behind it.
			fault_setting($sub, 'group_commit', 'off');
			$pub->safe_psql('postgres', join '', fault_gate_sql(1), map { transaction($_) } $first .. $last);
		}
		else
		{
			my $work = join '', map { transaction($_) } $first .. $last;
			$case eq 'live' ? $pub->safe_psql('postgres', $work) : ppa_backlog($pub, $sub, 'sub', $work);
		}
		my $error = ppa_apply_error($sub, $offset);
		is($error->{text}, qq{duplicate key value violates unique constraint "${table}_pkey"}, "$what: text");
		is($error->{detail}, "Key (id)=($bad) already exists.", "$what: detail");
		is($error->{backend}, 'logical replication worker', "$what: raised by the built-in worker's process");
		is($error->{relation}, "public.$table", "$what: relation");
		is($error->{command}, 'INSERT', "$what: message type");
		is($error->{origin}, "pg_$oid", "$what: origin");
		if ($how eq 'disabled')
		{
			ppa_wait_for($sub, 'SELECT NOT subenabled FROM pg_subscription', 'disabled subscription');
			ppa_disable($sub);
			check_stop($what, $first, $bad);
			is(scalar errors($offset), 1, "$what: one ERROR in the log");
			is(ppa_log_count($sub, qr/subscription "sub" has been disabled because of an error/, $offset), 1, "$what: disabled once");
		}
		else
		{
			my $second = ppa_apply_error($sub, $error->{next});
			is($second->{$_}, $error->{$_}, "$what: second attempt: same $_") for qw(text context);
			check_stop($what, $first, $bad);
			ppa_disable($sub);
		}
		fault_no_workers($sub, "$what: no worker is left");
		my $attempts = errors($offset);
		ppa_wait_for($sub, "SELECT apply_error_count >= $count + $attempts FROM pg_stat_subscription_stats", 'the errors to be counted');
		is(ppa_error_count($sub), $count + $attempts, "$what: each attempt counted once");

		# The first three are skipped, the others repaired.
		if ($how eq 'disabled')
		{
			$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SKIP (lsn = '$error->{lsn}')");
		}
		else
		{
			$sub->safe_psql('postgres', "DELETE FROM $table WHERE id = $bad");
		}
		$offset = ppa_log_pos($sub);
		ppa_enable($sub);
		fault_applied($pub, $sub, $offset, "$what, afterwards");
		if ($how eq 'disabled')
		{
			is(ppa_log_count($sub, qr/LOG:  logical replication starts skipping transaction at LSN \Q$error->{lsn}\E/, $offset), 1, "$what: skipped once");
			is($sub->safe_psql('postgres', 'SELECT subskiplsn FROM pg_subscription'), '0/0', "$what: no LSN left to skip");
			is($sub->safe_psql('postgres', "SELECT n FROM $table WHERE id = $bad"), -1, "$what: the local row is still there");

			# For the comparison: its other change, if none of those behind it has repaired the row anyway.
			my $u = 1 + ($bad + 1) % $tables;
			my $id = -(1 + $bad % 50);
			my $n = $pub->safe_psql('postgres', "SELECT n FROM t_$u WHERE id = $id");
			$sub->safe_psql('postgres', "UPDATE $table SET n = 0 WHERE id = $bad; UPDATE t_$u SET n = $n WHERE id = $id");
		}
		ppa_same_table($pub, $sub, "t_$_", "$what: t_$_ equal in the end") for 1 .. $tables;
		fault_setting($sub, 'group_commit');
	}
}

# ---- an LSN to skip that is set while transactions are in flight (one that names one of them: 017)
my ($local, $local_pid) = fault_session($sub);
$local->query_safe('BEGIN; SELECT FROM t_1 WHERE id = -1 FOR UPDATE');
$pub->safe_psql('postgres', 'UPDATE t_1 SET n = n + 1 WHERE id = -1');
fault_blocked($sub, ppa_worker_pid($sub), $local_pid);
$pub->safe_psql('postgres', "INSERT INTO t_2 VALUES ($next + $_, 0)") for 0 .. 5;
ppa_flush($pub);
my $sent = $pub->lsn('write');
ppa_wait_for($pub, "SELECT sent_lsn >= '$sent' FROM pg_stat_replication WHERE application_name = 'sub'", 'the walsender');
my $offset = ppa_log_pos($sub);

# A position that belongs to no transaction: the first one that commits clears it, all are applied.
my $wrong = $pub->safe_psql('postgres', "SELECT pg_current_wal_lsn() + 10000000");
$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SKIP (lsn = '$wrong')");
$local->query_safe('COMMIT');
$local->quit;
fault_applied($pub, $sub, $offset, 'wrong LSN to skip, set with transactions in flight');
is(ppa_log_count($sub, qr/WARNING:  skip-LSN of subscription "sub" cleared/, $offset), 1, 'wrong LSN to skip: one warning');
is($sub->safe_psql('postgres', 'SELECT subskiplsn FROM pg_subscription'), '0/0', 'wrong LSN to skip: cleared');
ppa_same_table($pub, $sub, "t_$_", "wrong LSN to skip: t_$_ equal") for 1, 2;
fault_no_crash($pub, $sub);
done_testing();
