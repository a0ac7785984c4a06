# 085_review2_cancel_by_user_code.pl: second review. Functions of the user's throw the error of a cancelled query (57014): triggers,
# and functions of an index, with which a transaction is executed ahead of its turn.
# Shows: it is an apply error like any other, with the user's text, as with the built-in worker, and disables the subscription if
# that is wanted; the transaction is not begun again for ever. One that passes is repeated until it has passed.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
fault_gate($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE fires (id int PRIMARY KEY); CREATE TABLE indexed (id int PRIMARY KEY); CREATE TABLE quiet (id int PRIMARY KEY, n int)');
$pub->safe_psql('postgres', 'INSERT INTO quiet SELECT g, 0 FROM generate_series(1, 20) g');

# "refused" says how many more times; a sequence, as nothing else outlives a rollback.
$sub->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE refused MINVALUE -1000000 MAXVALUE 1000000 INCREMENT -1 START -1;
CREATE FUNCTION refuse() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF pg_catalog.nextval('public.refused') > 0 THEN
		RAISE EXCEPTION 'the function says no' USING ERRCODE = 'query_canceled';
	END IF;
END $$;
CREATE FUNCTION fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM public.refuse(); RETURN NEW; END $$;
CREATE TRIGGER fire BEFORE INSERT ON fires FOR EACH ROW EXECUTE FUNCTION fire();
ALTER TABLE fires ENABLE ALWAYS TRIGGER fire;
CREATE FUNCTION key(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM public.refuse(); RETURN $1; END $$;
CREATE INDEX ON indexed (public.key(id));
SQL
ppa_subscribe($pub, $sub);
ppa_views($sub);
my $id = 0;

sub refuse
{
	my ($times) = @_;
	$sub->safe_psql('postgres', "SELECT setval('refused', $times, false)");
	return;
}

# The transaction, with a slow one before it and others around it.
sub publish
{
	my ($table) = @_;
	$id++;
	$pub->safe_psql('postgres', join '', fault_gate_sql(0.3), 'UPDATE quiet SET n = n + 1 WHERE id = 1;', "INSERT INTO $table VALUES ($id);",
		map { "UPDATE quiet SET n = n + 1 WHERE id = $_;" } 1 .. 10);
	ppa_flush($pub);
	return;
}

foreach my $table ('fires', 'indexed')
{
	# ---- each time
	foreach my $disable ($table eq 'fires' ? ('true', 'false') : 'true')
	{
		my $what = "$table, each time, disable_on_error $disable";
		$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SET (disable_on_error = $disable)");
		my $count = ppa_error_count($sub);
		my $offset = ppa_log_pos($sub);
		refuse(1_000_000);
		publish($table);
		my $error = ppa_apply_error($sub, $offset);
		is($error->{text}, 'the function says no', "$what: text");
		is($error->{sqlstate}, '57014', "$what: SQLSTATE");
		is($error->{relation}, "public.$table", "$what: relation");
		ppa_wait_for($sub, "SELECT apply_error_count > $count FROM pg_stat_subscription_stats", 'the error to be counted');
		ppa_wait_for($sub, 'SELECT NOT subenabled FROM pg_subscription', 'the subscription to be disabled') if $disable eq 'true';
		ppa_disable($sub);
		is(ppa_error_count($sub), $count + 1, "$what: counted once") if $disable eq 'true';
		is($sub->safe_psql('postgres', "SELECT count(*) FROM $table WHERE id = $id"), 0, "$what: not applied");
		refuse(0);
		$offset = ppa_log_pos($sub);
		ppa_enable($sub);
		fault_applied($pub, $sub, $offset, "$what, repaired");
		ppa_same_table($pub, $sub, $_, "$what: $_ equal") for $table, 'quiet';
	}

	# ---- a few times: without an error, or with one and a new attempt
	my $what = "$table, twice";
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub SET (disable_on_error = false)');
	refuse(2);
	publish($table);
	ppa_catchup($pub, $sub);
	ppa_same_table($pub, $sub, $_, "$what: $_ equal") for $table, 'quiet';
}
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
fault_no_crash($pub, $sub);
done_testing();
