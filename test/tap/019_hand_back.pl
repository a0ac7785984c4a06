# A slot that was created with two_phase sends PREPARE also to a subscription that did not ask for it. We cannot apply
# that yet: the subscription is handed back to the built-in worker at the first such message, and nothing is lost.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair(pub_conf => 'max_prepared_transactions = 5', sub_conf => 'max_prepared_transactions = 5');

ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY, v text)');
$pub->safe_psql('postgres', q{CREATE PUBLICATION pub FOR TABLE t;
	SELECT pg_create_logical_replication_slot('sub', 'pgoutput', false, true)});
my $connection = $pub->connstr . ' dbname=postgres';
$sub->safe_psql('postgres', "CREATE SUBSCRIPTION sub CONNECTION '$connection' PUBLICATION pub
	WITH (create_slot = false, slot_name = 'sub', copy_data = false)");

$pub->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'before')});
ppa_catchup($pub, $sub, 'sub');
my $offset = ppa_log_pos($sub);
$pub->safe_psql('postgres', q{BEGIN; INSERT INTO t VALUES (2, 'prepared'); PREPARE TRANSACTION 'p'});
ppa_wait_for($sub, 'SELECT count(*) = 1 FROM pg_prepared_xacts', 'the transaction to be prepared here');
$pub->safe_psql('postgres', q{COMMIT PREPARED 'p'; });
$pub->safe_psql('postgres', q{INSERT INTO t VALUES (3, 'after')});
ppa_catchup($pub, $sub, 'sub');
ppa_same_table($pub, $sub, 't', 'equal');

SKIP:
{
	skip 'built in', 3 if ppa_builtin();
	ok(ppa_log_match($sub, qr/pg_parallel_apply hands subscription "sub" back to the built-in apply worker/, $offset),
		'it is handed back');
	ok(ppa_log_match($sub, qr/pg_parallel_apply leaves subscription "sub" to the built-in apply worker: /, $offset),
		'and left alone from then on');
	is(ppa_log_count($sub, qr/ERROR: /, $offset), 0, 'without an error');
}

done_testing();
