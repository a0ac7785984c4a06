# 053_stop_under_load.pl: DISABLE, a fast shutdown, and other settings of pg_parallel_apply.workers, under full load.
# Shows: each ends soon with a backlog waiting (nothing is drained), what is applied is where the origin stands, nothing is
# lost or doubled. The times are printed; the verdict has only a generous bound. ROUNDS (default 3), SEED.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time);

my $bound = 20;
my $rounds = fault_env('ROUNDS', 3);
fault_seed();
my ($pub, $sub) = ppa_pair(
	pub_conf => 'synchronous_commit = off',
	sub_conf => "wal_retrieve_retry_interval = 50ms");
fault_schema($pub, $sub);
ppa_subscribe($pub, $sub);

# No rate: more than can be applied, up to what is enough for a round.
my $load = fault_load_start($pub);

sub backlog
{
	my $origin = fault_origin($sub);
	my $bytes = $pub->safe_psql('postgres', "SELECT pg_current_wal_insert_lsn() - '$origin'");
	kill $bytes > 10e6 ? 'STOP' : 'CONT', $load->{pid};
	return $bytes;
}

# It goes on, also when it had enough.
sub progress
{
	kill 'CONT', $load->{pid};
	fault_progress($sub);
	return;
}

# Runs $code, says how long it took.
sub timed
{
	my ($what, $code) = @_;
	my $bytes = backlog();
	my $start = time();
	my $ok = $code->();
	diag sprintf('%-20s %.2f s, backlog %.1f MB', $what, time() - $start, $bytes / 1e6);
	return ok($ok, "$what ends");
}

foreach my $round (1 .. $rounds)
{
	progress();
	fault_pause(0.2, 0.8);
	timed('DISABLE', sub {
		my ($status) = $sub->psql('postgres', "SET statement_timeout = '${bound}s'; ALTER SUBSCRIPTION sub DISABLE");
		local $PostgreSQL::Test::Utils::timeout_default = $bound;
		ppa_disable($sub);
		return $status == 0;
	});
	fault_no_workers($sub, 'DISABLE: no worker is left');
	my $rows = $sub->safe_psql('postgres', 'SELECT count(*) FROM fault_log');
	my $origin = fault_origin($sub);
	fault_pause(0, 0.2);
	is($sub->safe_psql('postgres', 'SELECT count(*) FROM fault_log'), $rows, 'DISABLE: nothing is applied afterwards');
	is(fault_origin($sub), $origin, 'DISABLE: the origin stands');
	ppa_enable($sub);

	progress();
	fault_pause(0.2, 0.8);
	timed('fast shutdown', sub {
		local $ENV{PGCTLTIMEOUT} = $bound;
		return $sub->stop('fast', fail_ok => 1);
	});
	$sub->start;
}

if (ppa_parallel($sub))
{
	foreach my $workers (0, 4, 1, 8, 0, 2, undef)
	{
		fault_setting($sub, 'workers', $workers);
		progress();
		fault_pause(0.2, 0.4);
		progress();
		my $most = $workers // ppa_parallel($sub);
		ppa_wait_for($sub, "SELECT count(*) <= $most FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'",
			"at most $most workers");
		pass("workers = $most: applied, and no more workers than that");
	}
}
kill 'CONT', $load->{pid};
fault_load_stop($load);
ppa_catchup($pub, $sub);
fault_equal($pub, $sub, 'in the end');
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
