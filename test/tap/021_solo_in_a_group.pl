# 021_solo_in_a_group.pl: a transaction that fires triggers shares its local transaction with the ones behind it, if the leader
# learns of the trigger only while the transaction joins (first use of the table, or trigger made meanwhile): it must not.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();
ppa_both($pub, $sub, 'CREATE TABLE fires (id int PRIMARY KEY); CREATE TABLE quiet (id int PRIMARY KEY)');
$sub->safe_psql('postgres', <<'SQL');
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER look AFTER INSERT ON fires FOR EACH ROW EXECUTE FUNCTION look();
ALTER TABLE fires ENABLE ALWAYS TRIGGER look;
SQL
ppa_subscribe($pub, $sub);
ppa_backlog($pub, $sub, 'sub', 'INSERT INTO fires VALUES (1); INSERT INTO quiet VALUES (1); INSERT INTO quiet VALUES (2);');
ppa_catchup($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM quiet q JOIN fires f ON q.xmin = f.xmin'), 0,
	'nobody shares the local transaction of one that fires triggers');
done_testing();
