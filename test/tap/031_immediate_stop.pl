# 031_immediate_stop.pl: immediate stop and start of the subscriber and of the publisher under load, fsync on, with the
# subscription's synchronous_commit off and on.
# Shows: data and replication origin come back together, each transaction is applied exactly once.
# ROUNDS: stops of the subscriber (default 10), PUB_ROUNDS: of the publisher (default 5), per setting. SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my $rounds = fault_env('ROUNDS', 10);
my $pub_rounds = fault_env('PUB_ROUNDS', 5);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => "fsync = on\nlogical_decoding_work_mem = 64kB",
	sub_conf => "fsync = on\nwal_retrieve_retry_interval = 50ms");
fault_schema($pub, $sub);
ppa_subscribe($pub, $sub, with => 'streaming = on');

foreach my $synchronous_commit ('off', 'on')
{
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION sub SET (synchronous_commit = $synchronous_commit)");
	my $load = fault_load_start($pub, rate => 500);

	# Subscriber and publisher in an order drawn by chance.
	my @victims = map { $_->[1] } sort { $a->[0] <=> $b->[0] } map { [ rand(), $_ ] } ($sub) x $rounds, ($pub) x $pub_rounds;
	foreach my $node (@victims)
	{
		fault_load_resume($load);
		fault_progress($sub);
		fault_pause(0, 0.4);
		$node->stop('immediate');
		$node->start;
	}
	fault_load_resume($load);
	fault_progress($sub);
	fault_load_stop($load);
	ppa_catchup($pub, $sub);
	fault_equal($pub, $sub, "synchronous_commit $synchronous_commit");
}
is(fault_missing($sub), 0, 'no row was missing since the last start') unless ppa_builtin();
fault_no_crash($pub, $sub);
done_testing();
