# 010_review_own_rows.pl: rows that one remote transaction changes more than once, on tables with BEFORE ROW triggers
# that fire in replica role. Shows: the triggers see each own row and each change once, in an ordinary table, behind a
# leaf partition, in a small transaction and in one that is applied as it arrives.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaFault;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE own (id int PRIMARY KEY, version int, note text);
CREATE TABLE parted (id int PRIMARY KEY, version int, note text);
SQL

# Each update counts in trigger_n, each delete leaves a row in deleted. The first leaf has no trigger.
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE own (id int PRIMARY KEY, version int, note text, trigger_n int DEFAULT 0);
CREATE TABLE parted (id int PRIMARY KEY, version int, note text, trigger_n int DEFAULT 0) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (10) TO (1000000);
CREATE TABLE deleted (rel text, id int, version int, trigger_n int);
CREATE FUNCTION count_update() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.trigger_n := OLD.trigger_n + 1; RETURN NEW; END $$;
CREATE FUNCTION record_delete() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO public.deleted VALUES (TG_TABLE_NAME, OLD.id, OLD.version, OLD.trigger_n); RETURN OLD; END $$;
CREATE TRIGGER count_update BEFORE UPDATE ON own FOR EACH ROW EXECUTE FUNCTION count_update();
CREATE TRIGGER record_delete BEFORE DELETE ON own FOR EACH ROW EXECUTE FUNCTION record_delete();
CREATE TRIGGER count_update BEFORE UPDATE ON parted_2 FOR EACH ROW EXECUTE FUNCTION count_update();
CREATE TRIGGER record_delete BEFORE DELETE ON parted_2 FOR EACH ROW EXECUTE FUNCTION record_delete();
ALTER TABLE own ENABLE ALWAYS TRIGGER count_update;
ALTER TABLE own ENABLE ALWAYS TRIGGER record_delete;
ALTER TABLE parted_2 ENABLE ALWAYS TRIGGER count_update;
ALTER TABLE parted_2 ENABLE ALWAYS TRIGGER record_delete;
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);

sub rows
{
	my ($rel, $where) = @_;
	return join ' ',
	  split /\n/, $sub->safe_psql('postgres', "SELECT id, version, trigger_n FROM $rel WHERE $where ORDER BY id");
}

sub deleted
{
	my ($leaf, $where) = @_;
	return join ' ', split /\n/,
	  $sub->safe_psql('postgres', "SELECT id, version, trigger_n FROM deleted WHERE rel = '$leaf' AND $where ORDER BY 1, 2, 3");
}

# "large": rows around it that take the transaction above pg_parallel_apply.group_bytes.
foreach my $case ([ own => 'own', 10 ], [ parted => 'parted_2', 10 ], [ own => 'own', 1010, 1 ], [ parted => 'parted_2', 1010, 1 ])
{
	my ($rel, $leaf, $id, $large) = @$case;
	my $what = ($large ? 'large, ' : '') . $rel;
	my @id = map { $id + $_ } 0 .. 5;
	my $around = $large ? "INSERT INTO $rel SELECT g, 0, repeat('x', 1000) FROM generate_series(100000, 100199) g" : 'SELECT';
	$pub->safe_psql('postgres', "INSERT INTO $rel VALUES ($id[0], 0)");
	fault_applied($pub, $sub, $offset, "$what: one row before");
	$pub->safe_psql('postgres', <<"SQL");
BEGIN;
$around;
UPDATE $rel SET version = 1 WHERE id = $id[0];
UPDATE $rel SET version = 2 WHERE id = $id[0];
INSERT INTO $rel VALUES ($id[1], 0);
UPDATE $rel SET version = 1 WHERE id = $id[1];
INSERT INTO $rel VALUES ($id[2], 0);
DELETE FROM $rel WHERE id = $id[2];
INSERT INTO $rel VALUES ($id[3], 0), ($id[4], 0);
UPDATE $rel SET version = version + 1 WHERE id IN ($id[3], $id[4]);
UPDATE $rel SET version = version + 1 WHERE id IN ($id[3], $id[4]);
DELETE FROM $rel WHERE id = $id[4];
INSERT INTO $rel VALUES ($id[4], 7);
UPDATE $rel SET version = 8 WHERE id = $id[4];
SAVEPOINT s;
INSERT INTO $rel VALUES ($id[5], 0);
UPDATE $rel SET id = id + 100 WHERE id = $id[5];
RELEASE s;
UPDATE $rel SET version = 1 WHERE id = $id[5] + 100;
COMMIT;
SQL
	fault_applied($pub, $sub, $offset, "$what: changed again");
	my ($from, $to) = ($id, $id + 200);
	is(rows($rel, "id BETWEEN $from AND $to"),
		join(' ', "$id[0]|2|2", "$id[1]|1|1", "$id[3]|2|2", "$id[4]|8|1", ($id[5] + 100) . '|1|2'), "$what: the trigger counts each update");
	is(deleted($leaf, "id BETWEEN $from AND $to"), "$id[2]|0|0 $id[4]|2|2", "$what: the trigger sees each delete");
	$pub->safe_psql('postgres', "DELETE FROM $rel WHERE id >= 100000") if $large;
	ppa_catchup($pub, $sub);
	ppa_same_table($pub, $sub, $rel, "$what: equal", cols => 'id, version, note');
}

# As a backlog: each transaction that fires triggers is a local transaction of its own, in a batch with others.
ppa_backlog($pub, $sub, 'sub', sub {
	$pub->safe_psql('postgres', join '', map { <<"SQL" } 2000 .. 2049);
BEGIN; INSERT INTO own VALUES ($_, 0); UPDATE own SET version = 1 WHERE id = $_; COMMIT;
BEGIN; UPDATE own SET version = 2 WHERE id = $_; DELETE FROM own WHERE id = $_; INSERT INTO own VALUES ($_, 3); COMMIT;
SQL
});
fault_applied($pub, $sub, $offset, 'backlog');
ppa_same_table($pub, $sub, 'own', 'backlog: equal', cols => 'id, version, note');
is($sub->safe_psql('postgres', "SELECT count(*), min(trigger_n), max(trigger_n), min(version), max(version) FROM deleted WHERE id BETWEEN 2000 AND 2049"),
	'50|2|2|2|2', 'backlog: the trigger sees each delete and the updates before it');
fault_no_crash($pub, $sub);
done_testing();
