# 059_review_h11_relation_messages.pl: review finding H11. The publisher's tables get other columns in another order, again
# and again, while they are written by all sessions. The publisher describes a table once per session.
# Shows: whichever process applies a change reads it with the description that was valid for it, also when it is applied
# for the second time: no value in another column, no error. ALTERS: schema changes (default 20), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $alters = fault_env('ALTERS', 20);
my $tables = 6;
fault_seed();
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');

# Each value names its column. The subscriber has all columns, in an order of its own.
foreach my $t (1 .. $tables)
{
	$pub->safe_psql('postgres', "CREATE TABLE t_$t (a text, id bigint PRIMARY KEY, b text, c text)");
	$sub->safe_psql('postgres', "CREATE TABLE t_$t (c text, b text, id bigint PRIMARY KEY, own int DEFAULT 7, a text)");
}
ppa_subscribe($pub, $sub);

# The values come from the columns that there are: a trigger on the publisher fills them.
$pub->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE ids;
CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	filled jsonb := to_jsonb(NEW);
	col text;
BEGIN
	FOR col IN SELECT k FROM jsonb_object_keys(to_jsonb(NEW)) k WHERE k <> 'id' LOOP
		filled := filled || jsonb_build_object(col, col || NEW.id);
	END LOOP;
	RETURN jsonb_populate_record(NEW, filled);
END $$;
SELECT format('CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION fill()', relname)
FROM pg_class WHERE relname ~ '^t_\d+$' AND relkind = 'r' \gexec
SQL
my $last = $tables;
my @scripts = ([ <<"SQL", 3 ], [ <<"SQL", 1 ], [ <<"SQL", 1 ]);
\\set t random(1, $last)
\\set u random(1, $last)
SELECT nextval('ids') AS id \\gset
BEGIN;
INSERT INTO t_:t (id) VALUES (:id);
INSERT INTO t_:u (id) VALUES (-:id);
COMMIT;
SQL
\\set t random(1, $last)
\\set u random(1, 400)
UPDATE t_:t SET id = id WHERE id = (SELECT last_value FROM ids) - :u;
SQL
\\set t random(1, $last)
\\set u random(1, 2000)
DELETE FROM t_:t WHERE id = (SELECT last_value FROM ids) - :u;
SQL

foreach my $guess ('table', 'none', 'all')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	my $offset = ppa_log_pos($sub);
	my $load = fault_load_start($pub, clients => 4, rate => 800, scripts => \@scripts);
	foreach (1 .. $alters)
	{
		# Takes a column away and puts it back as the last one.
		my $t = 1 + int(rand($tables));
		my $col = (qw(a b c))[ rand 3 ];
		$pub->safe_psql('postgres', "ALTER TABLE t_$t DROP $col; ALTER TABLE t_$t ADD $col text");
		fault_pause(0, 0.05);
	}
	fault_load_stop($load);
	fault_applied($pub, $sub, $offset, "schema changes, dependencies: $guess");
	foreach my $t (1 .. $tables)
	{
		is($sub->safe_psql('postgres', "SELECT * FROM t_$t WHERE a <> 'a' || id OR b <> 'b' || id OR c <> 'c' || id OR own <> 7 LIMIT 3"),
			'', "$guess: each value of t_$t is in its column");

		# A column that was dropped later has gone on the publisher only.
		ppa_same_table($pub, $sub, "t_$t", "$guess: t_$t has the same rows", cols => 'id');
	}
}
note $sub->safe_psql('postgres', 'SELECT count(*) FROM t_1') . ' rows in t_1; ' . fault_stats($sub, 'sub', qw(groups missing_rows retries_missing retries_other));
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
fault_no_crash($pub, $sub);
done_testing();
