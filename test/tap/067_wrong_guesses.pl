# 067_wrong_guesses.pl: the dependencies that the leader finds are replaced by none, and by all, under a mixed load.
# Shows: the result does not rest on them: equal, no error, no row missing, whatever they say. SECONDS per guess, live
# (default 6), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $seconds = fault_env('SECONDS', 6);
fault_seed();
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
fault_schema($pub, $sub);

# Keys of several kinds, unique values that move, parents and children that are checked, rows without a key, a trigger, a
# partitioned table, columns that only the subscriber has.
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE hot (id int PRIMARY KEY, n bigint);
CREATE TABLE texts (k text, k2 int, n int, PRIMARY KEY (k, k2));
CREATE TABLE mails (id bigint PRIMARY KEY, mail text UNIQUE, n int);
CREATE TABLE parent (id int PRIMARY KEY, n int);
CREATE TABLE child (id bigint PRIMARY KEY, parent int REFERENCES parent);
CREATE TABLE bag (a int, b int);
ALTER TABLE bag REPLICA IDENTITY FULL;
CREATE TABLE watched (id int PRIMARY KEY, n int);
CREATE TABLE shrunk (id int PRIMARY KEY, n int);
SQL
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE parted (id int PRIMARY KEY, n int);
CREATE SEQUENCE ids;
INSERT INTO hot SELECT g, 0 FROM generate_series(1, 3) g;
INSERT INTO mails SELECT -g, 'mail' || g, 0 FROM generate_series(0, 7) g;
INSERT INTO watched SELECT g, 0 FROM generate_series(1, 50) g;
SQL
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE parted (n int, id int PRIMARY KEY, own int DEFAULT 3) PARTITION BY HASH (id);
CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE watch (id int, n int);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public.watch VALUES (NEW.id, NEW.n); RETURN NULL; END $$;
CREATE TRIGGER watch AFTER UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION watch();
ALTER TABLE watched ENABLE ALWAYS TRIGGER watch;
SELECT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', tgrelid::regclass, tgname) FROM pg_trigger WHERE tgisinternal \gexec
SQL
my @tables = qw(hot texts mails parent child bag watched shrunk parted);
ppa_subscribe($pub, $sub);

# Rows of a client are its own where transactions would fail on the publisher otherwise.
my @mixed = ([ <<'SQL', 5 ], [ <<'SQL', 3 ], [ <<'SQL', 5 ], [ <<'SQL', 4 ], [ <<'SQL', 3 ], [ <<'SQL', 3 ], [ <<'SQL', 5 ], [ <<'SQL', 1 ], [ <<'SQL', 1 ]);
\set id random(1, 3)
\set other random(1, 500)
BEGIN;
UPDATE fault_count SET version = version + 1 WHERE id = :other;
UPDATE hot SET n = n + 1 WHERE id = :id;
INSERT INTO fault_log SELECT txid_current(), :client_id, 1;
COMMIT;
SQL
\set id random(1, 30)
\set n random(1, 1000)
INSERT INTO texts VALUES ('k' || :id, :client_id, :n) ON CONFLICT (k, k2) DO UPDATE SET n = EXCLUDED.n;
DELETE FROM texts WHERE k = 'k' || (:id + 1) AND k2 = :client_id;
SQL
SELECT nextval('ids') AS id \gset
DELETE FROM mails WHERE mail = 'mail' || :client_id;
INSERT INTO mails VALUES (:id, 'mail' || :client_id, 0);
UPDATE mails SET id = -id - 1000000, n = n + 1 WHERE id = :id;
UPDATE mails SET mail = mail || '!' WHERE mail = 'mail' || :client_id;
UPDATE mails SET mail = 'mail' || :client_id WHERE mail = 'mail' || :client_id || '!';
SQL
\set id :client_id * 100 + random(1, 5)
SELECT nextval('ids') AS child \gset
INSERT INTO parent VALUES (:id, 0) ON CONFLICT (id) DO UPDATE SET n = parent.n + 1;
INSERT INTO child VALUES (:child, :id);
DELETE FROM child WHERE id = :child AND :child % 3 = 0;
BEGIN; DELETE FROM child WHERE parent = :id; DELETE FROM parent WHERE id = :id; COMMIT;
SQL
\set a random(1, 20)
INSERT INTO bag VALUES (:a, :client_id);
UPDATE bag SET b = 100 + :client_id WHERE ctid = (SELECT min(ctid) FROM bag WHERE a = :a AND b = :client_id);
DELETE FROM bag WHERE a = :a AND b = 100 + :client_id;
SQL
\set id random(1, 50)
UPDATE watched SET n = n + 1 WHERE id = :id;
SQL
\set id :client_id * 1000 + random(1, 40)
INSERT INTO parted VALUES (:id, 0) ON CONFLICT (id) DO UPDATE SET n = parted.n + 1;
UPDATE parted SET id = -id WHERE id = :id AND NOT EXISTS (SELECT FROM parted WHERE id = -:id);
DELETE FROM parted WHERE id = -:id;
SQL
\set id :client_id * 1000 + random(1, 40)
INSERT INTO shrunk VALUES (:id, 0) ON CONFLICT DO NOTHING;
TRUNCATE shrunk;
INSERT INTO shrunk VALUES (:id, 1) ON CONFLICT DO NOTHING;
SQL
\set from random(1, 400)
BEGIN;
INSERT INTO fault_log SELECT txid_current(), :client_id, g FROM generate_series(1, 1000) g;
SAVEPOINT s;
DELETE FROM bag;
ROLLBACK TO s;
UPDATE fault_count SET version = version + 1 WHERE id = :from;
COMMIT;
SQL

foreach my $guess ('table', 'none', 'all')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	my $what = "dependencies: $guess";
	my $offset = ppa_log_pos($sub);
	foreach my $part ('live', 'backlog')
	{
		ppa_disable($sub) if $part eq 'backlog';
		my $load = fault_load_start($pub, clients => 8, scripts => \@mixed, $part eq 'live' ? (rate => 500) : ());
		my $time = $part eq 'live' ? $seconds : $seconds / 4;
		fault_pause($time, $time);
		fault_load_stop($load);
		ppa_enable($sub) if $part eq 'backlog';
		fault_applied($pub, $sub, $offset, "$what, $part");
	}
	ppa_same_table($pub, $sub, $_, "$what: $_ equal", cols => $_ eq 'parted' ? 'id, n' : '*') for @tables;
	fault_equal($pub, $sub, $what);
	is($sub->safe_psql('postgres', 'SELECT sum(n) FROM watched'), $sub->safe_psql('postgres', 'SELECT count(*) FROM watch'), "$what: the trigger saw each update");
	is($sub->safe_psql('postgres', 'SELECT count(*) FROM watch w JOIN watch v USING (id, n) WHERE w.ctid <> v.ctid'), 0, "$what: and each once");
	is(fault_missing($sub), 0, "$what: no row was missing") unless ppa_builtin();
	note "$what: " . fault_stats($sub, 'sub', qw(transactions groups dependency_waits turn_waits groups_aborted groups_alone retries_missing retries_unique retries_deadlock retries_other relations_ordered));
}
is(ppa_error_count($sub), 0, 'no apply error');
is($sub->safe_psql('postgres', q{SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'}), 0, 'no deadlock counted');
fault_no_crash($pub, $sub);
done_testing();
