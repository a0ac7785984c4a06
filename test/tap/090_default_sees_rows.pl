# 090_default_sees_rows.pl: a column that only the subscriber has, whose default is a function that reads a table that is
# replicated, too.
# Shows: it sees what the same transaction, and what the ones before it, have written there, as with the built-in worker: also
# rows that could be kept back to be inserted together, whether the function is declared volatile or stable, and when
# transactions share a group or run ahead of the order.
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
ppa_both($pub, $sub, 'CREATE TABLE cfg (id int PRIMARY KEY, v int)');
foreach my $how (qw(stable volatile hidden))
{
	# "hidden": the default of an argument, which the planner puts in.
	my $volatility = $how eq 'hidden' ? 'IMMUTABLE' : $how;
	my $argument   = $how eq 'hidden' ? 'x int DEFAULT newest_stable()' : '';
	my $body       = $how eq 'hidden' ? 'SELECT x' : 'SELECT v FROM public.cfg ORDER BY id DESC LIMIT 1';
	$sub->safe_psql('postgres', <<"SQL");
SET check_function_bodies = off;
CREATE FUNCTION newest_$how($argument) RETURNS int $volatility LANGUAGE sql SET search_path = public AS '$body';
CREATE TABLE t_$how (id int PRIMARY KEY, seen int DEFAULT newest_$how());
SQL
	$pub->safe_psql('postgres', "CREATE TABLE t_$how (id int PRIMARY KEY)");
}
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);
my ($id, $v, %expected) = (0, 0);

# $count times a new row in cfg and one in each table that must see it; one transaction, or two each.
sub changes
{
	my ($count, $together) = @_;
	my $sql = '';
	foreach (1 .. $count)
	{
		$id++;
		$v = $id * 7;
		$expected{$id} = $v;
		my @inserts = ("INSERT INTO cfg VALUES ($id, $v)", map { "INSERT INTO t_$_ VALUES ($id)" } qw(stable volatile hidden));
		$sql .= $together ? 'BEGIN; ' . join('; ', @inserts) . '; COMMIT;' : join('; ', @inserts) . ';';
	}
	return $sql;
}

sub check
{
	my ($what) = @_;
	fault_applied($pub, $sub, $offset, $what);
	foreach my $how (qw(stable volatile hidden))
	{
		my ($wrong) = grep { my ($i, $s) = split /\|/, $_, 2; $s ne $expected{$i} }
		  split /\n/, $sub->safe_psql('postgres', "SELECT id, coalesce(seen, -1) FROM t_$how ORDER BY id");
		is($wrong, undef, "$what: $how: each row has seen its row of cfg");
	}
	return;
}

foreach my $workers (0, 1, 4)
{
	fault_setting($sub, 'workers', $workers);
	foreach my $together (1, 0)
	{
		my $what = "$workers workers, " . ($together ? 'one transaction' : 'a transaction each');
		$pub->safe_psql('postgres', changes(1, $together));
		check("$what, live");
		ppa_backlog($pub, $sub, 'sub', fault_gate_sql(0.2) . changes(20, $together) . fault_gate_sql(0.1) . changes(20, $together));
		check("$what, backlog");
	}
	last if ppa_builtin();
}
ppa_same_table($pub, $sub, "t_$_", "t_$_ equal", cols => 'id') foreach qw(stable volatile hidden);
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
