# TortureSchema.pm: the random schema of one round of the torture test.
#
#   torture_schema(%opt)    -> the schema, made with rand(): seed it before. builtin => 1: nothing that the built-in worker
#                              of 15 is known to get wrong. copy => 1: the publisher has rows before the subscription
#
# The schema is a hash:
#   tables     the tables that random changes go to, see below
#   pub, sub   DDL of the two sides
#   rows       SQL for the publisher: the first rows
#   names      all published tables, pubwith and subwith: options of the publication and of the subscription
#   compare    [name, columns, condition]: what must be equal in the end
#   features   what this round has, for the progress line
# A table is a hash: name; key (see %key_types); dom: keys are key 1 .. dom; u: kind of the uniqueness of column u;
# ordered: its changes must be applied in order; trunc: may be truncated; lock: local sessions lock its rows; check: each
# snapshot must show unique values of u. Its columns are those of the key, v bigint, u int, t text.
package TortureSchema;

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(shuffle);

our @EXPORT = qw(torture_schema);

# lit: literals of key number i, one per column. Those of numeric have a random scale: equal keys whose bytes differ.
my %key_types = (
	int => { cols => [ [ k => 'int' ] ], lit => sub { $_[0] } },
	bigint => { cols => [ [ k => 'bigint' ] ], lit => sub { $_[0] * 4_294_967_311 } },
	text => { cols => [ [ k => 'text' ] ], lit => sub { "'key $_[0]'" } },
	bpchar => { cols => [ [ k => 'char(12)' ] ], lit => sub { "'k$_[0]" . ' ' x int(rand(3)) . "'" } },
	uuid => {
		cols => [ [ k => 'uuid' ] ],
		lit => sub { sprintf "'%08x-0000-4000-8000-%012x'", ($_[0] * 2_654_435_761) & 0xffffffff, $_[0] }
	},
	numeric => { cols => [ [ k => 'numeric' ] ], lit => sub { $_[0] . ('', '.0', '.00', '.000')[ rand 4 ] } },
	composite => {
		cols => [ [ ka => 'int' ], [ kb => 'text' ] ],
		lit => sub { ($_[0] % 7, "'b" . int($_[0] / 7) . "'") }
	},
	triple => {
		cols => [ [ ka => 'smallint' ], [ kb => 'date' ], [ kc => 'bigint' ] ],
		lit => sub { ($_[0] % 3, "'2020-01-0" . (1 + $_[0] % 5) . "'", $_[0]) }
	},
);

sub pick
{
	return $_[ rand @_ ];
}

sub chance
{
	my ($percent) = @_;
	return rand(100) < $percent;
}

# What makes column u unique. Those of the second list need changes in order.
my %unique = (
	plain => 'CREATE UNIQUE INDEX %1$s_u ON %1$s (u)',
	partial => 'CREATE UNIQUE INDEX %1$s_u ON %1$s (u) WHERE v %% 2 = 0',
	expression => 'CREATE UNIQUE INDEX %1$s_u ON %1$s ((u / 2))',
	not_distinct => 'CREATE UNIQUE INDEX %1$s_u ON %1$s (u) NULLS NOT DISTINCT',
	deferred => 'ALTER TABLE %1$s ADD CONSTRAINT %1$s_u UNIQUE (u) DEFERRABLE INITIALLY DEFERRED',
	deferrable => 'ALTER TABLE %1$s ADD CONSTRAINT %1$s_u UNIQUE (u) DEFERRABLE',
	exclude => 'ALTER TABLE %1$s ADD CONSTRAINT %1$s_u EXCLUDE USING btree (u WITH =)',
	exclude_range => 'ALTER TABLE %1$s ADD CONSTRAINT %1$s_u EXCLUDE USING gist (int4range(u, u + 2) WITH &&) '
	  . 'WHERE (u IS NOT NULL)',
);
my %unique_values = map { $_ => 1 } qw(plain not_distinct deferred deferrable exclude);

sub columns
{
	my ($table) = @_;
	return ((map { $_->[0] } @{ $table->{key}{cols} }), qw(v u t));
}

sub key_names
{
	my ($table) = @_;
	return join(', ', map { $_->[0] } @{ $table->{key}{cols} });
}

# Column definitions; a list of its own for each leaf, so that their order differs.
sub definitions
{
	my ($table, %opt) = @_;
	my @key = map { "$_->[0] $_->[1] NOT NULL" } @{ $table->{key}{cols} };
	my @rest = ("v bigint NOT NULL DEFAULT 0", "u int", "t text");
	return (@key, @rest) unless $opt{sub};
	$rest[0] = 'v numeric NOT NULL DEFAULT 0' if $table->{wider};
	push @rest, @{ $table->{extra} // [] };
	return shuffle(@key, @rest);
}

sub table_pub
{
	my ($table) = @_;
	my ($name, $key) = ($table->{name}, key_names($table));
	my @sql;
	my @definitions = definitions($table);
	push @definitions, "PRIMARY KEY ($key)" unless $table->{identity} =~ /^(?:nothing|index)/;
	push @sql, "CREATE TABLE $name (" . join(', ', @definitions) . ')' . ($table->{pub_parts} ? " PARTITION BY HASH ($key)" : '');
	for my $part (0 .. ($table->{pub_parts} // 0) - 1)
	{
		push @sql, "CREATE TABLE ${name}_p$part PARTITION OF $name FOR VALUES WITH (MODULUS $table->{pub_parts}, REMAINDER $part)";
	}
	push @sql, "CREATE UNIQUE INDEX ${name}_k ON $name ($key)", "ALTER TABLE $name REPLICA IDENTITY USING INDEX ${name}_k"
	  if $table->{identity} eq 'index';
	push @sql, "ALTER TABLE $name REPLICA IDENTITY FULL" if $table->{identity} =~ /full|nothing/;
	push @sql, sprintf($unique{ $table->{u} }, $name) if $table->{u} && !$table->{pub_parts};
	return @sql;
}

sub table_sub
{
	my ($table) = @_;
	my ($name, $key) = ($table->{name}, key_names($table));
	my $primary = $table->{identity} =~ /^nothing/ ? '' : "PRIMARY KEY ($key)";
	my @sql;
	if ($table->{parts})
	{
		push @sql, "CREATE TABLE $name (" . join(', ', definitions($table, sub => 1), $primary) . ") PARTITION BY HASH ($key)";
		for my $part (0 .. $table->{parts} - 1)
		{
			push @sql, "CREATE TABLE ${name}_p$part (" . join(', ', shuffle('gone int', definitions($table, sub => 1)), $primary) . ')';
			push @sql, "ALTER TABLE ${name}_p$part DROP gone",
			  "ALTER TABLE $name ATTACH PARTITION ${name}_p$part FOR VALUES WITH (MODULUS $table->{parts}, REMAINDER $part)";
			push @sql, sprintf($unique{ $table->{u} }, "${name}_p$part") if $table->{u};
		}
		return @sql;
	}
	push @sql, "CREATE TABLE $name (" . join(', ', definitions($table, sub => 1), $primary || ()) . ')'
	  . ($table->{fillfactor} ? " WITH (fillfactor = $table->{fillfactor})" : '');
	push @sql, sprintf($unique{ $table->{u} }, $name) if $table->{u};
	push @sql, "CREATE INDEX ON $name ($_)" for @{ $table->{indexes} // [] };
	return @sql;
}

sub generic
{
	my ($name, %opt) = @_;
	# Without a key any row that is equal will do: 1 and 1.0 are equal, and the wrong one would remain.
	my @types = grep { $_ ne 'numeric' || ($opt{identity} // '') ne 'nothing' } sort keys %key_types;
	my $type = $opt{type} // pick(@types);
	my $table = {
		name => $name, type => $type, key => $key_types{$type}, dom => $opt{dom} // pick(8, 40, 200, 1000),
		identity => 'default', lock => 1, %opt
	};
	$table->{fillfactor} = pick(undef, 50, 90);
	return $table;
}

# Tables whose changes may be applied in any order that the scheduler finds right.
sub free_tables
{
	my (%opt) = @_;
	my @tables;
	for my $n (1 .. 3 + int(rand(4)))
	{
		my $table = generic("g$n", u => pick(undef, qw(plain plain plain partial expression not_distinct)));
		$table->{identity} = pick(qw(default default default full index));
		$table->{wider} = 1 if $opt{text} && chance(25) && ($table->{u} // '') ne 'partial';
		push @{ $table->{extra} }, 'x int DEFAULT 7' if chance(30);
		push @{ $table->{extra} }, 'x2 bigint GENERATED ALWAYS AS (u * 2) STORED' if chance(20);
		push @{ $table->{indexes} }, pick('v', 'u', 'md5(t)') if chance(40);
		push @tables, $table;
	}
	push @tables, generic('hot', type => 'int', dom => 4, u => pick(undef, 'plain'));
	push @tables, generic('parts', parts => 2 + int(rand(3)), u => pick(undef, 'plain'));
	push @tables, generic('roots', pub_parts => 3, parts => pick(0, 2));
	push @tables, generic('own', type => 'int', dom => 200, u => 'plain', own => 1);
	push @tables, generic('full_none', dom => 60, identity => 'nothing');
	push @tables, generic('full_index', dom => 60, identity => 'nothing', indexes => [pick('v', 'u')]);
	$tables[-1]{indexes} = [ key_names($tables[-1]) ] if chance(50);
	return @tables;
}

# Tables whose changes must wait for all that is before them.
sub ordered_tables
{
	my @tables = (
		generic('audited', dom => pick(20, 200), u => pick(undef, 'plain')),
		generic('exclusive', dom => 100, u => pick('exclude', 'exclude_range')),
		generic('deferring', dom => 100, u => pick('deferred', 'deferrable')),
		generic('defaults', dom => 100, extra => ['x timestamptz DEFAULT clock_timestamp()']),
		generic('leafy', parts => 3, dom => 100),
		generic('trunc1', type => 'int', dom => 100, u => pick(undef, 'plain'), trunc => 1, lock => 0),
		generic('trunc2', dom => 100, trunc => 1, lock => 0, parts => pick(0, 2)),
	);
	$_->{ordered} = 1 foreach @tables;
	return @tables;
}

# The check tables, see torture.pl. Created on both sides.
my $fixed = <<'SQL';
CREATE TABLE chk_counter (id int PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE chk_event (e text PRIMARY KEY);
CREATE TABLE chk_log (n bigint PRIMARY KEY, e text, lsn pg_lsn NOT NULL);
CREATE TABLE chk_a (n bigint PRIMARY KEY, client int NOT NULL);
CREATE TABLE chk_b (n bigint NOT NULL, pad text);
CREATE TABLE bank1 (id int PRIMARY KEY, v bigint NOT NULL);
CREATE TABLE bank2 (id bigint PRIMARY KEY, v bigint NOT NULL);
CREATE TABLE cl_a (client int PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE cl_b (client int PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE chain (id int PRIMARY KEY, v bigint NOT NULL);
CREATE TABLE shift (id int PRIMARY KEY, email text UNIQUE);
CREATE TABLE bulk (client int, seq int, v bigint, t text, PRIMARY KEY (client, seq));
SQL

my $fixed_rows = <<'SQL';
INSERT INTO chk_counter VALUES (1, 0);
INSERT INTO bank1 SELECT g, 0 FROM generate_series(1, 40) g;
INSERT INTO bank2 SELECT g, 0 FROM generate_series(1, 40) g;
INSERT INTO cl_a SELECT g, 0 FROM generate_series(0, 31) g;
INSERT INTO cl_b SELECT g, 0 FROM generate_series(0, 31) g;
INSERT INTO chain SELECT g, 0 FROM generate_series(1, 20) g;
INSERT INTO shift SELECT g * 2, 'mail ' || g FROM generate_series(1, 150) g;
INSERT INTO local_n SELECT g, 0 FROM generate_series(1, 100) g;
SQL

# Local sessions update local_n.local_count and write it down in local_done; the index makes the row move. They own the
# rows of own with a negative key; own_mirror has the same rows. chk_seen: what an ordered trigger saw of the counter.
# chk_event2: only the first leaf has an ordered trigger that always fires. The second leaf's trigger and those named nothing
# fire in apply only while the chaos has them enabled.
my $fixed_sub = <<'SQL';
CREATE TABLE local_n (id int PRIMARY KEY, local_count bigint DEFAULT 0, v bigint);
CREATE TABLE local_done (id int);
CREATE INDEX ON local_n (local_count);
CREATE TABLE own_mirror (k int PRIMARY KEY, v bigint);
CREATE TABLE chk_seen (e text, seen bigint);
CREATE TABLE leaf_sum (delta int);
CREATE TABLE chk_event2 (e text PRIMARY KEY) PARTITION BY HASH (e);
CREATE TABLE chk_event2_p0 PARTITION OF chk_event2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE chk_event2_p1 PARTITION OF chk_event2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE FUNCTION see_counter() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.chk_seen SELECT NEW.e, n FROM public.chk_counter;
	RETURN NEW;
END $$;
CREATE FUNCTION count_leaf() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.leaf_sum SELECT CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
	RETURN NULL;
END $$;
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER nothing BEFORE INSERT OR UPDATE OR DELETE ON g1 FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE TRIGGER nothing BEFORE INSERT OR UPDATE OR DELETE ON parts_p0 FOR EACH ROW EXECUTE FUNCTION nothing();
CREATE FUNCTION mutable(bigint) RETURNS bool LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN true; END $$;
ALTER TABLE defaults ADD CHECK (public.mutable(v));
SQL

# Written by triggers on both sides, not published: one row per row change, which says what the row was and is.
sub audit
{
	my ($table) = @_;
	my %image;
	foreach my $side (qw(OLD NEW))
	{
		my @columns = map { "$side.$_" } grep { $_ ne 't' } columns($table);
		$image{$side} = "concat_ws('/', " . join(', ', @columns) . ')';
	}
	return <<"SQL";
CREATE TABLE audit (op text, was text, is_now text);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	INSERT INTO public.audit VALUES (TG_OP, CASE WHEN TG_OP <> 'INSERT' THEN $image{OLD} END,
		CASE WHEN TG_OP <> 'DELETE' THEN $image{NEW} END);
	RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END \$\$;
SQL
}

# Our local writers change no row of audited; ALWAYS and REPLICA fire alike in apply.
sub triggers_sub
{
	my ($always) = (pick(qw(ALWAYS ALWAYS REPLICA)));
	my $when = pick(qw(BEFORE AFTER));
	my $leaf = 'leafy_p' . int(rand(3));
	return <<"SQL";
CREATE TRIGGER audit $when INSERT OR UPDATE OR DELETE ON audited FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE audited ENABLE $always TRIGGER audit;
CREATE TRIGGER see_counter BEFORE INSERT ON chk_event FOR EACH ROW EXECUTE FUNCTION see_counter();
ALTER TABLE chk_event ENABLE ALWAYS TRIGGER see_counter;
CREATE TRIGGER see_counter BEFORE INSERT ON chk_event2_p0 FOR EACH ROW EXECUTE FUNCTION see_counter();
ALTER TABLE chk_event2_p0 ENABLE ALWAYS TRIGGER see_counter;
CREATE TRIGGER see_counter AFTER INSERT ON chk_event2_p1 FOR EACH ROW EXECUTE FUNCTION see_counter();
CREATE TRIGGER count_leaf AFTER INSERT OR DELETE ON $leaf FOR EACH ROW EXECUTE FUNCTION count_leaf();
ALTER TABLE $leaf ENABLE ALWAYS TRIGGER count_leaf;
SQL
}

# Parents and children, and what enforces the foreign key on the subscriber in apply too.
sub family
{
	my $parent = generic('parent', dom => pick(10, 100), ordered => 1);
	my $child = generic('child', dom => pick(10, 100), ordered => 1, family => 1);
	$child->{key} = { cols => [ [ id => 'int' ] ], lit => sub { $_[0] } };
	$child->{parent} = $parent;
	my @refs = map { [ "r_$_->[0]", $_->[1] ] } @{ $parent->{key}{cols} };
	$child->{refs} = [ map { $_->[0] } @refs ];
	my $columns = join(', ', map { "$_->[0] $_->[1]" } @refs);
	my $foreign = 'FOREIGN KEY (' . join(', ', @{ $child->{refs} }) . ') REFERENCES parent'
	  . pick('', '', ' DEFERRABLE INITIALLY DEFERRED');
	my $ddl = "CREATE TABLE child (id int PRIMARY KEY, $columns, v bigint NOT NULL DEFAULT 0, $foreign);\n";
	# A statement each: a lock on both tables at once would be a deadlock with those who write the child first.
	my @enforce = map { <<"SQL" } qw(parent child);
DO \$\$
DECLARE name text;
BEGIN
	FOR name IN SELECT tgname FROM pg_trigger WHERE tgisinternal AND tgrelid = '$_'::regclass LOOP
		EXECUTE format('ALTER TABLE $_ ENABLE ALWAYS TRIGGER %I', name);
	END LOOP;
END \$\$;
SQL
	return ($parent, $child, $ddl, \@enforce);
}

sub first_rows
{
	my ($table) = @_;
	my @keys = grep { $_ % 2 } 1 .. $table->{dom};
	my @values = map { '(' . join(', ', $table->{key}{lit}->($_), 0, $table->{u} ? $_ * 2 : 'NULL', "'first'") . ')' } @keys;
	# Values of u that a range or an expression sees are apart; two NULLs may be too many.
	return "INSERT INTO $table->{name} VALUES " . join(', ', @values) . ";\n";
}

# Each snapshot of the subscriber is a state that the publisher had: torture_read() says what is wrong with it.
sub reader
{
	my (@tables) = @_;
	my $keys = '';
	foreach my $table (grep { $_->{u} && $unique_values{ $_->{u} } && !$_->{parts} } @tables)
	{
		$keys .= <<"SQL";
	SELECT ' $table->{name}.u is twice ' || u INTO found FROM $table->{name} WHERE u IS NOT NULL
		GROUP BY u HAVING count(*) > 1 LIMIT 1;
	bad := bad || coalesce(found, '');
SQL
	}
	my ($parent) = grep { $_->{name} eq 'parent' } @tables;
	my @columns = map { $_->[0] } @{ $parent->{key}{cols} };
	my $same = join(' AND ', map { "p.$_ = c.r_$_" } @columns);
	return <<"SQL";
CREATE FUNCTION torture_read() RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	c bigint;
	r record;
	bad text := '';
BEGIN
	SELECT coalesce(max(n), 0) INTO c FROM chk_counter;
	SELECT count(*) AS rows, coalesce(min(n), 1) AS least, coalesce(max(n), 0) AS most INTO r FROM chk_log;
	IF (r.rows, r.least, r.most) IS DISTINCT FROM (c, 1, c) THEN bad := bad || format(' counter %s, log %s', c, r); END IF;
	SELECT count(*) AS rows, coalesce(min(n), 1) AS least, coalesce(max(n), 0) AS most INTO r FROM chk_a;
	IF (r.rows, r.least, r.most) IS DISTINCT FROM (c, 1, c) THEN bad := bad || format(' counter %s, a %s', c, r); END IF;
	SELECT count(*) AS rows, coalesce(sum(n), 0)::bigint AS total, coalesce(max(n), 0) AS most INTO r FROM chk_b;
	IF (r.rows, r.total, r.most) IS DISTINCT FROM (c, c * (c + 1) / 2, c) THEN bad := bad || format(' counter %s, b %s', c, r); END IF;
	RETURN bad;
END \$\$;
CREATE FUNCTION torture_read_sums() RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	r record;
	bad text := '';
BEGIN
	SELECT (SELECT sum(v) FROM bank1) AS one, (SELECT sum(v) FROM bank2) AS two INTO r;
	IF coalesce(r.one + r.two, 0) <> 0 THEN bad := bad || ' bank ' || r; END IF;
	FOR r IN SELECT a, b FROM cl_a a FULL JOIN cl_b b USING (client)
		WHERE (a.n >= b.n AND a.n <= b.n + 1) IS NOT TRUE
	LOOP
		bad := bad || ' client ' || r;
	END LOOP;
	RETURN bad;
END \$\$;
CREATE FUNCTION torture_read_keys() RETURNS text LANGUAGE plpgsql AS \$\$
DECLARE
	found text;
	bad text := '';
BEGIN
$keys	SELECT ' orphan ' || c INTO found FROM child c WHERE c.r_$columns[0] IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM parent p WHERE $same) LIMIT 1;
	RETURN bad || coalesce(found, '');
END \$\$;
SQL
}

sub torture_schema
{
	my (%opt) = @_;
	my $binary = chance(25);
	my @tables = (free_tables(text => !$binary), ordered_tables());
	my ($parent, $child, $family, $enforce) = family();
	push @tables, $parent;
	my ($audited) = grep { $_->{name} eq 'audited' } @tables;

	my $pub = $fixed . join(";\n", map { table_pub($_) } @tables) . ";\n$family";
	my $sub = $fixed . join(";\n", map { table_sub($_) } @tables) . ";\n$family$fixed_sub";
	$pub .= "CREATE TABLE local_n (id int PRIMARY KEY, v bigint NOT NULL);\nCREATE TABLE chk_event2 (e text PRIMARY KEY);\n" . audit($audited);
	$pub .= "CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON audited FOR EACH ROW EXECUTE FUNCTION audit();\n";
	$sub .= audit($audited) . triggers_sub() . reader(@tables);
	my $rows = $fixed_rows . join('', map { first_rows($_) } grep { ($_->{u} // '') ne 'not_distinct' } @tables);

	my @fixed_names = $fixed =~ /^CREATE TABLE (\w+)/mg;
	my @compare = map { [ $_, '*', 'true' ] } @fixed_names;
	push @compare, [ 'local_n', 'id, v', 'true' ], [ 'child', '*', 'true' ], [ 'chk_event2', '*', 'true' ], [ 'audit', '*', 'true' ];
	foreach my $table (@tables)
	{
		push @compare, [ $table->{name}, join(', ', columns($table)), $table->{own} ? 'k > 0' : 'true' ];
	}

	push @tables, $child;
	my $streaming = chance(30) ? 'on' : 'off';
	my $commit = pick(qw(off off off local on));
	my $subwith = "binary = " . ($binary ? 'true' : 'false') . ", streaming = $streaming, synchronous_commit = '$commit'";
	return {
		tables => \@tables, pub => $pub, sub => $sub, enforce => $enforce, rows => $rows, compare => \@compare,
		names => [ @fixed_names, 'local_n', 'chk_event2', map { $_->{name} } @tables ],
		pubwith => 'publish_via_partition_root = true', subwith => $subwith,
		features => "synchronous_commit $commit" . ($binary ? ', binary' : '') . ', ' . join(' ', map {
			$_->{name} =~ /^g/ ? "$_->{name}:$_->{type}" . ($_->{u} ? "/$_->{u}" : '') : () } @tables)
	};
}

1;
