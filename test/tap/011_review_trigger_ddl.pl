# 011_review_trigger_ddl.pl: triggers that do to another table of the same remote transaction what the server refuses
# while that table is in use by the session: TRUNCATE, CREATE INDEX, ALTER TABLE.
# Shows: it works as with the built-in worker, and the transaction can go on with the other table afterwards. The
# trigger is on an ordinary table or on one leaf partition only.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaFault;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();
my @cases = qw(truncate create_index add_column alter_type);
my %ddl = (
	truncate => 'TRUNCATE public.truncate_a',
	create_index => 'CREATE INDEX ON public.create_index_a (n)',
	add_column => 'ALTER TABLE public.add_column_a ADD COLUMN IF NOT EXISTS extra int DEFAULT 7',
	alter_type => 'ALTER TABLE public.alter_type_a ALTER COLUMN n TYPE bigint');
foreach my $case (@cases)
{
	$pub->safe_psql('postgres', <<"SQL");
CREATE TABLE ${case}_a (id int PRIMARY KEY, n int);
CREATE TABLE ${case}_b (id int PRIMARY KEY, n int);
CREATE TABLE ${case}_parted (id int PRIMARY KEY, n int);
SQL
	$sub->safe_psql('postgres', <<"SQL");
CREATE TABLE ${case}_a (id int PRIMARY KEY, n int);
CREATE TABLE ${case}_b (id int PRIMARY KEY, n int);
CREATE TABLE ${case}_parted (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
CREATE TABLE ${case}_p1 PARTITION OF ${case}_parted FOR VALUES FROM (0) TO (10);
CREATE TABLE ${case}_p2 PARTITION OF ${case}_parted FOR VALUES FROM (10) TO (20);
CREATE FUNCTION ${case}_f() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN $ddl{$case}; RETURN NULL; END \$\$;
CREATE TRIGGER ddl AFTER INSERT ON ${case}_b FOR EACH ROW EXECUTE FUNCTION ${case}_f();
CREATE TRIGGER ddl AFTER INSERT ON ${case}_p2 FOR EACH ROW EXECUTE FUNCTION ${case}_f();
ALTER TABLE ${case}_b ENABLE ALWAYS TRIGGER ddl;
ALTER TABLE ${case}_p2 ENABLE ALWAYS TRIGGER ddl;
SQL
}
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);

# What is in the other table in the end: all, or only what came after the last TRUNCATE.
sub expect
{
	my ($case, $all, $after) = @_;
	return $case eq 'truncate' ? $after : $all;
}

foreach my $case (@cases)
{
	my $rows = "SELECT string_agg(id || ':' || n, ' ' ORDER BY id) FROM ${case}_a";

	# Rows of a are inserted (kept back for a run), updated and looked up before and after the trigger.
	$pub->safe_psql('postgres', <<"SQL");
INSERT INTO ${case}_a VALUES (1, 0);
BEGIN;
INSERT INTO ${case}_a VALUES (2, 0), (3, 0);
UPDATE ${case}_a SET n = 1 WHERE id = 1;
INSERT INTO ${case}_a VALUES (4, 0);
INSERT INTO ${case}_b VALUES (1, 0);
INSERT INTO ${case}_a VALUES (5, 0), (6, 0);
UPDATE ${case}_a SET n = 2 WHERE id = 5;
COMMIT;
INSERT INTO ${case}_a VALUES (7, 0);
SQL
	fault_applied($pub, $sub, $offset, "$case, table");
	is($sub->safe_psql('postgres', $rows), expect($case, '1:1 2:0 3:0 4:0 5:2 6:0 7:0', '5:2 6:0 7:0'), "$case, table: rows");

	# The trigger is on the second leaf, which is met after the first.
	$pub->safe_psql('postgres', <<"SQL");
BEGIN;
INSERT INTO ${case}_parted VALUES (1, 0);
INSERT INTO ${case}_a VALUES (11, 0);
UPDATE ${case}_a SET n = 3 WHERE id = 7;
INSERT INTO ${case}_parted VALUES (11, 0);
INSERT INTO ${case}_a VALUES (12, 0);
INSERT INTO ${case}_parted VALUES (12, 0), (2, 0);
INSERT INTO ${case}_a VALUES (13, 0);
UPDATE ${case}_a SET n = 4 WHERE id = 13;
COMMIT;
SQL
	fault_applied($pub, $sub, $offset, "$case, leaf");
	is($sub->safe_psql('postgres', $rows),
		expect($case, '1:1 2:0 3:0 4:0 5:2 6:0 7:3 11:0 12:0 13:4', '13:4'), "$case, leaf: rows");
	ppa_same_table($pub, $sub, "${case}_$_", "$case: $_ equal") for qw(b parted);

	# In a batch with others, and in one that is applied as it arrives.
	ppa_backlog($pub, $sub, 'sub', <<"SQL");
INSERT INTO ${case}_a VALUES (21, 0);
UPDATE ${case}_a SET n = 5 WHERE id = 21;
BEGIN; UPDATE ${case}_a SET n = 6 WHERE id = 21; INSERT INTO ${case}_b VALUES (21, 0); COMMIT;
INSERT INTO ${case}_a VALUES (22, 0);
BEGIN;
INSERT INTO ${case}_a SELECT g, 0 FROM generate_series(1001, 5000) g;
INSERT INTO ${case}_parted VALUES (13, 0);
INSERT INTO ${case}_a SELECT g, 1 FROM generate_series(5001, 9000) g;
COMMIT;
SQL
	fault_applied($pub, $sub, $offset, "$case, backlog");
	is($sub->safe_psql('postgres', "SELECT count(*), sum(n) FROM ${case}_a WHERE id >= 21"),
		expect($case, '8002|4006', '4000|4000'), "$case, backlog: rows");
}
is($sub->safe_psql('postgres', 'SELECT count(*), min(extra), max(extra) FROM add_column_a'),
	$pub->safe_psql('postgres', 'SELECT count(*), 7, 7 FROM add_column_a'), 'add_column: the new column has its default');
fault_no_crash($pub, $sub);
done_testing();
