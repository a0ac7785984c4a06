# 051_review_c2_death_and_publish.pl: review findings C2 and T:H8. An apply worker dies between its commit and the moment at
# which the others learn of it, right before its commit, and at random moments under load.
# Shows: nothing is applied twice or lost; losing a worker is no apply error: it is not counted, and disable_on_error does
# not disable the subscription. ROUNDS of random kills (default 10), SEED.
# With the serial build and the built-in worker the one apply worker is terminated.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $rounds = fault_env('ROUNDS', 10);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => 'synchronous_commit = off',
	sub_conf => "wal_retrieve_retry_interval = 50ms");
fault_schema($pub, $sub);
ppa_subscribe($pub, $sub, with => 'disable_on_error = true');

my $offset = ppa_log_pos($sub);
my $load = fault_load_start($pub, rate => 1000);
SKIP:
{
	skip 'no parallel mode, or no pg_parallel_apply.debug_stop', 4 unless ppa_parallel($sub) && fault_knows($sub, 'debug_stop');

	# The hook strikes once per start of the server.
	foreach my $stop ('die-after-commit', 'die-before-commit', 'die-after-commit')
	{
		$sub->restart;
		fault_progress($sub);
		my $leader = ppa_worker_pid($sub);
		fault_setting($sub, 'debug_stop', $stop);
		fault_replaced($sub, 'sub', $leader);
		fault_progress($sub);
		fault_setting($sub, 'debug_stop');
		pass("$stop: a new leader goes on");
	}
	is($sub->safe_psql('postgres', q{SELECT subenabled FROM pg_subscription}), 't', 'the subscription is not disabled');
}

my $terminated = 0;
foreach my $round (1 .. $rounds)
{
	fault_progress($sub);
	fault_pause(0, 0.3);
	my $leader = ppa_worker_pid($sub);
	my @workers = fault_workers($sub);
	my $pid = @workers ? $workers[ rand @workers ] : $leader;
	next unless $sub->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") eq 't';
	$terminated++;
	fault_replaced($sub, 'sub', $leader);
}
cmp_ok($terminated, '>', 0, 'workers were terminated');
fault_progress($sub);
fault_load_stop($load);
ppa_catchup($pub, $sub);
fault_equal($pub, $sub, 'after the deaths');
is(ppa_error_count($sub), 0, 'no apply error counted');
is($sub->safe_psql('postgres', 'SELECT subenabled FROM pg_subscription'), 't', 'the subscription is enabled in the end');
is(fault_missing($sub), 0, 'no row was missing since the last start') unless ppa_builtin();
my @errors = grep { $_->{level} eq 'ERROR' && $_->{backend} =~ /logical replication|pg_parallel_apply/ } ppa_log_entries($sub, $offset);
is(join("\n", map { "$_->{text}" } @errors), '', 'and no ERROR logged');
fault_no_crash($pub, $sub);
done_testing();
