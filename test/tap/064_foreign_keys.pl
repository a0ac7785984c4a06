# 064_foreign_keys.pl: foreign keys that the subscriber enforces (their triggers ENABLE ALWAYS). The parent is inserted in one
# transaction and the child in the next, 5000 times; then the child is deleted, and the parent in the next.
# Shows: no error, equal. Also a key that is checked at commit, and ON DELETE CASCADE and SET NULL, whose rows the publisher
# changes as well. PAIRS (default 5000).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $pairs = fault_env('PAIRS', 5000);
my $clients = 4;
my $each = int($pairs / $clients);
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE parent (id bigint PRIMARY KEY, n int);
CREATE TABLE child (id bigint PRIMARY KEY, parent bigint REFERENCES parent);
CREATE TABLE late (id bigint PRIMARY KEY, parent bigint REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE cascades (id bigint PRIMARY KEY, parent bigint REFERENCES parent ON DELETE CASCADE);
CREATE TABLE forgets (id bigint PRIMARY KEY, parent bigint REFERENCES parent ON DELETE SET NULL);
SQL
$pub->safe_psql('postgres', 'CREATE SEQUENCE pairs; CREATE SEQUENCE gone');
$sub->safe_psql('postgres', <<'SQL');
SELECT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', tgrelid::regclass, tgname) FROM pg_trigger WHERE tgisinternal \gexec
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);
my @tables = qw(parent child late cascades forgets);

ppa_load_finish(ppa_load_start($pub, clients => $clients, transactions => $each, script => <<'SQL'));
SELECT nextval('pairs') AS id \gset
INSERT INTO parent VALUES (:id, 0);
INSERT INTO child VALUES (:id, :id);
SQL
fault_applied($pub, $sub, $offset, "$pairs parents, then children");
ppa_same_table($pub, $sub, $_, "inserted: $_ equal") for qw(parent child);

# Deleted again, as a backlog.
ppa_backlog($pub, $sub, 'sub', sub {
	ppa_load_finish(ppa_load_start($pub, clients => $clients, transactions => $each, script => <<'SQL'));
SELECT nextval('gone') AS id \gset
DELETE FROM child WHERE id = :id;
DELETE FROM parent WHERE id = :id;
SQL
});
fault_applied($pub, $sub, $offset, "$pairs children deleted, then parents");
is($sub->safe_psql('postgres', 'SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM child)'), '0|0', 'deleted: nothing is left');

# All kinds at once, the same keys again and again.
my %mixed = (clients => 8, transactions => 150, script => <<'SQL');
\set id 1000000 + :client_id * 10 + random(1, 3)
INSERT INTO parent VALUES (:id, 0);
INSERT INTO child VALUES (:id, :id);
BEGIN; INSERT INTO late VALUES (:id, :id + 5); INSERT INTO parent VALUES (:id + 5, 1); COMMIT;
INSERT INTO cascades VALUES (:id, :id), (:id + 5, :id + 5);
INSERT INTO forgets VALUES (:id, :id);
UPDATE parent SET n = n + 1 WHERE id = :id;
DELETE FROM child WHERE id = :id;
DELETE FROM late WHERE id = :id;
DELETE FROM parent WHERE id IN (:id, :id + 5);
DELETE FROM forgets WHERE id = :id AND parent IS NULL;
INSERT INTO parent VALUES (:id, 2);
INSERT INTO child VALUES (:id, :id);
BEGIN; DELETE FROM child WHERE id = :id; DELETE FROM parent WHERE id = :id; COMMIT;
SQL
ppa_load_finish(ppa_load_start($pub, %mixed));
fault_applied($pub, $sub, $offset, 'all kinds, live');
ppa_backlog($pub, $sub, 'sub', sub { ppa_load_finish(ppa_load_start($pub, %mixed)) });
fault_applied($pub, $sub, $offset, 'all kinds, backlog');
ppa_same_table($pub, $sub, $_, "all kinds: $_ equal") for @tables;
note fault_stats($sub, 'sub', qw(groups groups_alone ordered_changes groups_aborted retries_other missing_rows));
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
