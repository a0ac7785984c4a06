# 095_end_in_a_transaction.pl: a publisher (or a proxy in front of it) that ends the stream in the middle of a transaction.
# Shows: the leader does not wait for the rest: what has arrived of it is rolled back, what came before it is kept, and the next
# connection brings it, once. Also if it is large and a worker has begun to apply it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFakePublisher;
use PpaFault;
use PpaTest;
use Test::More;

my $sub = ppa_node('subscriber', conf => "wal_retrieve_retry_interval = 50ms\nallow_system_table_mods = on");
$sub->safe_psql('postgres', 'CREATE TABLE t (id text PRIMARY KEY, v text)');
my $relid = 1000;
my $filler = 'x' x 100;

# The $n-th transaction, of $rows rows, if it is behind $from; whether all of it is said.
sub transaction
{
	my ($from, $say, $n, $rows, $whole) = @_;
	my $lsn = 0x2000000 + $n * 0x1000000;
	return if $lsn < $from;
	$say->(PpaFakePublisher::begin($lsn, 700 + $n));
	$say->(PpaFakePublisher::relation($relid, 't', 'id', 'v'));
	$say->(PpaFakePublisher::insert($relid, "$n-$_", $filler)) foreach 1 .. $rows;
	$say->(PpaFakePublisher::commit($lsn)) if $whole;
	return;
}

# [rows of the transaction that is cut off]: below what is kept of an open transaction, and above it.
foreach my $rows (10, 30_000)
{
	my $fake = PpaFakePublisher->start(
		sub {
			my ($connection, @stream) = @_;
			transaction(@stream, 1, 5, 1);
			transaction(@stream, 2, $rows, $connection > 1);
			return $connection == 1;
		});
	my $offset = ppa_log_pos($sub);
	$sub->safe_psql('postgres', <<"SQL");
CREATE SUBSCRIPTION sub CONNECTION '${\$fake->conninfo}' PUBLICATION pub WITH (connect = false, slot_name = 'sub');
INSERT INTO pg_subscription_rel SELECT oid, 't'::regclass, 'r', NULL FROM pg_subscription;
ALTER SUBSCRIPTION sub ENABLE;
SQL
	ppa_wait_for($sub, "SELECT count(*) = 5 + $rows FROM t", "all rows ($rows)");
	is(ppa_log_count($sub, qr/LOG:  data stream from publisher has ended/, $offset), 1, "$rows rows: the end of the stream is logged");
	is($sub->safe_psql('postgres', q{SELECT string_agg(n || ':' || rows, ' ' ORDER BY n)
		FROM (SELECT split_part(id, '-', 1) AS n, count(*) AS rows FROM t GROUP BY 1) s}), "1:5 2:$rows", "$rows rows: each once");
	is(ppa_log_count($sub, qr/ERROR: /, $offset), 0, "$rows rows: no error");
	ppa_disable($sub);
	$sub->safe_psql('postgres', 'ALTER SUBSCRIPTION sub SET (slot_name = NONE); DROP SUBSCRIPTION sub; TRUNCATE t');
}
fault_no_crash($sub);
done_testing();
