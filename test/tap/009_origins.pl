# Origins: what we apply is marked with the origin of its subscription, copied rows included. A subscriber that publishes
# can therefore send only its own changes (nothing comes back to where it came from), or everything (a cascade).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();
my $third = ppa_node('third');

my $tables = <<'SQL';
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE keyless (v int);
ALTER TABLE keyless REPLICA IDENTITY FULL;
CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE TABLE parts_2 PARTITION OF parts DEFAULT;
CREATE TABLE fires (id int PRIMARY KEY, v text);
SQL
$_->safe_psql('postgres', $tables) for ($pub, $sub, $third);
$pub->safe_psql('postgres', <<'SQL');
INSERT INTO t SELECT g, 'copied' FROM generate_series(1, 50) g;
INSERT INTO keyless SELECT 0 FROM generate_series(1, 10);
INSERT INTO parts SELECT g, 'copied' FROM generate_series(50, 150, 10) g;
SQL
# A table that a trigger fills for applied rows: its rows are part of the remote transaction and carry its origin.
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE audit (id int);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.audit VALUES (NEW.id);
	RETURN NULL;
END $$;
CREATE TRIGGER audit AFTER INSERT ON fires FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE fires ENABLE ALWAYS TRIGGER audit;
SELECT pg_create_logical_replication_slot('own', 'test_decoding');
SELECT pg_create_logical_replication_slot('all', 'test_decoding');
SQL
$third->safe_psql('postgres', 'CREATE TABLE audit (id int)');

ppa_subscribe($pub, $sub, pubwith => 'publish_via_partition_root = true');
# The cascade: pgoutput of 15 knows no filter by origin and sends everything.
ppa_subscribe($sub, $third, name => 'cascade', publication => 'pub_cascade');

sub read_slot
{
	my ($slot, $local) = @_;
	return $sub->safe_psql('postgres', <<"SQL");
SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1', 'only-local', '$local')
SQL
}

is(read_slot('own', 'on'), '', 'copied rows carry an origin');
like(read_slot('all', 'off'), qr/copied/, 'and are in the log');

# ---- groups, single transactions, local changes in between
ppa_backlog($pub, $sub, 'sub', join("\n",
	(map { "INSERT INTO t VALUES ($_, 'remote');" } 101 .. 180),
	(map { "UPDATE t SET v = 'remote ' || id WHERE id = $_;" } 101 .. 140),
	'DELETE FROM t WHERE id BETWEEN 171 AND 180;',
	'BEGIN; INSERT INTO t SELECT g, $$remote$$ FROM generate_series(201, 500) g; UPDATE t SET v = $$remote$$ WHERE id > 450; COMMIT;',
	(map { "INSERT INTO keyless VALUES ($_ % 3);" } 1 .. 30),
	'UPDATE keyless SET v = 9 WHERE v = 1;',
	'INSERT INTO parts SELECT g, $$remote$$ FROM generate_series(1, 20) g;',
	'UPDATE parts SET id = id + 200 WHERE id < 10;',
	(map { "INSERT INTO fires VALUES ($_, 'remote');" } 1 .. 10),
	'TRUNCATE keyless;',
	'INSERT INTO keyless VALUES (77);'));
for my $id (1001 .. 1010)
{
	$sub->safe_psql('postgres', "INSERT INTO t VALUES ($id, 'local')");
}
ppa_catchup($pub, $sub, 'sub');
$sub->safe_psql('postgres', q{UPDATE t SET v = 'local' WHERE id = 1; INSERT INTO fires VALUES (1000, 'local')});

my $own = read_slot('own', 'on');
unlike($own, qr/remote|copied|TRUNCATE|public\.keyless|public\.parts/, 'nothing that was applied looks local');
my @local = grep { /^table/ } split /\n/, $own;
is(scalar(@local), 10 + 1 + 2, 'all local changes do, those of triggers of local rows too');
my $all = read_slot('all', 'off');
is(scalar(() = $all =~ /^table public\.t: INSERT/mg), 80 + 300 + 10, 'an unfiltered reader gets every insert once');
is(scalar(() = $all =~ /^table public\.t: UPDATE/mg), 40 + 50 + 1, 'and every update');
is(scalar(() = $all =~ /^table public\.t: DELETE/mg), 10, 'and every delete');
is(scalar(() = $all =~ /^table public\.audit: INSERT/mg), 11, 'and the rows of triggers');

# ---- the cascade has everything
ppa_catchup($sub, $third, 'cascade');
ppa_same_table($sub, $third, $_, "cascade: $_") for qw(t keyless parts fires audit);
is($third->safe_psql('postgres', q{SELECT count(*) FROM t WHERE v = 'copied'}), 49, 'cascade: copied rows too');

# ---- the commits carry the position and time of the remote transaction
is( $sub->safe_psql('postgres', <<'SQL'), 't', 'the origin stands at the end of what is applied');
SELECT count(*) = 1 AND bool_and(local_lsn > '0/0' AND remote_lsn > '0/0') FROM pg_replication_origin_status
WHERE external_id = (SELECT 'pg_' || oid FROM pg_subscription WHERE subname = 'sub')
SQL
my $lsn = $pub->safe_psql('postgres', q{INSERT INTO t VALUES (2001, 'x'); SELECT pg_current_wal_lsn()});
ppa_catchup($pub, $sub, 'sub');
is($sub->safe_psql('postgres', "SELECT remote_lsn <= '$lsn' AND remote_lsn > '$lsn'::pg_lsn - 4096 FROM pg_replication_origin_status
	WHERE external_id = (SELECT 'pg_' || oid FROM pg_subscription WHERE subname = 'sub')"), 't', 'which is the end of the remote transaction');

# ---- commit timestamps: with track_commit_timestamp each transaction keeps its own (no grouping then)
$sub->append_conf('postgresql.conf', 'track_commit_timestamp = on');
$pub->append_conf('postgresql.conf', 'track_commit_timestamp = on');
$_->restart for ($pub, $sub);
ppa_backlog($pub, $sub, 'sub', join("\n", map { "INSERT INTO t VALUES ($_, 'stamped');" } 3001 .. 3060));
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, 't', 'commit timestamps are those of the publisher',
	cols => 'id, pg_xact_commit_timestamp(xmin)', where => 'id BETWEEN 3001 AND 3060');
is( $sub->safe_psql('postgres', <<'SQL'), 't', 'and name the origin');
SELECT bool_and((pg_xact_commit_timestamp_origin(xmin)).roident = (SELECT roident FROM pg_replication_origin
	WHERE roname = (SELECT 'pg_' || oid FROM pg_subscription WHERE subname = 'sub')))
FROM t WHERE id BETWEEN 3001 AND 3060
SQL

done_testing();
