# Row triggers in replica role, deferred constraint triggers, TRUNCATE triggers, foreign keys that are checked; row level
# security and privileges of a subscription owner that is no superuser.
#
# A remote transaction that fires triggers is a local transaction of its own: txid_current(), now(), SET LOCAL and
# deferred checks see it alone, even in a backlog whose other transactions are grouped.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();

# ---------------------------------------------------------------------------------------------------- triggers
# n: number of the publisher's transaction, so that the audit can be compared with it.
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE quiet (id int PRIMARY KEY, n int);
CREATE TABLE audited (id int PRIMARY KEY, n int, v text, big text);
ALTER TABLE audited ALTER big SET STORAGE EXTERNAL;
CREATE TABLE changed (id int PRIMARY KEY, v text, note text);
CREATE TABLE checked (id int PRIMARY KEY, n int);
CREATE TABLE summary (id int PRIMARY KEY, total bigint NOT NULL);
CREATE TABLE swallow (id int PRIMARY KEY, v text);
CREATE TABLE ordinary (id int PRIMARY KEY, v text);
CREATE TABLE cut (id int PRIMARY KEY);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE);
SQL
$pub->safe_psql('postgres', <<'SQL');
CREATE TABLE tree (id int PRIMARY KEY, v text);
SQL
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE tree (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE tree_plain PARTITION OF tree FOR VALUES FROM (0) TO (100);
CREATE TABLE tree_fires (v text, gone int, id int PRIMARY KEY);
ALTER TABLE tree_fires DROP gone;
ALTER TABLE tree ATTACH PARTITION tree_fires FOR VALUES FROM (100) TO (200);

CREATE TABLE audit (nr serial, tab text, op text, timing text, old text, new text, n int,
	xid bigint DEFAULT txid_current(), at timestamptz DEFAULT now(), local text);

CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.audit (tab, op, timing, old, new, local)
	VALUES (TG_TABLE_NAME, TG_OP, TG_WHEN, CASE WHEN TG_OP <> 'INSERT' THEN left(OLD::text, 60) END,
		CASE WHEN TG_OP <> 'DELETE' THEN left(NEW::text, 60) END, current_setting('my.leak', true));
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION audit_n() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.audit (tab, op, timing, n, local)
	VALUES (TG_TABLE_NAME, TG_OP, TG_WHEN, NEW.n, current_setting('my.leak', true));
	PERFORM set_config('my.leak', NEW.n::text, true);
	RETURN NULL;
END $$;
CREATE TRIGGER audit_n AFTER INSERT OR UPDATE ON audited FOR EACH ROW EXECUTE FUNCTION audit_n();
ALTER TABLE audited ENABLE ALWAYS TRIGGER audit_n;
CREATE TRIGGER of_v AFTER UPDATE OF v ON audited FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE audited ENABLE REPLICA TRIGGER of_v;
CREATE TRIGGER of_big BEFORE UPDATE OF big ON audited FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE audited ENABLE REPLICA TRIGGER of_big;
CREATE TRIGGER when_id AFTER UPDATE ON audited FOR EACH ROW WHEN (OLD.v IS DISTINCT FROM NEW.v AND NEW.id = 900)
	EXECUTE FUNCTION audit();
ALTER TABLE audited ENABLE ALWAYS TRIGGER when_id;

CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		RETURN CASE WHEN OLD.id % 10 = 0 THEN NULL ELSE OLD END;
	END IF;
	IF NEW.v = 'skip' THEN
		RETURN NULL;
	END IF;
	NEW.note := concat_ws(' ', TG_OP, NEW.note);
	RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE OR DELETE ON changed FOR EACH ROW EXECUTE FUNCTION change();
ALTER TABLE changed ENABLE REPLICA TRIGGER change;

CREATE FUNCTION check_later() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	-- sees the end of the remote transaction, and nothing of the next one
	INSERT INTO public.audit (tab, op, timing, n, new)
	SELECT TG_TABLE_NAME, TG_OP, TG_WHEN, NEW.n, count(*) || ' ' || (SELECT count(*) FROM public.quiet)
	FROM public.checked;
	RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER check_later AFTER INSERT ON checked DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION check_later();
ALTER TABLE checked ENABLE ALWAYS TRIGGER check_later;

-- a trigger that writes a row which the publisher changes too
CREATE FUNCTION summarize() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE public.summary SET total = total + 1 WHERE id = 1000;
	RETURN NEW;
END $$;
CREATE TRIGGER summarize AFTER INSERT ON changed FOR EACH ROW EXECUTE FUNCTION summarize();
ALTER TABLE changed ENABLE ALWAYS TRIGGER summarize;

CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		INSERT INTO public.audit (tab, op, new) VALUES (TG_TABLE_NAME, 'lost', NEW.id::text);
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		INSERT INTO public.audit (tab, op, new) VALUES (TG_TABLE_NAME, 'caught', NEW.id::text);
	END;
	RETURN NEW;
END $$;
CREATE TRIGGER swallow BEFORE INSERT OR UPDATE ON swallow FOR EACH ROW EXECUTE FUNCTION swallow();
ALTER TABLE swallow ENABLE ALWAYS TRIGGER swallow;

CREATE TRIGGER ordinary BEFORE INSERT OR UPDATE OR DELETE ON ordinary FOR EACH ROW EXECUTE FUNCTION audit();
CREATE TRIGGER ordinary_after AFTER INSERT OR UPDATE OR DELETE ON ordinary FOR EACH ROW EXECUTE FUNCTION audit();
CREATE TRIGGER disabled AFTER INSERT ON ordinary FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE ordinary DISABLE TRIGGER disabled;
-- statement triggers of INSERT, UPDATE and DELETE never fire for applied rows
CREATE FUNCTION statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.audit (tab, op, timing) VALUES (TG_TABLE_NAME, TG_OP, TG_WHEN);
	RETURN NULL;
END $$;
CREATE TRIGGER statement AFTER INSERT OR UPDATE OR DELETE ON ordinary FOR EACH STATEMENT EXECUTE FUNCTION statement();
ALTER TABLE ordinary ENABLE ALWAYS TRIGGER statement;
CREATE TRIGGER cut BEFORE TRUNCATE ON cut FOR EACH STATEMENT EXECUTE FUNCTION statement();
CREATE TRIGGER cut_after AFTER TRUNCATE ON cut FOR EACH STATEMENT EXECUTE FUNCTION statement();
ALTER TABLE cut ENABLE ALWAYS TRIGGER cut;
ALTER TABLE cut ENABLE REPLICA TRIGGER cut_after;

CREATE TRIGGER fires AFTER INSERT OR UPDATE OR DELETE ON tree_fires FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE tree_fires ENABLE ALWAYS TRIGGER fires;
CREATE TRIGGER fires_before BEFORE INSERT OR UPDATE OR DELETE ON tree_fires FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE tree_fires ENABLE REPLICA TRIGGER fires_before;
SQL
ppa_subscribe($pub, $sub);
# The COPY of the initial synchronisation fires statement triggers, even for no rows.
$sub->safe_psql('postgres', 'TRUNCATE audit');

sub audit_of
{
	my ($table, $columns) = @_;
	return $sub->safe_psql('postgres', "SELECT $columns FROM audit WHERE tab = '$table' ORDER BY nr");
}

# ---- one local transaction for each remote transaction that fires triggers
# Even ones touch the audited table (every fourth one two rows, and a quiet row before and behind), odd ones only quiet.
my @sql;
for my $n (1 .. 200)
{
	if ($n % 2) { push @sql, "INSERT INTO quiet VALUES ($n, $n);" }
	elsif ($n % 4) { push @sql, "INSERT INTO audited VALUES ($n, $n, 'a', 'b');" }
	else
	{
		push @sql, "BEGIN; INSERT INTO quiet VALUES ($n, $n); INSERT INTO audited VALUES ($n, $n, 'a'), (-$n, $n, 'a');"
		  . " INSERT INTO quiet VALUES (-$n, $n); COMMIT;";
	}
}
ppa_backlog($pub, $sub, 'sub', join("\n", @sql));
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, $_, "triggers in a backlog: $_") for qw(quiet audited);
is(audit_of('audited', 'n'), join("\n", map { $_ % 4 ? $_ : ($_, $_) } grep { $_ % 2 == 0 } 1 .. 200),
	'audit follows the order of the publisher');
is( $sub->safe_psql('postgres', q{SELECT count(DISTINCT n), count(DISTINCT xid), count(DISTINCT (n, xid)) FROM audit}),
	'100|100|100', 'one txid_current() per remote transaction');
is($sub->safe_psql('postgres', q{SELECT count(DISTINCT (n, at)), count(DISTINCT at) FROM audit}),
	'100|100', 'one now() per remote transaction');
is( $sub->safe_psql('postgres', <<'SQL'), 0, 'rows of the same remote transaction have its txid');
SELECT count(*) FROM audit a JOIN (SELECT n, xmin::text AS x FROM quiet UNION ALL SELECT n, xmin::text FROM audited) q USING (n)
WHERE (a.xid % (1::bigint << 32))::text <> q.x
SQL
is( $sub->safe_psql('postgres', <<'SQL'), 0, 'rows of no other remote transaction have it');
SELECT count(*) FROM audit a JOIN quiet q ON (a.xid % (1::bigint << 32))::text = q.xmin::text WHERE a.n <> q.n
SQL
is( $sub->safe_psql('postgres', <<'SQL'), 0, 'set_config(..., true) lasts to the end of the remote transaction, not longer');
SELECT count(*) FROM (SELECT n, local, lag(n) OVER (ORDER BY nr) AS before FROM audit) s
WHERE coalesce(local, '') <> CASE WHEN before = n THEN n::text ELSE '' END
SQL

# ---- UPDATE OF and WHEN: a column that comes as unchanged TOAST is not updated, all others are
$sub->safe_psql('postgres', 'TRUNCATE audit');
ppa_backlog($pub, $sub, 'sub', <<'SQL');
INSERT INTO audited SELECT 900, 0, 'v', string_agg(md5(g::text), '') FROM generate_series(1, 200) g;
UPDATE audited SET n = 1 WHERE id = 900;
UPDATE audited SET v = 'w' WHERE id = 900;
UPDATE audited SET big = 'short' WHERE id = 900;
UPDATE audited SET n = 2 WHERE id = 900;
SQL
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, 'audited', 'UPDATE OF: rows equal');
is( $sub->safe_psql('postgres', q{SELECT string_agg(timing || coalesce(n::text, ''), ' ' ORDER BY nr) FROM audit WHERE op = 'UPDATE'}),
	'AFTER1 AFTER AFTER1 AFTER AFTER BEFORE AFTER1 AFTER BEFORE AFTER2 AFTER', 'UPDATE OF and WHEN fire as built in');

# ---- BEFORE triggers change and skip rows
$sub->safe_psql('postgres', 'INSERT INTO summary VALUES (1000, 0)');
ppa_backlog($pub, $sub, 'sub', <<'SQL');
INSERT INTO changed SELECT g, 'v', NULL FROM generate_series(1, 30) g;
INSERT INTO changed VALUES (31, 'skip', NULL), (32, 'v', 'n');
UPDATE changed SET v = 'u' WHERE id < 4;
UPDATE changed SET v = 'skip' WHERE id IN (5, 6);
UPDATE changed SET id = 107 WHERE id = 7;
DELETE FROM changed WHERE id IN (8, 10);
DELETE FROM changed WHERE id = 31;
UPDATE changed SET v = 'late' WHERE id = 5;
SQL
ppa_catchup($pub, $sub, 'sub');
is( $sub->safe_psql('postgres', <<'SQL'), <<'ROWS' =~ s/\n\z//r, 'BEFORE triggers change and skip rows');
SELECT * FROM changed WHERE id < 11 OR id > 29 ORDER BY id
SQL
1|u|UPDATE
2|u|UPDATE
3|u|UPDATE
4|v|INSERT
5|late|UPDATE
6|v|INSERT
9|v|INSERT
10|v|INSERT
30|v|INSERT
32|v|INSERT n
107|v|UPDATE
ROWS
is($sub->safe_psql('postgres', 'SELECT total FROM summary WHERE id = 1000'), 31, 'AFTER INSERT fired for what was inserted');

# A trigger's own writes and the publisher's changes to the same row.
$pub->safe_psql('postgres', 'INSERT INTO summary VALUES (2000, 0)');
ppa_catchup($pub, $sub, 'sub');
$sub->safe_psql('postgres', 'DELETE FROM summary WHERE id = 1000; UPDATE summary SET id = 1000 WHERE id = 2000');
$pub->safe_psql('postgres', 'UPDATE summary SET id = 1000 WHERE id = 2000');
ppa_catchup($pub, $sub, 'sub');
ppa_backlog($pub, $sub, 'sub', <<'SQL');
UPDATE summary SET total = 10 WHERE id = 1000;
INSERT INTO changed VALUES (201, 'v', NULL), (202, 'v', NULL);
INSERT INTO changed VALUES (203, 'v', NULL);
UPDATE summary SET total = 100 WHERE id = 1000;
BEGIN;
INSERT INTO changed VALUES (204, 'v', NULL);
INSERT INTO changed VALUES (205, 'v', NULL);
COMMIT;
SQL
ppa_catchup($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT total FROM summary WHERE id = 1000'), 102, 'writes of triggers in their order with remote ones');

# ---- deferred constraint trigger: at the end of its own remote transaction
$sub->safe_psql('postgres', 'TRUNCATE audit, quiet');
$pub->safe_psql('postgres', 'TRUNCATE quiet');
ppa_catchup($pub, $sub, 'sub');
ppa_backlog($pub, $sub, 'sub', join("\n", map {
	"INSERT INTO quiet VALUES ($_, $_);\nBEGIN; INSERT INTO checked VALUES ($_, $_), (-$_, $_); INSERT INTO quiet VALUES (-$_, 0); COMMIT;"
} 1 .. 50));
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, $_, "deferred trigger in a backlog: $_") for qw(quiet checked);
is(audit_of('checked', 'n, new'), join("\n", map { my $t = 2 * $_; ("$_|$t $t", "$_|$t $t") } 1 .. 50),
	'it sees exactly the remote transactions up to its own');

# ---- EXCEPTION blocks
ppa_backlog($pub, $sub, 'sub', <<'SQL');
INSERT INTO swallow VALUES (1, 'a');
INSERT INTO swallow VALUES (2, 'a'), (3, 'a');
BEGIN; INSERT INTO quiet VALUES (1001, 0); UPDATE swallow SET v = 'b'; INSERT INTO quiet VALUES (1002, 0); COMMIT;
INSERT INTO quiet VALUES (1003, 0);
SQL
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, $_, "trigger with an EXCEPTION block: $_") for qw(quiet swallow);
is(audit_of('swallow', 'op, new'), join("\n", map { "caught|$_" } 1, 2, 3, 1, 2, 3), 'what it caught is rolled back, the rest is kept');

# ---- ordinary triggers, statement triggers
ppa_backlog($pub, $sub, 'sub', <<'SQL');
INSERT INTO ordinary VALUES (1, 'a'), (2, 'b');
UPDATE ordinary SET v = 'c' WHERE id = 1;
DELETE FROM ordinary WHERE id = 2;
INSERT INTO cut VALUES (1), (2);
TRUNCATE cut;
INSERT INTO cut VALUES (3);
SQL
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, $_, "statement triggers: $_") for qw(ordinary cut);
is(audit_of('ordinary', 'op'), '', 'neither ordinary nor disabled nor statement triggers fire for rows');
is(audit_of('cut', 'op, timing'), "TRUNCATE|BEFORE\nTRUNCATE|AFTER", 'TRUNCATE triggers in replica role fire');

# ---- triggers of one leaf only
ppa_backlog($pub, $sub, 'sub', <<'SQL');
INSERT INTO tree VALUES (1, 'a'), (101, 'b'), (2, 'c');
UPDATE tree SET v = v || '!';
UPDATE tree SET id = 102 WHERE id = 1;
UPDATE tree SET id = 3 WHERE id = 101;
DELETE FROM tree WHERE id IN (2, 102);
SQL
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, 'tree', 'triggers of a leaf: rows equal');
is( audit_of('tree_fires', q{timing, op, coalesce(old, '') || '>' || coalesce(new, '')}),
	<<'ROWS' =~ s/\n\z//r, 'triggers of a leaf fire as built in');
BEFORE|INSERT|>(b,101)
AFTER|INSERT|>(b,101)
BEFORE|UPDATE|(b,101)>(b!,101)
AFTER|UPDATE|(b,101)>(b!,101)
BEFORE|INSERT|>(a!,102)
AFTER|INSERT|>(a!,102)
BEFORE|DELETE|(b!,101)>
AFTER|DELETE|(b!,101)>
BEFORE|DELETE|(a!,102)>
AFTER|DELETE|(a!,102)>
ROWS

# ---- a trigger created, dropped, enabled and disabled between remote transactions
$sub->safe_psql('postgres', 'TRUNCATE audit');
for my $case (
	[ 'ENABLE ALWAYS TRIGGER ordinary_after', 1 ],
	[ 'DISABLE TRIGGER ordinary_after', 0 ],
	[ 'ENABLE REPLICA TRIGGER ordinary', 1 ],
	[ 'ENABLE TRIGGER ordinary', 0 ])
{
	my ($ddl, $fires) = @$case;
	$sub->safe_psql('postgres', "TRUNCATE audit; ALTER TABLE ordinary $ddl");
	$pub->safe_psql('postgres', q{UPDATE ordinary SET v = v || 'x'});
	ppa_catchup($pub, $sub, 'sub');
	is(audit_of('ordinary', 'count(*) OVER ()'), $fires ? 1 : '', "after $ddl");
}

# ---- foreign keys: not checked, unless their triggers are enabled
$pub->safe_psql('postgres', 'INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1)');
ppa_catchup($pub, $sub, 'sub');
$sub->safe_psql('postgres', 'DELETE FROM parent WHERE id = 2');
$sub->safe_psql('postgres', 'SET session_replication_role = replica; DELETE FROM parent WHERE id = 1');
$pub->safe_psql('postgres', 'INSERT INTO child VALUES (2, 2)');
ppa_catchup($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM child'), 2, 'foreign keys are not checked by default');
$sub->safe_psql('postgres', 'TRUNCATE parent, child; INSERT INTO parent VALUES (1);');
$sub->safe_psql('postgres', <<'SQL');
SELECT format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', tgrelid::regclass, tgname) FROM pg_trigger
WHERE tgrelid IN ('parent'::regclass, 'child'::regclass) \gexec
SQL
my $offset = ppa_log_pos($sub);
ppa_backlog($pub, $sub, 'sub', <<'SQL');
BEGIN; INSERT INTO parent VALUES (10); INSERT INTO child VALUES (10, 10), (11, 10); COMMIT;
INSERT INTO parent VALUES (20);
INSERT INTO child VALUES (20, 20);
INSERT INTO child VALUES (21, 2);
INSERT INTO quiet VALUES (3001, 0);
SQL
my $error = ppa_apply_error($sub, $offset);
is($error->{text}, 'insert or update on table "child" violates foreign key constraint "child_parent_fkey"', 'foreign key ENABLE ALWAYS');
is($error->{sqlstate}, '23503', 'its SQLSTATE');
is($error->{detail}, 'Key (parent)=(2) is not present in table "parent".', 'its detail');
is($sub->safe_psql('postgres', 'SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM child'), '10 11 20', 'what came before is there');
is($sub->safe_psql('postgres', 'SELECT count(*) FROM quiet WHERE id = 3001'), 0, 'what comes after is not');
$sub->safe_psql('postgres', 'INSERT INTO parent VALUES (2)');
ppa_catchup($pub, $sub, 'sub');
$pub->safe_psql('postgres', 'DELETE FROM parent WHERE id IN (10, 20)');
ppa_catchup($pub, $sub, 'sub');
is($sub->safe_psql('postgres', 'SELECT string_agg(id::text, $$ $$ ORDER BY id) FROM child'), '21', 'cascade of an applied DELETE');

# ------------------------------------------------------------------------------------- privileges and row security
# On 15 only a superuser can be made the owner; it may lose that later.
ppa_both($pub, $sub, <<'SQL');
CREATE TABLE guarded (id int PRIMARY KEY, v text);
CREATE TABLE keyless (id int, v text);
ALTER TABLE keyless REPLICA IDENTITY FULL;
SQL
$pub->safe_psql('postgres', 'CREATE TABLE parts (id int PRIMARY KEY, v text)');
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE ROLE applier SUPERUSER LOGIN;
GRANT ALL ON quiet TO applier;
SQL
$pub->safe_psql('postgres', 'CREATE PUBLICATION pub_guarded FOR TABLE guarded, keyless, parts');
ppa_subscribe($pub, $sub, name => 'guard', publication => 'pub_guarded', tables => undef);
$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION guard OWNER TO applier; ALTER ROLE applier NOSUPERUSER'); sleep 3; $sub->safe_psql('postgres', 'select pg_terminate_backend(pid) from pg_stat_subscription where subname=$$guard$$'); sleep 2;

# What the publisher does, the error it meets, what helps.
my @cases = (
	[ q{INSERT INTO guarded VALUES (1, 'a')}, 'permission denied for table guarded', '42501', 'INSERT', 'GRANT INSERT ON guarded TO applier' ],
	[ q{UPDATE guarded SET v = 'b'}, 'permission denied for table guarded', '42501', 'UPDATE', 'GRANT UPDATE, SELECT ON guarded TO applier' ],
	[ q{DELETE FROM guarded}, 'permission denied for table guarded', '42501', 'DELETE', 'GRANT DELETE ON guarded TO applier' ],
	[ q{TRUNCATE guarded}, 'permission denied for table guarded', '42501', 'TRUNCATE', 'GRANT TRUNCATE ON guarded TO applier' ],
	# a right that is taken away while the worker has the table open
	[
		q{INSERT INTO guarded VALUES (2, 'a')}, 'permission denied for table guarded', '42501', 'INSERT',
		'GRANT INSERT ON guarded TO applier', 'REVOKE INSERT ON guarded FROM applier'
	],
	[
		q{UPDATE guarded SET v = 'c'}, 'permission denied for table guarded', '42501', 'UPDATE',
		'GRANT SELECT ON guarded TO applier', 'REVOKE SELECT ON guarded FROM applier'
	],
	[
		q{INSERT INTO keyless VALUES (1, 'a')}, 'user "applier" cannot replicate into relation with row-level security enabled: "keyless"',
		'0A000', 'INSERT', 'ALTER TABLE keyless DISABLE ROW LEVEL SECURITY',
		'GRANT ALL ON keyless TO applier; ALTER TABLE keyless ENABLE ROW LEVEL SECURITY'
	],
	[
		q{UPDATE keyless SET v = 'b'}, 'user "applier" cannot replicate into relation with row-level security enabled: "keyless"',
		'0A000', 'UPDATE', 'ALTER ROLE applier BYPASSRLS', 'ALTER TABLE keyless ENABLE ROW LEVEL SECURITY'
	],
	[
		q{DELETE FROM keyless}, 'user "applier" cannot replicate into relation with row-level security enabled: "keyless"',
		'0A000', 'DELETE', 'ALTER TABLE keyless OWNER TO applier', 'ALTER ROLE applier NOBYPASSRLS'
	],
	[
		q{INSERT INTO parts VALUES (1, 'a')}, 'permission denied for table parts_1', '42501', 'INSERT',
		'GRANT ALL ON parts_1 TO applier', 'GRANT ALL ON parts TO applier'
	]);
for my $case (@cases)
{
	my ($sql, $text, $sqlstate, $command, $fix, $before) = @$case;
	$sub->safe_psql('postgres', $before) if $before;
	$offset = ppa_log_pos($sub);
	$pub->safe_psql('postgres', $sql);
	my $found = ppa_apply_error($sub, $offset);
	is($found->{text}, $text, "$sql: text");
	is($found->{sqlstate}, $sqlstate, "$sql: SQLSTATE");
	is($found->{command}, $command, "$sql: message type");
	$sub->safe_psql('postgres', $fix);
	ppa_catchup($pub, $sub, 'guard');
	ppa_same_table($pub, $sub, $_, "$sql: applied after $fix: $_") for qw(guarded keyless parts);
}
is($sub->safe_psql('postgres', q{SELECT string_agg(id || v, ' ') FROM guarded}), '2c', 'the last state arrived');

done_testing();
