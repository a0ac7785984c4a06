# 040_prefix.pl: what a reader on the subscriber can see. One client updates row A, then row B, in turn, each in a
# transaction of its own. Shows: at every moment the reader sees a prefix of the publisher's order: A is at B's version or
# one ahead. Once while the client writes, once for a backlog. N: rounds of updates (default 5000).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my $n = fault_env('N', 5_000);
my ($pub, $sub) = ppa_pair();

# Two tables and two rows of one table: A and B in one page, C and D in tables of their own.
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE ab (id text PRIMARY KEY, version int);
CREATE TABLE c (id int PRIMARY KEY, version int);
CREATE TABLE d (id int PRIMARY KEY, version int);
SQL
$pub->safe_psql('postgres', "INSERT INTO ab VALUES ('A', 0), ('B', 0); INSERT INTO c VALUES (1, 0); INSERT INTO d VALUES (1, 0)");
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE seen (a int, b int, c int, d int);

-- Each loop reads all four in one statement, that is in one snapshot. Ends when D has arrived at the given version, or with
-- an error after three minutes. The commit lets go of the snapshot, so that old versions can be pruned.
CREATE PROCEDURE read_until(last int, INOUT loops bigint, INOUT states bigint) LANGUAGE plpgsql AS
$$ DECLARE
	r record;
	was text := '';
	started timestamptz := clock_timestamp();
BEGIN
	LOOP
		SELECT a.version AS a, b.version AS b, c.version AS c, d.version AS d INTO r
		FROM ab a, ab b, c, d WHERE a.id = 'A' AND b.id = 'B';
		loops := loops + 1;
		IF r::text <> was THEN
			was := r::text;
			states := states + 1;
			-- The order is A, B, C, D: each at the version of the one before it or one behind, and only one step in all.
			IF NOT (r.a >= r.b AND r.b >= r.c AND r.c >= r.d AND r.a <= r.d + 1) THEN
				INSERT INTO seen VALUES (r.a, r.b, r.c, r.d);
			END IF;
		END IF;
		EXIT WHEN r.d >= last;
		IF clock_timestamp() > started + interval '3 min' THEN RAISE EXCEPTION 'D has not arrived: %', was; END IF;
		COMMIT;
	END LOOP;
END $$;
SQL
ppa_subscribe($pub, $sub);
my %script = (script => <<'SQL', clients => 1, args => [ '-M', 'prepared' ]);
UPDATE ab SET version = version + 1 WHERE id = 'A';
UPDATE ab SET version = version + 1 WHERE id = 'B';
UPDATE c SET version = version + 1;
UPDATE d SET version = version + 1;
SQL
ppa_set($pub, 'synchronous_commit', 'off');

my $last = 0;
foreach my $part ('live', 'backlog')
{
	ppa_disable($sub) if $part eq 'backlog';
	$last += $n;
	my $load = ppa_load_start($pub, %script, transactions => $n);
	ppa_load_finish($load) if $part eq 'backlog';
	my ($reader) = fault_session($sub);
	if ($part eq 'backlog')
	{
		# The reader must be reading before the first group comes.
		$reader->query_until(qr/reading/, "\\echo reading\nCALL read_until($last, 0, 0);\n");
		ppa_enable($sub);
	}
	my ($loops, $states) = split /\|/,
	  $part eq 'backlog' ? $reader->query_until(qr/\d+\|\d+\n/, '') : $reader->query_safe("CALL read_until($last, 0, 0)");
	ppa_load_finish($load) if $part eq 'live';
	$reader->quit;
	ppa_catchup($pub, $sub);
	chomp $states;
	diag "$part: $loops reads, $states different states";
	cmp_ok($states, '>', 2, "$part: the reader saw states between the first and the last");
	is($sub->safe_psql('postgres', 'SELECT * FROM seen LIMIT 5'), '', "$part: each was a prefix");
	ppa_same_table($pub, $sub, $_, "$part: $_ equal") for qw(ab c d);
}
is($sub->safe_psql('postgres', 'SELECT version FROM d'), $last, 'all versions have arrived');
fault_no_crash($pub, $sub);
done_testing();
