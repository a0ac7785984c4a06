# 058_review_h10_session_state.pl: review finding H10. What triggers leave in their session: settings, advisory locks,
# temporary tables, a prepared statement, sequence state (currval).
# Shows: the next trigger finds it, whatever was applied in between: one and the same process runs them all, in order.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $transactions = 300;
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE fires_a (id int PRIMARY KEY);
CREATE TABLE fires_b (id int PRIMARY KEY);
SELECT format('CREATE TABLE quiet_%s (id int PRIMARY KEY, n int)', g) FROM generate_series(1, 6) g \gexec
SQL
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE saw (nr serial, id int, pid int, setting text, unlocked bool, temp_rows bigint, prepared bigint, sequence bigint);
CREATE SEQUENCE seq;
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	was text := current_setting('my.last', true);
	unlocked bool;
BEGIN
	-- what the one before has left
	IF coalesce(was, '') <> '' THEN
		unlocked := pg_advisory_unlock(was::bigint);
	ELSE
		CREATE TEMP TABLE mine (id int);
		PREPARE mine AS SELECT 1;
		PERFORM nextval('public.seq');
	END IF;
	INSERT INTO public.saw (id, pid, setting, unlocked, temp_rows, prepared, sequence)
	SELECT NEW.id, pg_backend_pid(), was, unlocked, (SELECT count(*) FROM pg_temp.mine),
		(SELECT count(*) FROM pg_catalog.pg_prepared_statements WHERE name = 'mine'), currval('public.seq');

	-- what it leaves itself
	PERFORM set_config('my.last', NEW.id::text, false);
	PERFORM pg_advisory_lock(NEW.id), nextval('public.seq');
	INSERT INTO pg_temp.mine VALUES (NEW.id);
	RETURN NULL;
END $$;
CREATE TRIGGER look AFTER INSERT ON fires_a FOR EACH ROW EXECUTE FUNCTION look();
CREATE TRIGGER look AFTER INSERT ON fires_b FOR EACH ROW EXECUTE FUNCTION look();
ALTER TABLE fires_a ENABLE ALWAYS TRIGGER look;
ALTER TABLE fires_b ENABLE REPLICA TRIGGER look;
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);

# Transactions of both tables among others, as a backlog and one by one; then all in one session again.
my $id = 0;

sub transaction
{
	$id++;
	my $quiet = 1 + $id % 6;
	my $table = $id % 2 ? 'fires_a' : 'fires_b';
	return "INSERT INTO quiet_$quiet VALUES ($id, 0); UPDATE quiet_$quiet SET n = 1 WHERE id = $id; INSERT INTO $table VALUES ($id);"
	  . " BEGIN; INSERT INTO quiet_$quiet VALUES (-$id, 0); UPDATE quiet_$quiet SET n = n + 1; COMMIT;";
}
ppa_backlog($pub, $sub, 'sub', join '', map { transaction() } 1 .. $transactions - 20);
$pub->safe_psql('postgres', transaction()) for 1 .. 20;
fault_applied($pub, $sub, $offset, 'triggers that leave something');
is($sub->safe_psql('postgres', 'SELECT count(*), count(DISTINCT pid) FROM saw'), "$transactions|1", 'one process ran them all');

# A process that began anew (another worker, another leader) would not find what the last one has left.
is($sub->safe_psql('postgres', <<'SQL'), '', 'each finds what the one before it has left');
SELECT * FROM saw WHERE id > 1 AND (setting IS DISTINCT FROM (id - 1)::text OR unlocked IS NOT TRUE OR temp_rows <> id - 1
	OR prepared <> 1 OR sequence <> id) LIMIT 5
SQL
ppa_same_table($pub, $sub, $_, "$_ equal") for qw(fires_a fires_b), map { "quiet_$_" } 1 .. 6;

# No lock of a session stays behind when the process ends.
ppa_disable($sub);
is($sub->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'}), 0, 'no advisory lock is left in the end');
fault_no_crash($pub, $sub);
done_testing();
