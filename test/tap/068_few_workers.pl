# 068_few_workers.pl: fewer background workers than pg_parallel_apply.workers asks for, from some to none beside the server's
# own, for one subscription and for several.
# Shows: everything is applied, by those that there are or by the leader itself; one line in the log names the setting to
# raise; it is never an error.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(pub_conf => 'synchronous_commit = off', sub_conf => 'wal_retrieve_retry_interval = 50ms');
fault_schema($pub, $sub);
ppa_subscribe($pub, $sub);

# The launcher and the leader take two.
foreach my $most (10, 4, 3, 2)
{
	$sub->append_conf('postgresql.conf', "max_worker_processes = $most");
	my $offset = ppa_log_pos($sub);
	my $load = fault_load_start($pub, rate => 1000);
	$sub->restart;
	fault_progress($sub);
	fault_pause(1.5, 1.5);
	my $workers = fault_workers($sub);
	fault_load_stop($load);
	ppa_backlog($pub, $sub, 'sub', sub {
		my $more = fault_load_start($pub);
		fault_pause(0.5, 0.5);
		fault_load_stop($more);
	});
	fault_applied($pub, $sub, $offset, "max_worker_processes = $most");
	fault_equal($pub, $sub, "max_worker_processes = $most");
	is(ppa_error_count($sub), 0, "max_worker_processes = $most: no apply error");
	next unless ppa_parallel($sub);
	cmp_ok($workers, '<=', $most - 2, "max_worker_processes = $most: at most as many workers as there are ($workers)");
	my @lines = grep { $_->{text} =~ /pg_parallel_apply|apply worker/ && join(' ', $_->{text}, $_->{detail} // '', $_->{hint} // '') =~ /max_worker_processes/ }
	  ppa_log_entries($sub, $offset);

	# How many workers are asked for depends on the load.
	my %lines;
	$lines{ $_->{pid} }++ for @lines;
	cmp_ok(scalar @lines, '>=', 1, "max_worker_processes = $most: it is in the log") if $most < 4;
	is(join(' ', grep { $lines{$_} > 1 } keys %lines), '', "max_worker_processes = $most: at most once for each leader");
	is(join(' ', grep { $_ ne 'LOG' } map { $_->{level} } @lines), '', "max_worker_processes = $most: as LOG lines");
}

# Three subscriptions share what there is: the launcher, three leaders, and two more.
my @more = qw(sub_two sub_three);
foreach my $name (@more)
{
	ppa_both($pub, $sub, "CREATE TABLE t_$name (id int PRIMARY KEY, n int)");
	$pub->safe_psql('postgres', "INSERT INTO t_$name SELECT g, 0 FROM generate_series(1, 100) g");
}
$sub->append_conf('postgresql.conf', 'max_worker_processes = 6');
$sub->restart;
my $offset = ppa_log_pos($sub);
ppa_subscribe($pub, $sub, name => $_, publication => "pub_$_", tables => "TABLE t_$_") for @more;
my $load = fault_load_start($pub, rate => 500);
my $other = fault_load_start($pub, clients => 2, rate => 1000, scripts => [ map { [ <<"SQL" ] } @more ]);
\\set id random(1, 100)
UPDATE t_$_ SET n = n + 1 WHERE id = :id;
SQL
fault_pause(2, 2);
fault_load_stop($_) for $load, $other;
fault_applied($pub, $sub, $offset, "three subscriptions: $_", $_) for 'sub', @more;
fault_equal($pub, $sub, 'three subscriptions');
ppa_same_table($pub, $sub, "t_$_", "three subscriptions: t_$_ equal") for @more;
is(ppa_error_count($sub, $_), 0, "three subscriptions: no apply error of $_") for 'sub', @more;
fault_no_crash($pub, $sub);
done_testing();
