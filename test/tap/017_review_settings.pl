# 017_review_settings.pl: settings that decide which remote transactions share a local one.
# Shows: ALTER SUBSCRIPTION SKIP skips the transaction it names and none behind one that has cleared it; above READ
# COMMITTED each transaction is applied by itself, and the log says so; the bounds of pg_parallel_apply.group_bytes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaFault;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY, n int)');
ppa_subscribe($pub, $sub);

# ---- SKIP. LSNs as the error context and ALTER SUBSCRIPTION have them: of the commit record, which BEGIN announces.
# A slot that nobody streams from shows them.
$pub->safe_psql('postgres', "SELECT pg_create_logical_replication_slot('peek', 'pgoutput')");

sub pending_lsns
{
	my @begin = split /\n/, $pub->safe_psql('postgres', <<'SQL');
SELECT encode(substring(data FROM 2 FOR 8), 'hex')
FROM pg_logical_slot_get_binary_changes('peek', NULL, NULL, 'proto_version', '1', 'publication_names', 'pub')
WHERE get_byte(data, 0) = ascii('B')
SQL
	return map { sprintf '%X/%X', hex(substr $_, 0, 8), hex(substr $_, 8) } @begin;
}

# The transactions 1 .. 5 arrive while the worker waits for a lock in another one, so that it finds them all at once:
# what one of them changes must be seen by the next of the same batch. [name, number of the transaction named]
foreach my $case ([ 'the first', 1 ], [ 'the second, behind one that commits', 2 ], [ 'the last', 5 ])
{
	my ($name, $which) = @$case;
	my $cleared = $which > 1;
	$pub->safe_psql('postgres', 'DELETE FROM t; INSERT INTO t VALUES (0, 0)');
	ppa_catchup($pub, $sub);
	my $offset = ppa_log_pos($sub);
	my ($locker, $locker_pid) = fault_session($sub);
	$locker->query_safe('BEGIN; SELECT FROM t WHERE id = 0 FOR UPDATE');
	$pub->safe_psql('postgres', 'UPDATE t SET n = 1 WHERE id = 0');
	fault_blocked($sub, ppa_worker_pid($sub), $locker_pid);

	pending_lsns();
	$pub->safe_psql('postgres', join '', map { "INSERT INTO t VALUES ($_, 0);" } 1 .. 5);
	my @lsn = pending_lsns();
	is(scalar @lsn, 5, "skip $name: five transactions wait");
	my $sent = $pub->lsn('write');
	ppa_wait_for($pub, "SELECT sent_lsn >= '$sent' FROM pg_stat_replication WHERE application_name = 'sub'", 'the walsender');
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SKIP (lsn = '$lsn[$which - 1]')");
	$locker->query_safe('COMMIT');
	$locker->quit;
	fault_applied($pub, $sub, $offset, "skip $name");

	is($sub->safe_psql('postgres', 'SELECT subskiplsn FROM pg_subscription'), '0/0', "skip $name: the LSN is cleared");
	my ($warning) = grep { $_->{level} eq 'WARNING' } ppa_log_entries($sub, $offset);
	is($warning && $warning->{text}, $cleared ? 'skip-LSN of subscription "sub" cleared' : undef,
		"skip $name: " . ($cleared ? 'a warning' : 'no warning'));
	if ($cleared)
	{
		my ($first, $named) = @lsn[ 0, $which - 1 ];
		like($warning->{detail}, qr/finish WAL location \(LSN\) \Q$first\E did not match skip-LSN \Q$named\E\.$/,
			"skip $name: cleared by the first");
	}

	# Under a backlog stock 15 looks at the LSN to skip before it reads the subscription again: the first transaction
	# after the change goes by the old LSN, and the one behind a clearing one is skipped in spite of the warning.
	next if $which <= 2 && ppa_builtin();
	is( $sub->safe_psql('postgres', <<'SQL'), $cleared ? '' : 1, "skip $name: what is missing");
SELECT string_agg(g::text, ' ' ORDER BY g) FROM generate_series(0, 5) g WHERE NOT EXISTS (SELECT FROM t WHERE id = g)
SQL
	is(ppa_log_count($sub, qr/LOG:  logical replication starts skipping/, $offset), $cleared ? 0 : 1, "skip $name: skipped as often");
}
$pub->safe_psql('postgres', "DELETE FROM t; SELECT pg_drop_replication_slot('peek')");
ppa_catchup($pub, $sub);

if (ppa_builtin())
{
	fault_no_crash($pub, $sub);
	done_testing();
	exit 0;
}

# ---- groups and the isolation level of the session
sub counters
{
	my %counter;
	@counter{qw(groups transactions)} = split /\|/, ppa_stat($sub, 'sub', "groups || '|' || transactions");
	return \%counter;
}
my $id = 0;

foreach my $level ('read committed', 'repeatable read', 'serializable')
{
	my $what = "default_transaction_isolation '$level'";
	ppa_disable($sub);
	ppa_set($sub, 'default_transaction_isolation', "'$level'");
	ppa_wait_for($sub, "SELECT current_setting('default_transaction_isolation') = '$level'", 'the setting');
	my $before = counters();
	my $offset = ppa_log_pos($sub);

	# Sent at once, as the publisher has them all when the worker connects.
	$pub->safe_psql('postgres', join '', map { 'INSERT INTO t VALUES (' . ++$id . ', 0);' } 1 .. 50);
	ppa_enable($sub);
	fault_applied($pub, $sub, $offset, $what);
	my $after = counters();
	my %more = map { $_ => $after->{$_} - $before->{$_} } keys %$after;
	my $alone = ppa_log_count($sub, qr/LOG:  pg_parallel_apply applies transactions of subscription "sub" one by one: default_transaction_isolation is above/, $offset);
	my $left = ppa_log_count($sub, qr/LOG:  pg_parallel_apply leaves subscription "sub" to the built-in apply worker: default_transaction_isolation is serializable/, $offset);
	if ($level eq 'read committed')
	{
		is("$alone $left", '0 0', "$what: nothing in the log");
		is($more{transactions}, 50, "$what: 50 transactions");
		cmp_ok($more{groups}, '<', 25, "$what: several at once");
	}
	elsif ($level eq 'repeatable read')
	{
		is("$alone $left", '1 0', "$what: the log says so");
		is($more{transactions}, 50, "$what: 50 transactions");
		is($more{groups}, 50, "$what: each by itself");
	}
	else
	{
		is("$alone $left", '0 1', "$what: left to the built-in worker");
	}
}
ppa_same_table($pub, $sub, 't', 'equal');

# ---- pg_parallel_apply.group_bytes
foreach my $value ('1kB', '64kB', '64MB', '65536')
{
	my ($status, undef, $stderr) = $sub->psql('postgres', "ALTER SYSTEM SET pg_parallel_apply.group_bytes = '$value'");
	is("$status $stderr", '0 ', "group_bytes $value: accepted");
}
foreach my $value ('0', '65537', '65MB', '1GB')
{
	my ($status, undef, $stderr) = $sub->psql('postgres', "ALTER SYSTEM SET pg_parallel_apply.group_bytes = '$value'");
	like($stderr, qr/is outside the valid range for parameter "pg_parallel_apply\.group_bytes" \(1(?: kB)? \.\. 65536(?: kB)?\)/,
		"group_bytes $value: refused");
}
fault_no_crash($pub, $sub);
done_testing();
