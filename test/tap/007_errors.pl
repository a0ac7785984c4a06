# Errors: each stops the subscription exactly where the built-in worker stops, with its text, SQLSTATE and context line,
# is counted once per attempt, disables once with disable_on_error, and can be skipped by its LSN; also when the bad
# transaction sits in the middle of a backlog of small ones (which form groups).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();

ppa_both($pub, $sub, <<'SQL');
CREATE TABLE good (id int PRIMARY KEY);
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE wide (id int PRIMARY KEY, n int);
CREATE TABLE checked (id int PRIMARY KEY, n int);
CREATE TABLE filled (id int PRIMARY KEY, v text);
CREATE TABLE deferred (id int PRIMARY KEY, n int);
CREATE TABLE fires (id int PRIMARY KEY, v text);
CREATE TABLE fires_update (id int PRIMARY KEY, v text);
CREATE TABLE domained (id int PRIMARY KEY, n int);
CREATE TABLE second (id int PRIMARY KEY, a int, b text);
CREATE TABLE excluded (id int PRIMARY KEY, r int4range);
CREATE TABLE keyless (j json, v int);
ALTER TABLE keyless REPLICA IDENTITY FULL;
CREATE TABLE unkeyed (id int PRIMARY KEY, v int);
CREATE TABLE enumed (id int PRIMARY KEY, e text);
CREATE TABLE lost_column (id int PRIMARY KEY, a int, b int);
CREATE TABLE lost_table (id int PRIMARY KEY);
CREATE TABLE viewed (id int PRIMARY KEY);
SQL
$sub->safe_psql('postgres', <<'SQL');
ALTER TABLE wide ALTER n TYPE smallint;
ALTER TABLE checked ADD CONSTRAINT small CHECK (n < 1000);
ALTER TABLE filled ALTER v SET NOT NULL;
CREATE DOMAIN little AS int CHECK (VALUE < 1000);
ALTER TABLE domained ALTER n TYPE little;
CREATE UNIQUE INDEX second_a ON second (a);
ALTER TABLE excluded ADD CONSTRAINT apart EXCLUDE USING gist (r WITH &&);
CREATE TYPE color AS ENUM ('red', 'green');
ALTER TABLE enumed ALTER e TYPE color USING e::color;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.id IN (100, 200, 300) THEN
		RAISE EXCEPTION 'row % is refused', NEW.id USING ERRCODE = 'P1234', DETAIL = 'by a trigger', HINT = 'no hint';
	END IF;
	RETURN NEW;
END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON deferred DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse();
ALTER TABLE deferred ENABLE ALWAYS TRIGGER refuse;
CREATE TRIGGER refuse BEFORE INSERT ON fires FOR EACH ROW EXECUTE FUNCTION refuse();
ALTER TABLE fires ENABLE REPLICA TRIGGER refuse;
CREATE TRIGGER refuse AFTER UPDATE ON fires_update FOR EACH ROW EXECUTE FUNCTION refuse();
ALTER TABLE fires_update ENABLE ALWAYS TRIGGER refuse;
SQL
$pub->safe_psql('postgres', q{INSERT INTO fires_update VALUES (100, 'a'), (101, 'a'); INSERT INTO unkeyed VALUES (1, 1);
	INSERT INTO keyless VALUES ('{}', 1)});
ppa_subscribe($pub, $sub, with => 'disable_on_error = true');
$sub->safe_psql('postgres', <<'SQL');
ALTER TABLE unkeyed DROP CONSTRAINT unkeyed_pkey;
INSERT INTO t VALUES (100, 'local'), (200, 'local');
INSERT INTO second VALUES (900, 100, 'local');
INSERT INTO excluded VALUES (900, '[100,200)');
ALTER TABLE lost_column DROP a, DROP b;
DROP TABLE lost_table;
DROP TABLE viewed;
CREATE VIEW viewed AS SELECT 1 AS id;
SQL
my $oid = $sub->safe_psql('postgres', q{SELECT oid FROM pg_subscription WHERE subname = 'sub'});

my $number = 0;    # of the rows of "good" around the bad transactions

# One bad transaction: what the publisher does and what the log must say. relation and column as in the context line.
sub bad
{
	my (%case) = @_;
	my $name = $case{name};
	my ($first, $last) = ($number + 1, $number + 40);
	my $middle = $number + 20;
	$number += 40;

	# The subscription is enabled or was just disabled by the last error.
	my $count = ppa_error_count($sub, 'sub');
	my $offset = ppa_log_pos($sub);
	ppa_backlog(
		$pub, $sub, 'sub',
		join("\n",
			(map { "INSERT INTO good VALUES ($_);" } $first .. $middle),
			"BEGIN; INSERT INTO good VALUES (-$first); $case{sql}; COMMIT;",
			(map { "INSERT INTO good VALUES ($_);" } $middle + 1 .. $last)));
	my $error = ppa_apply_error($sub, $offset);
	is($error->{text}, $case{text}, "$name: text");
	is($error->{sqlstate}, $case{sqlstate}, "$name: SQLSTATE");
	is($error->{detail}, $case{detail}, "$name: detail") if exists $case{detail};
	is($error->{hint}, $case{hint}, "$name: hint") if exists $case{hint};
	is($error->{origin}, "pg_$oid", "$name: origin in the context");
	is($error->{command}, $case{command} // 'INSERT', "$name: message type in the context");
	is($error->{relation}, $case{relation}, "$name: relation in the context");
	is($error->{column}, $case{column}, "$name: column in the context");
	like($error->{xid} // '', qr/^\d+$/, "$name: remote transaction in the context");

	# disable_on_error: once, after one error that is counted once
	ppa_wait_for($sub, q{SELECT NOT subenabled FROM pg_subscription WHERE subname = 'sub'}, 'disabled subscription');
	ppa_wait_for($sub, q{SELECT count(*) = 0 FROM pg_stat_subscription WHERE subname = 'sub' AND pid IS NOT NULL}, 'no worker');
	ppa_wait_for($sub, "SELECT apply_error_count > $count FROM pg_stat_subscription_stats WHERE subname = 'sub'", 'count');
	is(ppa_error_count($sub, 'sub'), $count + 1, "$name: counted once");
	is(ppa_log_count($sub, qr/\[(?:logical replication|pg_parallel_apply) worker\] ERROR: /, $offset), 1, "$name: one ERROR in the log");
	is(ppa_log_count($sub, qr/subscription "sub" has been disabled because of an error/, $offset), 1, "$name: disabled once");
	is($sub->safe_psql('postgres', "SELECT max(id), count(*) FILTER (WHERE id < 0) FROM good WHERE id >= $first OR id = -$first"),
		"$middle|0", "$name: all before it is committed, nothing of it, nothing after it");

	# the LSN of the context skips this transaction and no other
	if ($case{fix})
	{
		$sub->safe_psql('postgres', $case{fix});
		ppa_enable($sub, 'sub');
	}
	else
	{
		my $skip = ppa_log_pos($sub);
		$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SKIP (lsn = '$error->{lsn}')");
		ppa_enable($sub, 'sub');
		ppa_log_match($sub, qr/LOG:  logical replication starts skipping transaction at LSN \Q$error->{lsn}\E/, $skip);
		ppa_log_match($sub, qr/LOG:  logical replication completed skipping transaction at LSN \Q$error->{lsn}\E/, $skip);
		for my $line ([ 'starts', 'BEGIN' ], [ 'completed', 'COMMIT' ])
		{
			my ($entry) = grep { $_->{text} =~ /replication $line->[0] skipping/ } ppa_log_entries($sub, $skip);
			is( $entry->{context},
				qq{processing remote data for replication origin "pg_$oid" during message type "$line->[1]" in transaction $error->{xid}, finished at $error->{lsn}},
				"$name: context of: $line->[0] skipping");
		}
	}
	ppa_catchup($pub, $sub, 'sub');
	is($sub->safe_psql('postgres', 'SELECT subskiplsn FROM pg_subscription'), '0/0', "$name: no LSN left to skip");
	is( $sub->safe_psql('postgres', "SELECT count(*), count(*) FILTER (WHERE id < 0) FROM good WHERE abs(id) BETWEEN $first AND $last"),
		$case{fix} ? '41|1' : '40|0', "$name: " . ($case{fix} ? 'applied after the repair' : 'skipped') . ', all others applied');
	is(ppa_error_count($sub, 'sub'), $count + 1, "$name: no other error");
	return $error;
}

bad(
	name => 'duplicate key', sql => q{INSERT INTO t VALUES (99, 'x'), (100, 'x')},
	text => 'duplicate key value violates unique constraint "t_pkey"', sqlstate => '23505',
	detail => 'Key (id)=(100) already exists.', relation => 'public.t');
is($sub->safe_psql('postgres', 'SELECT id, v FROM t ORDER BY id'), "100|local\n200|local", 'duplicate key: nothing of the transaction');
bad(
	name => 'duplicate key, repaired', sql => q{INSERT INTO t VALUES (98, 'x'), (200, 'x')},
	text => 'duplicate key value violates unique constraint "t_pkey"', sqlstate => '23505',
	detail => 'Key (id)=(200) already exists.', relation => 'public.t', fix => 'DELETE FROM t');
bad(
	name => 'duplicate key in the middle of many rows of one transaction',
	sql => 'INSERT INTO second SELECT g, g FROM generate_series(50, 300) g',
	text => 'duplicate key value violates unique constraint "second_a"', sqlstate => '23505',
	detail => 'Key (a)=(100) already exists.', relation => 'public.second');
$pub->safe_psql('postgres', 'TRUNCATE second');
ppa_catchup($pub, $sub, 'sub');
$sub->safe_psql('postgres', 'INSERT INTO second VALUES (900, 100, NULL)');
$pub->safe_psql('postgres', 'INSERT INTO second VALUES (1, 1)');
ppa_catchup($pub, $sub, 'sub');
bad(
	name => 'duplicate key of an update', sql => 'UPDATE second SET a = 100 WHERE id = 1',
	text => 'duplicate key value violates unique constraint "second_a"', sqlstate => '23505',
	detail => 'Key (a)=(100) already exists.', command => 'UPDATE', relation => 'public.second');
bad(
	name => 'exclusion constraint', sql => q{INSERT INTO excluded VALUES (1, '[150,160)')},
	text => 'conflicting key value violates exclusion constraint "apart"', sqlstate => '23P01',
	detail => 'Key (r)=([150,160)) conflicts with existing key (r)=([100,200)).', relation => 'public.excluded');
bad(
	name => 'out of range', sql => 'INSERT INTO wide VALUES (1, 1), (2, 70000)',
	text => 'value "70000" is out of range for type smallint', sqlstate => '22003', relation => 'public.wide', column => 'n');
bad(
	name => 'invalid text', sql => q{INSERT INTO enumed VALUES (1, 'red'), (2, 'blue')},
	text => 'invalid input value for enum public.color: "blue"', sqlstate => '22P02', relation => 'public.enumed', column => 'e');
bad(
	name => 'check constraint', sql => 'INSERT INTO checked VALUES (1, 1), (2, 5000)',
	text => 'new row for relation "checked" violates check constraint "small"', sqlstate => '23514',
	detail => 'Failing row contains (2, 5000).', relation => 'public.checked');
bad(
	name => 'domain constraint', sql => 'INSERT INTO domained VALUES (1, 5000)',
	text => 'value for domain public.little violates check constraint "little_check"', sqlstate => '23514',
	relation => 'public.domained', column => 'n');
bad(
	name => 'not null', sql => q{INSERT INTO filled VALUES (1, 'v'), (2, NULL)},
	text => 'null value in column "v" of relation "filled" violates not-null constraint', sqlstate => '23502',
	detail => 'Failing row contains (2, null).', relation => 'public.filled');
# With disable_on_error the built-in worker of 15 loses such a transaction: it disables the subscription in a transaction
# that advances the origin past the failed one. We do not.
SKIP:
{
	skip 'built in: a known fault of 15', 1 if ppa_builtin();
	bad(
		name => 'error at commit', sql => 'INSERT INTO deferred VALUES (100, 1), (101, 1)',
		text => 'row 100 is refused', sqlstate => 'P1234', detail => 'by a trigger', hint => 'no hint', command => 'COMMIT',
		relation => undef);
	bad(
		name => 'error at commit, repaired', sql => 'INSERT INTO deferred VALUES (1, 1), (200, 1)',
		text => 'row 200 is refused', sqlstate => 'P1234', command => 'COMMIT', relation => undef,
		fix => 'ALTER TABLE deferred DISABLE TRIGGER refuse');
	is($sub->safe_psql('postgres', q{SELECT string_agg(id::text, ' ' ORDER BY id) FROM deferred}), '1 200', 'error at commit, repaired: its rows');
}
bad(
	name => 'error in a BEFORE trigger', sql => q{INSERT INTO fires VALUES (99, 'a'), (100, 'a')},
	text => 'row 100 is refused', sqlstate => 'P1234', detail => 'by a trigger', hint => 'no hint', relation => 'public.fires');
bad(
	name => 'error in an AFTER trigger', sql => q{UPDATE fires_update SET v = 'b'},
	text => 'row 100 is refused', sqlstate => 'P1234', command => 'UPDATE', relation => 'public.fires_update');
bad(
	name => 'no replica identity on the subscriber', sql => 'UPDATE unkeyed SET v = 2',
	text => 'logical replication target relation "public.unkeyed" has neither REPLICA IDENTITY index nor PRIMARY KEY '
	  . 'and published relation does not have REPLICA IDENTITY FULL',
	sqlstate => '55000', command => 'UPDATE', relation => 'public.unkeyed', fix => 'ALTER TABLE unkeyed ADD PRIMARY KEY (id)');
bad(
	name => 'type without equality', sql => 'DELETE FROM keyless',
	text => 'could not identify an equality operator for type json', sqlstate => '42883', command => 'DELETE',
	relation => 'public.keyless');
# 15 names the relation in the context only after it could be opened.
bad(
	name => 'missing columns', sql => 'INSERT INTO lost_column VALUES (1, 2, 3)',
	text => 'logical replication target relation "public.lost_column" is missing replicated columns: "a", "b"',
	sqlstate => '55000', relation => undef, fix => 'ALTER TABLE lost_column ADD a int, ADD b int');
is($sub->safe_psql('postgres', 'SELECT id, a, b FROM lost_column'), '1|2|3', 'missing columns: applied after the repair');
bad(
	name => 'missing table', sql => 'INSERT INTO lost_table VALUES (1)',
	text => 'logical replication target relation "public.lost_table" does not exist', sqlstate => '55000', relation => undef,
	fix => 'CREATE TABLE lost_table (id int PRIMARY KEY)');
bad(
	name => 'a view in the place of the table', sql => 'INSERT INTO viewed VALUES (1)',
	text => 'cannot use relation "public.viewed" as logical replication target', sqlstate => '42809',
	detail => 'This operation is not supported for views.', relation => undef);

# ---- a wrong LSN to skip: WARNING, and it is cleared by the next transaction, which is applied
my $offset = ppa_log_pos($sub);
my $current = $pub->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
# a position in the future is valid and belongs to no transaction
my $wrong = $sub->safe_psql('postgres', "SELECT '$current'::pg_lsn + 10000000");
ppa_disable($sub, 'sub');
$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SKIP (lsn = '$wrong')");
$pub->safe_psql('postgres', join("\n", map { "INSERT INTO good VALUES ($_);" } 100_001 .. 100_020));
ppa_enable($sub, 'sub');
ppa_catchup($pub, $sub, 'sub');
my ($warning) = grep { $_->{level} eq 'WARNING' && $_->{backend} =~ /logical|pg_parallel_apply/ } ppa_log_entries($sub, $offset);
is($warning->{text}, 'skip-LSN of subscription "sub" cleared', 'wrong LSN to skip: warning');
like($warning->{detail}, qr/^Remote transaction's finish WAL location \(LSN\) [[:xdigit:]]+\/[[:xdigit:]]+ did not match skip-LSN \Q$wrong\E\.$/,
	'wrong LSN to skip: detail');
is(ppa_log_count($sub, qr/skip-LSN of subscription/, $offset), 1, 'wrong LSN to skip: once');
is($sub->safe_psql('postgres', 'SELECT subskiplsn FROM pg_subscription'), '0/0', 'wrong LSN to skip: cleared');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM good WHERE id > 100000'), 20, 'wrong LSN to skip: all applied');

# ---- without disable_on_error: every attempt is counted once, none of them moves the origin
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub SET (disable_on_error = false); INSERT INTO good VALUES (200020)');
my $count = ppa_error_count($sub, 'sub');
$offset = ppa_log_pos($sub);
ppa_backlog($pub, $sub, 'sub', join("\n", map { "INSERT INTO good VALUES ($_);" } 200_001 .. 200_040));
my $first = ppa_apply_error($sub, $offset);
my $second = ppa_apply_error($sub, $first->{next});
is($second->{$_}, $first->{$_}, "second attempt: same $_") for qw(text sqlstate context);
is($sub->safe_psql('postgres', 'SELECT count(*) FROM good WHERE id BETWEEN 200001 AND 200040'), 20, 'second attempt: same stop');
ppa_disable($sub, 'sub');
my $attempts = grep { $_->{level} eq 'ERROR' && $_->{backend} =~ /logical|pg_parallel_apply/ } ppa_log_entries($sub, $offset);
ppa_wait_for($sub, "SELECT apply_error_count >= $count + $attempts FROM pg_stat_subscription_stats WHERE subname = 'sub'", 'count');
is(ppa_error_count($sub, 'sub'), $count + $attempts, 'every attempt is counted once');
if (ppa_views($sub))
{
	is(ppa_stat($sub, 'sub', 'last_error'), $first->{text}, 'view: last error');
	is(ppa_stat($sub, 'sub', 'last_error_sqlstate'), '23505', 'view: its SQLSTATE');
}
$sub->safe_psql('postgres', 'DELETE FROM good WHERE id = 200020');
ppa_enable($sub, 'sub');
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, 'good', 'applied in the end', where => 'id > 200000');

# ---- the bad transaction as first, second, third ... of its group
for my $before (0 .. 4)
{
	my $base = 400_000 + 10 * $before;
	my @ids = map { $base + $_ } 1 .. $before + 2;
	my $bad = $ids[$before];
	$sub->safe_psql('postgres', "INSERT INTO good VALUES ($bad)");
	$offset = ppa_log_pos($sub);
	ppa_backlog($pub, $sub, 'sub', join("\n", map { "INSERT INTO good VALUES ($_);" } @ids));
	my $error = ppa_apply_error($sub, $offset);
	is($error->{detail}, "Key (id)=($bad) already exists.", "bad transaction behind $before good ones: detail");
	is($sub->safe_psql('postgres', "SELECT count(*) FROM good WHERE id BETWEEN $base AND $base + 9 AND id <> $bad"),
		$before, "bad transaction behind $before good ones: these are committed");
	$sub->safe_psql('postgres', "DELETE FROM good WHERE id = $bad");
	ppa_catchup($pub, $sub, 'sub');
	ppa_same_table($pub, $sub, 'good', "bad transaction behind $before good ones: applied in the end", where => "id >= $base");
}

# The same with updates, which are never kept back to be written together.
$pub->safe_psql('postgres', 'INSERT INTO checked SELECT g, 0 FROM generate_series(501, 510) g');
ppa_catchup($pub, $sub, 'sub');
for my $before (0 .. 4)
{
	my $bad = 501 + $before;
	$offset = ppa_log_pos($sub);
	ppa_backlog($pub, $sub, 'sub', join("\n",
		(map { "UPDATE checked SET n = 10 + $before WHERE id = $_;" } 501 .. $bad - 1),
		"UPDATE checked SET n = 5000 WHERE id = $bad;",
		"UPDATE checked SET n = 10 + $before WHERE id = 510;"));
	my $error = ppa_apply_error($sub, $offset);
	is($error->{text}, 'new row for relation "checked" violates check constraint "small"', "bad update behind $before good ones: text");
	is($sub->safe_psql('postgres', "SELECT count(*) FROM checked WHERE n = 10 + $before"),
		$before, "bad update behind $before good ones: these are committed");
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SKIP (lsn = '$error->{lsn}')");
	ppa_catchup($pub, $sub, 'sub');
	is($sub->safe_psql('postgres', "SELECT n FROM checked WHERE id = 510"), 10 + $before, "bad update behind $before good ones: skipped");
	$pub->safe_psql('postgres', 'UPDATE checked SET n = 0 WHERE id > 500');
	ppa_catchup($pub, $sub, 'sub');
}

# ---- the same for an error at commit: the origin does not pass it
$sub->safe_psql('postgres', 'ALTER TABLE deferred ENABLE ALWAYS TRIGGER refuse');
my $progress = q{SELECT remote_lsn FROM pg_replication_origin_status WHERE external_id = 'pg_} . $oid . q{'};
$offset = ppa_log_pos($sub);
ppa_backlog($pub, $sub, 'sub', <<'SQL');
INSERT INTO good VALUES (300001);
BEGIN; INSERT INTO good VALUES (300002); INSERT INTO deferred VALUES (300, 1); COMMIT;
INSERT INTO good VALUES (300003);
SQL
$first = ppa_apply_error($sub, $offset);
$second = ppa_apply_error($sub, $first->{next});
is($first->{text}, 'row 300 is refused', 'error at commit: text');
is($first->{sqlstate}, 'P1234', 'error at commit: SQLSTATE');
is($first->{command}, 'COMMIT', 'error at commit: message type in the context');
is($first->{relation}, undef, 'error at commit: no relation in the context');
is($second->{context}, $first->{context}, 'error at commit: second attempt');
is($sub->safe_psql('postgres', 'SELECT max(id) FROM good WHERE id BETWEEN 300000 AND 399999'), 300001, 'error at commit: where it stops');
is($sub->safe_psql('postgres', "SELECT ($progress) < '$first->{lsn}'"), 't', 'error at commit: the origin stays before it');
$sub->safe_psql('postgres', 'ALTER TABLE deferred DISABLE TRIGGER refuse');
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, 'good', 'error at commit: applied in the end', where => 'id > 200000');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM deferred WHERE id = 300'), 1, 'error at commit: its row too');

done_testing();
