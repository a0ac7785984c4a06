# 055_review_h1_triggers_decide.pl: review finding H1. Triggers that decide by what somebody else holds: FOR UPDATE SKIP
# LOCKED, pg_try_advisory_lock, NOWAIT in an EXCEPTION block, unique_violation in an EXCEPTION block. The rows and keys that
# they ask for are changed by the transactions right before and right behind.
# Shows: each decides as if it were alone with what was committed before it, as in serial apply.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off');
fault_gate($pub, $sub);
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE job (id int PRIMARY KEY);
CREATE TABLE pool (id int PRIMARY KEY, n int);
CREATE TABLE taken (id int PRIMARY KEY);
CREATE TABLE quiet (id int PRIMARY KEY, n int);
SQL
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE decided (id int, kind text, outcome text);
CREATE FUNCTION decide() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	outcome text;
BEGIN
	SELECT 'free' INTO outcome FROM public.pool WHERE id = NEW.id FOR UPDATE SKIP LOCKED;
	INSERT INTO public.decided VALUES (NEW.id, 'skip locked', coalesce(outcome, 'locked'));

	-- one row that is the same for all: the next transaction's trigger must not run yet
	SELECT 'free' INTO outcome FROM public.pool WHERE id = 0 FOR UPDATE SKIP LOCKED;
	INSERT INTO public.decided VALUES (NEW.id, 'skip locked, same row', coalesce(outcome, 'locked'));

	INSERT INTO public.decided
	VALUES (NEW.id, 'advisory', CASE WHEN pg_try_advisory_xact_lock(99) THEN 'free' ELSE 'locked' END);

	BEGIN
		PERFORM FROM public.pool WHERE id = NEW.id + 1 FOR UPDATE NOWAIT;
		outcome := 'free';
	EXCEPTION WHEN lock_not_available THEN outcome := 'locked';
	END;
	INSERT INTO public.decided VALUES (NEW.id, 'nowait', outcome);

	-- deleted by the transaction before, inserted again by a later one
	BEGIN
		INSERT INTO public.taken VALUES (NEW.id);
		outcome := 'free';
	EXCEPTION WHEN OTHERS THEN outcome := SQLSTATE;
	END;
	INSERT INTO public.decided VALUES (NEW.id, 'unique', outcome);

	-- what is committed before it is seen, what comes behind is not
	INSERT INTO public.decided
	SELECT NEW.id, 'quiet', CASE WHEN max(n) = NEW.id AND count(*) FILTER (WHERE n < NEW.id) = 0 THEN 'free' ELSE 'other' END
	FROM public.quiet;
	DELETE FROM public.taken WHERE id = NEW.id;
	RETURN NULL;
END $$;
CREATE TRIGGER decide AFTER INSERT ON job FOR EACH ROW EXECUTE FUNCTION decide();
ALTER TABLE job ENABLE ALWAYS TRIGGER decide;
SQL
$pub->safe_psql('postgres', <<'SQL');
INSERT INTO pool SELECT g, 0 FROM generate_series(0, 1001) g;
INSERT INTO taken SELECT g FROM generate_series(1, 1000) g;
INSERT INTO quiet SELECT g, 0 FROM generate_series(1, 4) g;
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);

# The transactions around job number $id.
sub around
{
	my ($id) = @_;
	return <<"SQL";
DELETE FROM taken WHERE id = $id;
UPDATE quiet SET n = $id;
INSERT INTO job VALUES ($id);
UPDATE pool SET n = n + 1 WHERE id IN (0, $id, $id + 1);
INSERT INTO taken VALUES ($id);
UPDATE pool SET n = n + 1 WHERE id = $id;
UPDATE quiet SET n = 100000 + $id WHERE id = 1;
UPDATE pool SET n = n + 1 WHERE id = $id + 1;
UPDATE pool SET n = n + 1 WHERE id = 0;
SQL
}

sub check
{
	my ($what, $jobs) = @_;
	fault_applied($pub, $sub, $offset, $what);
	is($sub->safe_psql('postgres', <<'SQL'), join("\n", map { "$_|free|$jobs" } 'advisory', 'nowait', 'quiet', 'skip locked', 'skip locked, same row', 'unique'), "$what: each trigger decides as in serial apply");
SELECT kind, outcome, count(*) FROM decided GROUP BY 1, 2 ORDER BY 1, 2
SQL
	ppa_same_table($pub, $sub, $_, "$what: $_ equal") for qw(job pool taken quiet);
	$sub->safe_psql('postgres', 'TRUNCATE decided');
	return;
}

# Groups behind a slow one: what is not held back executes while the trigger's group waits for its turn.
fault_setting($sub, 'group_commit', 'off');
ppa_backlog($pub, $sub, 'sub', join '', map { fault_gate_sql(0.4) . around($_) } 1 .. 5);
check('behind slow groups', 5);

# Without anything slow, as it comes; with wrong guesses where there is a setting for them.
my $next = 6;
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess eq 'none';
	ppa_backlog($pub, $sub, 'sub', join '', map { around($_) } $next .. $next + 199);
	$next += 200;
	check("backlog, $guess", 200);
}
note fault_stats($sub, 'sub', qw(groups groups_alone ordered_changes groups_aborted retries_other workers_running));
fault_no_crash($pub, $sub);
done_testing();
