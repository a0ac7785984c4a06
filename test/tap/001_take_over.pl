# Taking over a subscription of the built-in worker, handing it back, and what passes through: the setting
# pg_parallel_apply.subscriptions, its list forms, subscriptions that we do not handle.
#
# Built in (PPA_BUILTIN=1) the setting does not exist; the switches are plain worker restarts then, and the tests of
# the setting are skipped.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

my $setting = 'pg_parallel_apply.subscriptions';
my $applies = qr/pg_parallel_apply applies subscription "sub"/;
my $leaves = qr/pg_parallel_apply leaves subscription "sub" to the built-in apply worker: \S/;

my $conf = 'max_prepared_transactions = 10';
my ($pub, $sub) = ppa_pair(
	pub_conf => $conf,
	sub_conf => $conf . (ppa_builtin() ? '' : "\n$setting = ''"));

# A table without key, so that an insert that is applied twice shows; tables that are updated and deleted from.
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE inserted (v bigint, at timestamptz DEFAULT now());
CREATE TABLE counters (id int PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
CREATE TABLE queue (id int PRIMARY KEY, v int);
SQL
$pub->safe_psql('postgres', <<'SQL');
INSERT INTO counters SELECT generate_series(1, 100);
INSERT INTO inserted SELECT generate_series(1, 100);
SQL
ppa_subscribe($pub, $sub, pass_through => 1);
my $rel_states = q{SELECT srrelid::regclass, srsubstate, srsublsn FROM pg_subscription_rel ORDER BY 1};
my $identity = q{SELECT s.oid, subslotname, roident, roname FROM pg_subscription s
	JOIN pg_replication_origin ON roname = 'pg_' || s.oid};
my $states_before = $sub->safe_psql('postgres', $rel_states);
my $identity_before = $sub->safe_psql('postgres', $identity);
my $copied = ppa_log_pos($sub);

# ---- ten times to and fro under load
my $load = ppa_load_start(
	$pub,
	script => [
		"\\set v random(1, 1000000000)\nINSERT INTO inserted VALUES (:v), (:v);\n",
		"\\set id random(1, 100)\nUPDATE counters SET n = n + 1 WHERE id = :id;\n",
		"\\set id random(1, 1000)\nBEGIN;\nDELETE FROM queue WHERE id = :id;\n"
		  . "INSERT INTO queue VALUES (:id, 1) ON CONFLICT (id) DO UPDATE SET v = queue.v + 1;\nEND;\n" ],
	clients => 4,
	rate => 1000,
	seconds => 600);

# Gives the subscription to one or the other and waits until the worker that says so is there.
sub hand_to
{
	my ($who) = @_;
	my $offset = ppa_log_pos($sub);
	if (ppa_builtin())
	{
		my $pid = ppa_worker_pid($sub, 'sub');
		$sub->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		ppa_log_match($sub, qr/apply worker for subscription "sub" has started/, $offset);
		return;
	}
	ppa_set($sub, $setting, $who eq 'us' ? "'*'" : "''");
	if ($who eq 'us') { ppa_log_match($sub, $applies, $offset) }
	else { ppa_wait_passed($sub, 'sub') }
	return;
}

my $marker = 'SELECT remote_lsn FROM pg_replication_origin_status WHERE external_id LIKE $$pg\_%$$';
my $progress = $sub->safe_psql('postgres', $marker);
my $steady = 1;
for my $round (1 .. 10)
{
	hand_to('us');
	hand_to('built in');
	my $now = $sub->safe_psql('postgres', $marker);
	$steady &&= $sub->safe_psql('postgres', "SELECT '$now'::pg_lsn >= '$progress'::pg_lsn") eq 't';
	$progress = $now;
}
ok($steady, 'the origin never went back');
# Last: the taken over one, so that both kinds have something to do after the last switch.
hand_to('us');
ppa_load_stop($pub, $load);
ppa_catchup($pub, $sub, 'sub');

ppa_same_table($pub, $sub, 'inserted', 'insert-only table without key: nothing lost, nothing twice');
ppa_same_table($pub, $sub, 'counters', 'updated table equal');
ppa_same_table($pub, $sub, 'queue', 'table with deletes equal');
is($sub->safe_psql('postgres', $rel_states), $states_before, 'pg_subscription_rel untouched');
is($sub->safe_psql('postgres', $identity), $identity_before, 'same subscription, slot and origin');
is(ppa_log_count($sub, qr/table synchronization worker for subscription/, $copied), 0, 'no table was synchronised again');
is(ppa_error_count($sub, 'sub'), 0, 'no apply error');

# ---- the setting
SKIP:
{
	skip 'built in: no setting', 1 if ppa_builtin();

	ppa_views($sub);

	# Which of the two a new worker becomes under the current setting.
	my $decision = sub {
		my ($name) = @_;
		my $offset = ppa_log_pos($sub);
		my $pid = ppa_worker_pid($sub, $name);
		$sub->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
		# the built-in worker says that it has started, then ours that it takes over: the view tells which it is
		ppa_log_match($sub, qr/logical replication apply worker for subscription "\Q$name\E" has started/, $offset);
		my $decided = "FROM parallel_apply.stat_subscription s JOIN pg_stat_subscription b USING (subid, pid)
			WHERE s.subname = '$name' AND state NOT IN ('down', 'starting') AND pid <> $pid";
		ppa_wait_for($sub, "SELECT count(*) = 1 $decided", "a decision about subscription $name");
		return $sub->safe_psql('postgres', "SELECT CASE state WHEN 'passed through' THEN 'leaves' ELSE 'applies' END $decided");
	};

	$sub->safe_psql('postgres', q{ALTER SUBSCRIPTION sub RENAME TO "Sub, odd.name"});
	ppa_log_match($sub, qr/applies subscription "Sub, odd.name"/, 0);
	for my $case (
		[ q{'*'}, 'applies', 'star' ],
		[ q{'"Sub, odd.name"'}, 'applies', 'quoted name' ],
		[ q{'postgres."Sub, odd.name"'}, 'applies', 'database and quoted name' ],
		[ q{'"postgres"."Sub, odd.name"'}, 'applies', 'both quoted' ],
		[ q{'other, "Sub, odd.name"'}, 'applies', 'one of a list' ],
		[ q{'other."Sub, odd.name"'}, 'leaves', 'other database' ],
		[ q{'"sub, odd.name"'}, 'leaves', 'quoted name in other case' ],
		[ q{''}, 'leaves', 'empty' ])
	{
		my ($value, $expected, $what) = @$case;
		ppa_set($sub, $setting, $value);
		is($decision->('Sub, odd.name'), $expected, "list form: $what");
	}
	$sub->safe_psql('postgres', q{ALTER SUBSCRIPTION "Sub, odd.name" RENAME TO sub});
	for my $case (
		[ q{'sub'}, 'applies', 'name' ],
		[ q{'SUB'}, 'applies', 'unquoted name in other case, folded as in SQL' ],
		[ q{'postgres.sub'}, 'applies', 'database.name' ],
		[ q{' other , postgres.sub '}, 'applies', 'list with blanks' ],
		[ q{'other.sub, sub2'}, 'leaves', 'not in the list' ],
		[ q{'su'}, 'leaves', 'a prefix is not the name' ])
	{
		my ($value, $expected, $what) = @$case;
		ppa_set($sub, $setting, $value);
		is($decision->('sub'), $expected, "list form: $what");
	}

	for my $bad (q{'a,,b'}, q{'a.b.c'}, q{'"open'}, q{'a b'}, q{'.sub'}, q{'sub.'}, q{','})
	{
		my ($status, undef, $error) = $sub->psql('postgres', "ALTER SYSTEM SET $setting = $bad");
		isnt($status, 0, "bad list $bad is rejected");
		like($error, qr/invalid value for parameter "\Q$setting\E"/, "bad list $bad: the error names the setting");
	}
	hand_to('us');
	my $offset = ppa_log_pos($sub);
	hand_to('built in');
	like(ppa_log($sub, $offset), $leaves, 'handing back is logged with its reason');
	hand_to('us');
}

# ---- what ALTER SUBSCRIPTION committed before a change arrives holds for that change
for my $round (1 .. 3)
{
	ppa_worker_pid($sub, 'sub');
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub DISABLE');
	$pub->safe_psql('postgres', "INSERT INTO queue VALUES (10000 + $round, 0)");
	ppa_wait_for($sub, q{SELECT count(*) = 0 FROM pg_stat_subscription WHERE subname = 'sub' AND pid IS NOT NULL}, 'no worker');
	is($sub->safe_psql('postgres', "SELECT count(*) FROM queue WHERE id = 10000 + $round"), 0, "disabled before the change: not applied ($round)");
	ppa_enable($sub, 'sub');
	ppa_catchup($pub, $sub, 'sub');
}

# ---- two_phase passes through
ppa_both($pub, $sub, 'CREATE TABLE prepared (id int PRIMARY KEY)');
$pub->safe_psql('postgres', 'CREATE PUBLICATION pub2 FOR TABLE prepared');
my $offset = ppa_log_pos($sub);
ppa_subscribe(
	$pub, $sub,
	name => 'two', publication => 'pub2', tables => undef,
	with => 'two_phase = true', pass_through => 1);
ppa_wait_for($sub, q{SELECT subtwophasestate = 'e' FROM pg_subscription WHERE subname = 'two'}, 'two_phase enabled');
ppa_log_match($sub, qr/leaves subscription "two" to the built-in apply worker: .*two_phase/, $offset)
  unless ppa_builtin();
$pub->safe_psql('postgres', <<'SQL');
BEGIN;
INSERT INTO prepared VALUES (1);
PREPARE TRANSACTION 'gid';
SQL
ppa_wait_for($sub, 'SELECT count(*) = 1 FROM pg_prepared_xacts', 'the prepared transaction');
pass('two_phase subscription prepares');
$pub->safe_psql('postgres', q{COMMIT PREPARED 'gid'});
ppa_catchup($pub, $sub, 'two');
is($sub->safe_psql('postgres', 'SELECT id FROM prepared'), '1', 'and commits the prepared transaction');
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION two');

# ---- an isolation level above read committed passes through
$sub->safe_psql('postgres', q{ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'});
$offset = ppa_log_pos($sub);
my $old = ppa_worker_pid($sub, 'sub');
$sub->safe_psql('postgres', "SELECT pg_terminate_backend($old)");
ppa_log_match($sub, qr/leaves subscription "sub" to the built-in apply worker: .*(?:isolation|serializable)/, $offset)
  unless ppa_builtin();
$pub->safe_psql('postgres', 'UPDATE counters SET n = n + 1');
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, 'counters', 'serializable by default: applied');

done_testing();
