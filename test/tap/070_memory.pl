# 070_memory.pl: private memory of all processes that apply a subscription in parallel: the leader, which keeps what may have
# to be applied again, and its workers.
# Shows: it is flat over many transactions, many relations and many retries, and a large transaction costs it only for a
# while. TRANSACTIONS per pass (default 20000), PASSES (default 4).
# Bound: 3 MB per process over all passes but the first two, in which caches are filled.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my $transactions = fault_env('TRANSACTIONS', 20_000);
my $passes = fault_env('PASSES', 4);
my $bound_kb = 3 * 1024;
my $clients = 4;
my $relations = 40;
my ($pub, $sub) = ppa_pair(
	pub_conf => "synchronous_commit = off\nautovacuum = off",
	sub_conf => "autovacuum = off\ndeadlock_timeout = 10min");
ppa_both($pub, $sub, <<"SQL");
SELECT format('CREATE TABLE rel_%s (id int PRIMARY KEY, n int, code text UNIQUE)', g) FROM generate_series(1, $relations) g \\gexec
CREATE TABLE hot (id int PRIMARY KEY, n int);
CREATE TABLE large (id int PRIMARY KEY, note text);
SQL
$pub->safe_psql('postgres', 'INSERT INTO hot SELECT g, 0 FROM generate_series(1, 3) g');
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);
my $leader = ppa_worker_pid($sub);

# Its workers must stay, so that their memory can be compared.
sub memory
{
	my %kb;
	foreach my $pid ($leader, fault_workers($sub))
	{
		$kb{$pid} = fault_private_kb($pid);
	}
	return \%kb;
}

my @load = (clients => $clients, script => <<"SQL");
\\set t random(1, $relations)
\\set id :client_id * 1000 + random(1, 100)
INSERT INTO rel_:t VALUES (:id, 0, 'code' || :id) ON CONFLICT (id) DO UPDATE SET n = rel_:t.n + 1;
UPDATE hot SET n = n + 1 WHERE id = 1 + :id % 3;
BEGIN; DELETE FROM rel_:t WHERE id = :id; INSERT INTO rel_:t VALUES (:id, 1, 'code' || :id); COMMIT;
DELETE FROM rel_:t WHERE id = :id;
INSERT INTO rel_:t VALUES (:id + 500, 2, 'code' || :id) ON CONFLICT DO NOTHING;
DELETE FROM rel_:t WHERE id = :id + 500;
SQL

sub compare_memory
{
	my ($what, $before, $after) = @_;
	my ($most, $who) = (0, 'nobody');
	foreach my $pid (keys %$before)
	{
		next unless defined $after->{$pid};
		my $more = $after->{$pid} - $before->{$pid};
		($most, $who) = ($more, $pid == $leader ? 'leader' : 'worker') if $more > $most;
	}
	cmp_ok($most, '<', $bound_kb, "$what: less than $bound_kb kB more in each process ($who)");
	return;
}

my @memory;
foreach my $pass (1 .. $passes)
{
	# One half as a backlog, which a lock holds back: a new leader would begin anew. The other as it comes.
	my ($local, $local_pid) = fault_session($sub);
	$local->query_safe('BEGIN; LOCK TABLE hot IN SHARE MODE');
	$pub->safe_psql('postgres', 'UPDATE hot SET n = n + 1');
	fault_blocked($sub, $leader, $local_pid);
	my $each = int($transactions / 2 / $clients / 6);
	ppa_load_finish(ppa_load_start($pub, @load, transactions => $each));
	$local->query_safe('COMMIT');
	$local->quit;
	ppa_load_finish(ppa_load_start($pub, @load, transactions => $each));
	fault_applied($pub, $sub, $offset, "pass $pass");
	push @memory, memory();
	diag "pass $pass: " . join(', ', map { "$_ kB" } sort { $b <=> $a } values %{ $memory[-1] });
}
is(ppa_worker_pid($sub), $leader, 'the same leader all the time');
cmp_ok(scalar(keys %{ $memory[-1] }), '>', 1, 'with workers') if ppa_parallel($sub);
compare_memory('after ' . ($passes - 2) . ' more passes', $memory[1], $memory[-1]);

# ---- a large transaction, twice: what the first needs may stay
my @large;
foreach my $round (1, 2)
{
	$pub->safe_psql('postgres', "INSERT INTO large SELECT $round * 100000 + g, repeat('x', 1000) FROM generate_series(1, 20000) g");
	$pub->safe_psql('postgres', join '', map { "UPDATE hot SET n = n + 1 WHERE id = 1; INSERT INTO rel_1 VALUES (100000 * $round + $_, 0, 'large $round $_');" } 1 .. 200);
	fault_applied($pub, $sub, $offset, "20 MB in a transaction, $round");
	push @large, memory();
	diag "20 MB in a transaction: " . join(', ', map { "$_ kB" } sort { $b <=> $a } values %{ $large[-1] });
}
compare_memory('the second large transaction', @large);
my $total = 0;
$total += $_ for values %{ $large[-1] };
cmp_ok($total, '<', 20 * 1024 * scalar(keys %{ $large[-1] }) + 20 * 1024, 'after it: less than 20 MB per process and 20 MB');
ppa_same_table($pub, $sub, $_, "$_ equal") for qw(hot large rel_1 rel_2 rel_40);
note fault_stats($sub, 'sub', qw(groups groups_aborted retries_unique retries_missing queued_bytes));
unlike(ppa_log($sub, $offset), qr/WARNING: .*(?:leak|refcount)/, 'no leak warning');
fault_no_crash($pub, $sub);
done_testing();
