# Schema changes on both sides while changes arrive: columns, types, replica identity, indexes, rewritten tables, a table
# that goes and comes back, tables added to the publication, DDL and DML in one transaction of the publisher.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0, note text);
CREATE TABLE keyed (id int PRIMARY KEY, code int NOT NULL, v int NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX keyed_code ON keyed (code);
CREATE TABLE doomed (id int PRIMARY KEY, v int NOT NULL DEFAULT 0);
CREATE TABLE late (id int PRIMARY KEY, v int);
SQL
$pub->safe_psql('postgres', <<'SQL');
INSERT INTO t SELECT g FROM generate_series(1, 200) g;
INSERT INTO keyed SELECT g, 1000 + g FROM generate_series(1, 200) g;
INSERT INTO doomed SELECT g FROM generate_series(1, 50) g;
INSERT INTO late SELECT g, g FROM generate_series(1, 50) g;
CREATE PUBLICATION pub FOR TABLE t, keyed, doomed;
SQL
ppa_subscribe($pub, $sub, tables => undef);

my $started = ppa_log_pos($sub);
my $load = ppa_load_start(
	$pub,
	script => [
		"\\set id random(1, 200)\nUPDATE t SET v = v + 1 WHERE id = :id;\nUPDATE keyed SET v = v + 1 WHERE id = :id;\n",
		"\\set id random(201, 1000)\nINSERT INTO t (id) VALUES (:id) ON CONFLICT (id) DO UPDATE SET v = t.v + 1;\n",
		"\\set id random(201, 1000)\nDELETE FROM t WHERE id = :id;\n",
		"\\set id random(1, 200)\nUPDATE keyed SET code = code + 1000 WHERE id = :id;\n",
		"\\set id random(1, 50)\nUPDATE doomed SET v = v + 1 WHERE id = :id;\n" ],
	clients => 4,
	rate => 800,
	seconds => 600);

# A change that is on the subscriber and was made after everything before this point.
my $mark = 0;
sub flow
{
	my ($what) = @_;
	$mark++;
	$pub->safe_psql('postgres', "INSERT INTO t (id, v) VALUES (1000000 + $mark, $mark)");
	ppa_wait_for($sub, "SELECT count(*) = 1 FROM t WHERE id = 1000000 + $mark", "changes after: $what");
	pass("changes arrive after: $what");
	return;
}

# Runs $break on the subscriber, expects the error under load, repairs and goes on.
my @expected;
sub broken
{
	my ($break, $text, $sqlstate, $fix) = @_;
	my $offset = ppa_log_pos($sub);
	$sub->safe_psql('postgres', $break);
	my $error = ppa_apply_error($sub, $offset);
	is($error->{text}, $text, "$break: text");
	is($error->{sqlstate}, $sqlstate, "$break: SQLSTATE");
	push @expected, $text;
	$sub->safe_psql('postgres', $fix);
	flow("$break, $fix");
	return;
}

# ---- columns
for my $node ($sub, $pub) { $node->safe_psql('postgres', 'ALTER TABLE t ADD c int DEFAULT 5') }
$pub->safe_psql('postgres', 'UPDATE t SET c = id WHERE id % 3 = 0');
flow('column added, subscriber first');
for my $node ($pub, $sub) { $node->safe_psql('postgres', 'ALTER TABLE t DROP note') }
flow('column dropped, publisher first');
for my $node ($sub, $pub) { $node->safe_psql('postgres', 'ALTER TABLE t ALTER v TYPE bigint') }
$pub->safe_psql('postgres', 'UPDATE t SET v = v + 5000000000 WHERE id % 10 = 0');
flow('type changed with a rewrite, subscriber first');
broken(
	'ALTER TABLE t RENAME c TO other', 'logical replication target relation "public.t" is missing replicated column: "c"', '55000',
	'ALTER TABLE t RENAME other TO c');
# renamed on both: values sent in between carry the old name
$sub->safe_psql('postgres', 'ALTER TABLE t ADD renamed int DEFAULT 5');
$pub->safe_psql('postgres', 'ALTER TABLE t RENAME c TO renamed');
$pub->safe_psql('postgres', 'UPDATE t SET renamed = coalesce(renamed, 0) + 1');
flow('column renamed on the publisher, new one on the subscriber');
$sub->safe_psql('postgres', 'ALTER TABLE t DROP c, ADD CONSTRAINT positive CHECK (v >= 0), ALTER renamed SET DEFAULT 6');
flow('column dropped on the subscriber only');

# ---- replica identity
# The subscriber looks rows up by its own replica identity, else its primary key, and refuses rows that do not carry those
# columns. FULL carries all, so it is the bridge from one identity to the other.
for my $step (
	[ $pub, 'REPLICA IDENTITY FULL' ],
	[ $sub, 'REPLICA IDENTITY USING INDEX keyed_code' ],
	[ $pub, 'REPLICA IDENTITY USING INDEX keyed_code' ],
	[ $sub, 'DROP CONSTRAINT keyed_pkey' ],
	[ $pub, 'REPLICA IDENTITY FULL' ],
	[ $sub, 'REPLICA IDENTITY DEFAULT' ],
	[ $sub, 'ADD PRIMARY KEY (id)' ],
	[ $pub, 'REPLICA IDENTITY DEFAULT' ])
{
	my ($node, $ddl) = @$step;
	$node->safe_psql('postgres', "ALTER TABLE keyed $ddl");
	flow($node->name . ": $ddl");
}

# ---- indexes and rewrites on the subscriber
for my $ddl (
	'CREATE INDEX CONCURRENTLY t_v ON t (v)',
	'CREATE INDEX t_renamed ON t (renamed) WHERE renamed > 5',
	'CREATE UNIQUE INDEX CONCURRENTLY t_both ON t (id, v)',
	'REINDEX TABLE CONCURRENTLY t',
	'DROP INDEX CONCURRENTLY t_v',
	'VACUUM FULL t',
	'CLUSTER t USING t_pkey',
	'REINDEX TABLE t',
	'ALTER TABLE t SET UNLOGGED',
	'ALTER TABLE t SET LOGGED',
	'ALTER TABLE t SET (fillfactor = 50)',
	'DROP INDEX t_renamed, t_both',
	'ANALYZE t',
	'ALTER TABLE keyed DROP CONSTRAINT keyed_pkey, ADD PRIMARY KEY (id)',
	'ALTER TABLE keyed ADD filler text DEFAULT md5(random()::text)',
	'ALTER TABLE keyed ADD twice int GENERATED ALWAYS AS (v * 2) STORED',
	'CREATE INDEX ON keyed (twice)')
{
	$sub->safe_psql('postgres', $ddl);
	flow($ddl);
}
ppa_wait_for($sub, 'SELECT count(*) = 0 FROM keyed WHERE twice <> v * 2', 'generated column');

# ---- tables
broken('ALTER TABLE doomed RENAME TO elsewhere', 'logical replication target relation "public.doomed" does not exist', '55000',
	'ALTER TABLE elsewhere RENAME TO doomed');
broken('DROP TABLE doomed', 'logical replication target relation "public.doomed" does not exist', '55000',
	'CREATE TABLE doomed (v int, id int PRIMARY KEY, own int DEFAULT 1)');
# It is another table for the subscription: its changes are ignored until it is refreshed and copied.
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
ppa_wait_ready($sub, 'sub');
flow('table created again and refreshed');
$pub->safe_psql('postgres', 'ALTER PUBLICATION pub ADD TABLE late');
$pub->safe_psql('postgres', 'UPDATE late SET v = 0 WHERE id < 10');
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub REFRESH PUBLICATION');
$pub->safe_psql('postgres', 'INSERT INTO late SELECT g, g FROM generate_series(51, 60) g');
ppa_wait_ready($sub, 'sub');
$pub->safe_psql('postgres', 'DELETE FROM late WHERE id % 7 = 0');
flow('table added to the publication');

# ---- DDL and DML in one transaction of the publisher
$sub->safe_psql('postgres', 'ALTER TABLE late ADD a int DEFAULT 9, ADD b text');
$pub->safe_psql('postgres', <<'SQL');
BEGIN;
INSERT INTO late VALUES (101, 1);
ALTER TABLE late ADD a int DEFAULT 9;
INSERT INTO late VALUES (102, 2, 2);
UPDATE late SET a = 11 WHERE id = 101;
ALTER TABLE late ADD b text, ALTER v TYPE text;
INSERT INTO late VALUES (103, '3', 3, 'three');
SAVEPOINT s;
ALTER TABLE late DROP b;
INSERT INTO late VALUES (104, '4', 4);
ROLLBACK TO s;
INSERT INTO late VALUES (105, '5', 5, 'five');
UPDATE late SET b = 'set' WHERE id IN (101, 102);
COMMIT;
INSERT INTO late VALUES (106, '6', 6, 'six');
SQL
flow('DDL and DML in one transaction');

# ---- a backlog with schema changes in it
ppa_disable($sub, 'sub');
for my $n (1 .. 5)
{
	$sub->safe_psql('postgres', "ALTER TABLE late ADD x$n int");
	$pub->safe_psql('postgres', join("\n",
		(map { "INSERT INTO late (id, v) VALUES (1000 * $n + $_, '1');" } 1 .. 50),
		"ALTER TABLE late ADD x$n int;",
		(map { "INSERT INTO late (id, v, x$n) VALUES (1000 * $n + $_, '2', $n);" } 51 .. 100),
		"UPDATE late SET x$n = x$n + 1 WHERE id >= 1000 * $n;"));
}
$sub->safe_psql('postgres', 'ALTER TABLE late DROP a');
$pub->safe_psql('postgres', 'ALTER TABLE late DROP a');
$pub->safe_psql('postgres', 'ALTER TABLE late DROP b');
ppa_load_stop($pub, $load);
my $offset = ppa_log_pos($sub);
ppa_enable($sub, 'sub');
# rows of the time before the column was dropped name it
my $error = ppa_apply_error($sub, $offset);
my $missing = 'logical replication target relation "public.late" is missing replicated column: "a"';
is($error->{text}, $missing, 'a column dropped on the subscriber too early');
push @expected, $missing;
$sub->safe_psql('postgres', 'ALTER TABLE late ADD a int');
ppa_catchup($pub, $sub, 'sub');

ppa_same_table($pub, $sub, 't', 't equal', cols => 'id, v', where => 'true');
ppa_same_table($pub, $sub, 't', 't equal, renamed column of rows that were sent with it', cols => 'id, renamed', where => 'id <= 200');
ppa_same_table($pub, $sub, 'keyed', 'keyed equal', cols => 'id, code, v');
ppa_same_table($pub, $sub, 'doomed', 'doomed equal', cols => 'id, v');
ppa_same_table($pub, $sub, 'late', 'late equal', cols => 'id, v::text, x1, x2, x3, x4, x5');
is($sub->safe_psql('postgres', q{SELECT string_agg(id || b, ' ' ORDER BY id) FROM late WHERE b IS NOT NULL}),
	'101set 102set 103three 105five 106six', 'rows of the transaction with DDL');
my %known = map { $_ => 1 } @expected;
is_deeply(
	[ grep { !$known{$_} } map { $_->{text} } grep { $_->{level} eq 'ERROR' && $_->{backend} =~ /logical replication|pg_parallel_apply/ } ppa_log_entries($sub, $started) ],
	[], 'no other error');

$sub->safe_psql('postgres', 'CREATE EXTENSION amcheck');
$sub->safe_psql('postgres', <<'SQL');
SELECT bt_index_parent_check(indexrelid, true) FROM pg_index
WHERE indrelid IN ('t'::regclass, 'keyed'::regclass, 'doomed'::regclass, 'late'::regclass);
SQL
pass('indexes are sound');

done_testing();
