# 088_idle_workers.pl: workers that have had nothing to do for a minute.
# Shows: they are given back, all but the first; the next load has workers again, and nothing is lost.
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
ppa_subscribe($pub, $sub);
plan skip_all => 'there are no workers in serial mode' unless ppa_parallel($sub);
my $offset = ppa_log_pos($sub);
fault_setting($sub, 'workers', 4);
fault_setting($sub, 'group_commit', 'off');
fault_warm_up($pub, $sub);
my %before = map { $_ => 1 } fault_workers($sub);
is(scalar keys %before, 4, 'all workers have started');

my $count = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'};
my $first = q{SELECT pid FROM parallel_apply.stat_worker WHERE worker = 0};
my $pid = ppa_views($sub) ? $sub->safe_psql('postgres', $first) : '';
ppa_wait_for($sub, "SELECT ($count) = 1", 'the end of all workers but one');
my ($stays) = fault_workers($sub);
ok($before{$stays}, 'one of them has stayed');
is($stays, $pid, 'it is the first') if $pid ne '';

fault_warm_up($pub, $sub);
is($sub->safe_psql('postgres', $count), 4, 'they are there again when there is something to do');
fault_applied($pub, $sub, $offset, 'in the end');
ppa_same_table($pub, $sub, 'gate', 'equal');
is(ppa_error_count($sub), 0, 'no apply error');
fault_no_crash($pub, $sub);
done_testing();
