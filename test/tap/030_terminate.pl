# 030_terminate.pl: the walsender, the apply worker and, in parallel mode, its workers are terminated at random moments under load.
# Shows: whatever moment it is, each transaction is applied exactly once. ROUNDS (default 20), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my $rounds = fault_env('ROUNDS', 20);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => "fsync = on\nlogical_decoding_work_mem = 64kB",
	sub_conf => "fsync = on\nwal_retrieve_retry_interval = 50ms");
fault_schema($pub, $sub);
ppa_subscribe($pub, $sub, with => 'streaming = on');

my $load = fault_load_start($pub, rate => 1000);
my %killed = (walsender => 0, worker => 0, parallel => 0);
my @targets = (qw(walsender worker), ppa_parallel($sub) ? 'parallel' : ());
foreach my $round (1 .. $rounds)
{
	# The last kill must have been survived, and something applied since, before the next moment is drawn.
	fault_progress($sub);
	fault_pause(0, 0.4);
	my $target = $targets[ rand @targets ];
	my %from = (
		walsender => "pg_stat_replication WHERE application_name = 'sub'",
		worker => "pg_stat_subscription WHERE subname = 'sub' AND relid IS NULL AND pid IS NOT NULL",
		parallel => "(SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker' ORDER BY random() LIMIT 1) w");
	my $node = $target eq 'walsender' ? $pub : $sub;
	my $count = $node->safe_psql('postgres', "SELECT count(pg_terminate_backend(pid)) FROM $from{$target}");
	$killed{$target} += $count;
	note "round $round: terminated $count $target";
}
fault_load_stop($load);
ppa_catchup($pub, $sub);

cmp_ok($killed{walsender} + $killed{worker} + $killed{parallel}, '>=', $rounds / 2, 'the rounds met running processes');
note "terminated: $killed{walsender} walsenders, $killed{worker} apply workers, $killed{parallel} workers beside them";
fault_equal($pub, $sub, 'after the terminations');
is(fault_missing($sub), 0, 'no row was missing') unless ppa_builtin();
fault_no_crash($pub, $sub);
done_testing();
