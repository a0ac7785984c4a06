# 056_review_h9_leaf_trigger.pl: review finding H9. A trigger is enabled and disabled on one leaf partition while groups are
# in flight: whoever read the catalogs before did not see it.
# Shows: from the moment on at which ALTER TABLE has committed the trigger fires for each row of that leaf, and it always sees
# exactly the transactions before its own. TOGGLES (default 10).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $toggles = fault_env('TOGGLES', 10);
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'deadlock_timeout = 10min');
fault_gate($pub, $sub);
$pub->safe_psql('postgres', 'CREATE TABLE parted (id int PRIMARY KEY, n int)');

# Transaction n writes into one leaf or the other. The leaf that fires comes second and has its columns in another order.
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE parted (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
CREATE TABLE parted_quiet PARTITION OF parted FOR VALUES FROM (MINVALUE) TO (0);
CREATE TABLE parted_fires (n int, id int PRIMARY KEY);
ALTER TABLE parted ATTACH PARTITION parted_fires FOR VALUES FROM (0) TO (MAXVALUE);
CREATE TABLE saw (n int, before bigint, last int, at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.saw SELECT NEW.n, count(*), coalesce(max(n), 0) FROM public.parted WHERE n <> NEW.n;
	RETURN NEW;
END $$;
CREATE TRIGGER look BEFORE INSERT ON parted_fires FOR EACH ROW EXECUTE FUNCTION look();
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);
my $n = 0;

# The next transactions in their order; one session sends them.
sub numbered
{
	my ($count) = @_;
	return join '', map { $n++; 'INSERT INTO parted VALUES (' . ($n % 3 ? $n : -$n) . ", $n);" } 1 .. $count;
}

sub set_trigger
{
	my ($mode) = @_;
	$sub->safe_psql('postgres', "ALTER TABLE parted_fires $mode TRIGGER look");
	return;
}

sub check
{
	my ($what) = @_;
	fault_applied($pub, $sub, $offset, $what);
	is($sub->safe_psql('postgres', 'SELECT * FROM saw WHERE before <> n - 1 OR last <> n - 1 LIMIT 5'),
		'', "$what: the trigger saw all before its transaction, and nothing behind it");
	ppa_same_table($pub, $sub, 'parted', "$what: equal");
	return;
}

# ---- enabled while the oldest group is slow, and others have executed changes of both leaves
fault_setting($sub, 'group_commit', 'off');
$pub->safe_psql('postgres', numbered(3));
ppa_catchup($pub, $sub);
foreach my $round (1 .. 3)
{
	set_trigger('DISABLE') if $round > 1;
	$pub->safe_psql('postgres', fault_gate_sql(1.5) . numbered(8));
	ppa_flush($pub);
	fault_in_flight($sub, 2);

	# Waits for those in flight if they have locked the leaf; all that is applied later fires.
	my ($applied) = $sub->safe_psql('postgres', <<'SQL') =~ /^(\d+)/m;
BEGIN; ALTER TABLE parted_fires ENABLE ALWAYS TRIGGER look; SELECT count(*) FROM parted; COMMIT;
SQL
	$pub->safe_psql('postgres', numbered(8));
	check("enabled behind a slow group, $round");
	my $first = $n - 15;
	my $want = $sub->safe_psql('postgres', "SELECT count(*) FROM parted_fires WHERE n > $applied");
	is($sub->safe_psql('postgres', "SELECT count(*) FROM saw WHERE n >= $first"), $want, "enabled behind a slow group, $round: fired for each row since");
}
fault_setting($sub, 'group_commit');
set_trigger('DISABLE');

# ---- to and fro in a backlog
ppa_backlog($pub, $sub, 'sub', numbered(6000));
foreach my $toggle (1 .. $toggles)
{
	set_trigger($toggle % 2 ? 'ENABLE ALWAYS' : 'DISABLE');
	fault_pause(0, 0.1);
}
set_trigger('ENABLE REPLICA');
$pub->safe_psql('postgres', numbered(50));
check('to and fro in a backlog');
note $sub->safe_psql('postgres', 'SELECT count(*) FROM saw') . ' rows fired the trigger, ' . fault_stats($sub, 'sub', qw(groups groups_alone groups_aborted));
cmp_ok($sub->safe_psql('postgres', "SELECT count(*) FROM saw WHERE n > $n - 50"), '==',
	$pub->safe_psql('postgres', "SELECT count(*) FROM parted WHERE n > $n - 50 AND id > 0"), 'it fired for each of the last rows');
fault_no_crash($pub, $sub);
done_testing();
