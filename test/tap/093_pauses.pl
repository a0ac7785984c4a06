# 093_pauses.pl: a transaction that fails for a passing reason (a serialization failure that a function raises) while the worker
# that tries it again is woken all the time by what it is sent.
# Shows: the pauses between the attempts are 10, 20, 40 ... milliseconds long all the same, and then it is applied.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

# Failures: the first attempt, another one before the group is alone or not, and some behind pauses.
use constant FAILURES => 6;

my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off');
fault_schema($pub, $sub);
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY)');
ppa_subscribe($pub, $sub);
plan skip_all => 'there are no workers in serial mode' unless ppa_parallel($sub);
$sub->safe_psql('postgres', <<'SQL');
CREATE SEQUENCE attempts;
CREATE FUNCTION fails(id int, failures int) RETURNS bool VOLATILE LANGUAGE plpgsql AS $$
DECLARE
	attempt bigint := nextval('public.attempts');
BEGIN
	RAISE LOG 'attempt % at %', attempt, extract(epoch FROM clock_timestamp());
	IF attempt <= failures THEN
		RAISE serialization_failure;
	END IF;
	RETURN true;
END $$;
SQL
$sub->safe_psql('postgres', "ALTER TABLE t ADD CHECK (fails(id, ${\FAILURES}))");
fault_setting($sub, 'group_commit', 'off');
my $offset = ppa_log_pos($sub);
my $load = fault_load_start($pub, rate => 1000);
fault_progress($sub);
$pub->safe_psql('postgres', 'INSERT INTO t VALUES (1)');
fault_applied($pub, $sub, $offset, 'the transaction');
fault_load_stop($load);
fault_applied($pub, $sub, $offset, 'the load');

my %at = map { $_->{text} =~ /^attempt (\d+) at ([\d.]+)/ ? ($1 => $2) : () } ppa_log_entries($sub, $offset);
is(scalar keys %at, 1 + FAILURES, 'so many attempts');
my @gaps = map { 1000 * ($at{ $_ + 1 } - $at{$_}) } 1 .. FAILURES;
note 'milliseconds between attempts: ' . join ' ', map { sprintf '%.1f', $_ } @gaps;

# The last ones are those with pauses.
my @pauses = map { 10 * 2**$_ } 0 .. 3;
cmp_ok($gaps[ $_ - @pauses ], '>=', $pauses[$_], "a pause of $pauses[$_] ms") foreach 0 .. $#pauses;
ppa_same_table($pub, $sub, 't', 'applied');
fault_equal($pub, $sub, 'the load');
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
