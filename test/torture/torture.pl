# torture.pl: the torture test. Run it by test/torture/torture, which says how.
#
# Rounds of about 25 seconds. Each has a random schema (TortureSchema), eight clients on the publisher, local sessions on
# the subscriber (TortureLoad), and servers that are disturbed at random moments (TortureChaos). Everything but timing
# follows from the seed of the round, which is that of the first plus the number of rounds before.
#
# Always (TortureCheck):
# - Equal in the end: all tables, with one audit row per row change where a trigger fires.
# - Every snapshot of the subscriber is a state that the publisher had. Some transactions take a number in their last
#   statements, under the lock of one row, and write it to three tables: a snapshot has the same numbers 1 .. n in each. Sums
#   over two tables stay 0; each client writes two tables in turn; no child without its parent; no unique value twice.
# - After a crash the origin, and what was confirmed to the publisher, agree with the numbers that are there.
# - No crash, and no error in the log that the chaos does not explain.
use strict;
use warnings;
use FindBin;
use lib ($FindBin::RealBin, "$FindBin::RealBin/../tap");
use Getopt::Long;
use PostgreSQL::Test::Utils;
use PpaTest;
use Test::More;
use Time::HiRes qw(time usleep);
use TortureChaos;
use TortureCheck;
use TortureLoad;
use TortureSchema;

my %opt = (seconds => 60, seed => int(time()) % 1_000_000, deps => 'table', chaos => 1);
GetOptions(\%opt, 'seconds=i', 'rounds=i', 'seed=i', 'deps=s', 'workers=i', 'keep', 'chaos!', 'sabotage=s')
  or give_up('see test/torture/torture --help');

# A debug switch: breaks something, so that the round must fail. Which check notices each is said in the comment.
my %sabotage = (
	# the comparison of tables
	row => 'DELETE FROM bank1 WHERE id = 1; INSERT INTO bank1 VALUES (1, 0)',
	# the readers
	number => 'DELETE FROM chk_a WHERE n = (SELECT max(n) / 2 FROM chk_a)',
	# the comparison of the audit
	audit => "INSERT INTO audit VALUES ('INSERT', NULL, 'nobody')",
	# the log: a duplicate key stops the subscription
	error => 'DELETE FROM own WHERE k > 0; INSERT INTO own (k, v, u) SELECT 1000 + g, 0, g FROM generate_series(1, 300) g ON CONFLICT DO NOTHING',
	# the log: a crash
	crash => undef,
	# the check of the origin
	origin => undef,
	# the local truths: an update of a replicated row that apply has undone
	local => 'UPDATE local_n SET local_count = local_count - 1 WHERE id = 7',
	# missing rows
	missing => 'DELETE FROM local_n WHERE id > 20',
);
give_up('--sabotage: one of ' . join(', ', sort keys %sabotage)) if $opt{sabotage} && !exists $sabotage{ $opt{sabotage} };
give_up('--deps: table, none or all') unless $opt{deps} =~ /^(?:table|none|all)$/;
$SIG{$_} = sub { die "torture: interrupted\n" } for qw(INT TERM HUP);

# A copied table keeps an origin on the subscriber until the apply worker has caught up with it.
my ($pub, $sub) = ppa_pair(
	pub_conf => "max_replication_slots = 20\nmax_wal_senders = 20\nlogical_decoding_work_mem = 64kB\nfsync = on\n",
	sub_conf => "synchronous_commit = off\nfsync = on\nmax_sync_workers_per_subscription = 6\nmax_replication_slots = 60\n");
# Which of our settings this build has; with the built-in worker none.
my %settings = map { $_ => 1 } grep {
	$sub->safe_psql('postgres', "SELECT current_setting('pg_parallel_apply.$_', true) IS NOT NULL") eq 't'
} qw(subscriptions workers group_transactions group_bytes group_commit debug_dependencies debug_stop);
if ($opt{deps} ne 'table')
{
	give_up("--deps $opt{deps}: this build has no pg_parallel_apply.debug_dependencies") unless $settings{debug_dependencies};
	$sub->append_conf('postgresql.conf', "pg_parallel_apply.debug_dependencies = $opt{deps}");
	$sub->restart;
}

my $started = time();
my $round = 0;
my $longest = 0;
while (1)
{
	my $begin = time();
	last unless one_round($opt{seed} + $round++);
	$longest = time() - $begin if time() - $begin > $longest;
	last if $opt{rounds} ? $round >= $opt{rounds} : time() - $started + 0.5 * $longest >= $opt{seconds};
}
done_testing();

# -------------------------------------------------------------------------------------------------------------- one round

# STDERR is the log of the test.
sub give_up
{
	diag $_[0];
	exit 64;
}

sub say_progress
{
	my ($run, $text) = @_;
	diag sprintf('%5.1f s  %s', time() - $run->{begin}, $text);
	return;
}

sub replay_command
{
	my ($seed) = @_;
	return "test/torture/torture --rounds 1 --seed $seed"
	  . ($opt{deps} ne 'table' ? " --deps $opt{deps}" : '')
	  . (defined $opt{workers} ? " --workers $opt{workers}" : '')
	  . ($opt{chaos} ? '' : ' --no-chaos')
	  . (ppa_builtin() ? '  (with PPA_BUILTIN=1)' : '');
}

# True if nothing was wrong.
sub one_round
{
	my ($seed) = @_;
	my $run = {
		seed => $seed, begin => time(), pub => $pub, sub => $sub, bad => [], settings => \%settings, ready => 0, since => 0,
		log_pos => { map { $_->name => ppa_log_pos($_) } $pub, $sub }, done => {}, origin_checks => 0, most_workers => 0, last => ''
	};
	$run->{log} = sub { $run->{last} = $_[0]; printf("%5.1f s  %s\n", time() - $run->{begin}, $_[0]) };
	my $ok = eval {
		set_up($run);
		disturb($run);
		wind_up($run);
		tear_down($run) unless @{ $run->{bad} };
		1;
	};
	my $error = $@;
	torture_load_stop($run->{load}) if $run->{load};
	push @{ $run->{bad} }, "the test died: $error" unless $ok;
	die $error if !$ok && $error =~ /interrupted/;
	my %counts = $run->{load} ? torture_load_counts($run->{load}) : ();
	my $done = join(', ', map { "$_ $run->{done}{$_}" } sort keys %{ $run->{done} });
	say_progress($run, sprintf('%d transactions (%d failed), %d rows equal, %d local, %d snapshots, %d origin checks; %s',
		@counts{qw(pub failed)}, $run->{rows} // 0, @counts{qw(sub reader)}, $run->{origin_checks}, $done)) if %counts;
	say_progress($run, "at most $run->{most_workers} apply workers; $run->{counters}") if $run->{counters};
	ok(!@{ $run->{bad} }, "round $round, seed $seed") and return 1;
	my %seen;
	my @bad = grep { !$seen{$_}++ } @{ $run->{bad} };
	diag "WRONG: $_" foreach @bad > 20 ? (@bad[ 0 .. 19 ], '... and ' . (@bad - 20) . ' more') : @bad;
	diag 'replay: ' . replay_command($seed);
	return 0;
}

sub set_up
{
	my ($run) = @_;
	srand(torture_derive($run->{seed}, 'schema'));
	# Tables are empty at first, or copied, or copied while the load runs.
	$run->{start} = (qw(empty empty copied loaded))[ rand 4 ];
	$run->{schema} = torture_schema();
	my $local = (0, 1, 2, 2, 2)[ rand 5 ];
	# Its lookup misses rows that local sessions move: an open bug in all stock versions.
	$local = 1 if ppa_builtin() && $local > 1;
	$run->{local} = $local;
	my $commit = rand() < 0.5 ? 'on' : 'off';
	$run->{seconds} = 12 + int(rand(6));

	my $names = join(', ', @{ $run->{schema}{names} });
	$pub->safe_psql('postgres', $run->{schema}{pub});
	$pub->safe_psql('postgres', "CREATE PUBLICATION pub FOR TABLE $names WITH ($run->{schema}{pubwith})");
	$sub->safe_psql('postgres', "CREATE EXTENSION amcheck;\n" . $run->{schema}{sub});
	$sub->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
	ppa_set($sub, 'pg_parallel_apply.workers', $opt{workers}) if defined $opt{workers} && $settings{workers};
	ppa_set($pub, 'synchronous_commit', $commit);
	enforce($run) unless $run->{start} eq 'loaded';
	$pub->safe_psql('postgres', $run->{schema}{rows}) unless $run->{start} eq 'empty';
	my $with = $run->{schema}{subwith} . ($run->{start} eq 'empty' ? ', copy_data = false' : '');
	$sub->safe_psql('postgres',
		"CREATE SUBSCRIPTION sub CONNECTION '" . $pub->connstr . " dbname=postgres' PUBLICATION pub WITH ($with)");
	$pub->safe_psql('postgres', $run->{schema}{rows}) if $run->{start} eq 'empty';
	become_ready($run, 60) or die "tables are not ready\n" if $run->{start} ne 'loaded';

	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $load = torture_load_start(
		pub => $pub, sub => $sub, schema => $run->{schema}, seed => $run->{seed}, dir => $dir, local => $local);
	$run->{load} = $load;
	torture_readers_start($load) if $run->{ready};
	diag "round $round: " . replay_command($run->{seed});
	diag "         tables $run->{start}, local $local, $load->{features}, $run->{schema}{features}";
	return;
}

# Foreign keys, from when both tables are there: they are copied one by one, and with any worker a child that is
# applied before its parent is copied would be an error.
sub enforce
{
	my ($run) = @_;
	$sub->safe_psql('postgres', $_) foreach @{ $run->{schema}{enforce} };
	return;
}

# From here on each snapshot is a state of the publisher. Tables copied one by one were not.
sub become_ready
{
	my ($run, $seconds) = @_;
	return 1 if $run->{ready};
	torture_wait_ready($run, $seconds) or return 0;
	$run->{since} = $pub->safe_psql('postgres', 'SELECT coalesce(max(n), 0) FROM chk_counter');
	push @{ $run->{bad} }, torture_wait_applied($run);
	enforce($run) if $run->{start} eq 'loaded';
	$run->{ready} = 1;
	torture_readers_start($run->{load}) if $run->{load};
	return 1;
}

sub disturb
{
	my ($run) = @_;
	srand(torture_derive($run->{seed}, 'chaos'));
	my @tables = map { $_->{name} } grep { !$_->{ordered} && !$_->{parts} && !$_->{pub_parts} } @{ $run->{schema}{tables} };
	my @plan = torture_chaos_plan(seconds => $run->{seconds}, workers => $opt{workers}, tables => \@tables, calm => !$opt{chaos});
	my $end = time() + $run->{seconds};
	my $next = time() + ($plan[0] // [$run->{seconds}])->[0];
	my $report = time() + 2;
	my $sabotage = time() + $run->{seconds} / 2;
	while (time() < $end && !@{ $run->{bad} })
	{
		usleep(100_000);
		if (@plan && time() >= $next)
		{
			my (undef, $action, $argument) = @{ shift @plan };
			torture_chaos_do($run, $action, $argument);
			$next = time() + $plan[0][0] if @plan;
		}
		become_ready($run, 0);
		if ($opt{sabotage} && time() > $sabotage && $run->{ready})
		{
			$sabotage = $end + 1000;
			break_something($run);
		}
		watch($run, $report) and $report = time() + 3;
	}
	return;
}

# Looks at logs and readers, keeps the backlog in bounds, tells how it goes when it is time. Returns true if it did.
sub watch
{
	my ($run, $report) = @_;
	push @{ $run->{bad} }, torture_log_check($run), split /\n/, torture_load_violations($run->{load});
	return 0 if time() < $report;
	my ($lag, $numbers) = split /\|/, $pub->safe_psql('postgres', <<'SQL');
SELECT pg_current_wal_lsn() - coalesce((SELECT min(replay_lsn) FROM pg_stat_replication WHERE application_name = 'sub'), confirmed_flush_lsn),
	(SELECT max(n) FROM chk_counter)
FROM pg_replication_slots WHERE slot_name = 'sub'
SQL
	my $workers = $sub->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'");
	$run->{most_workers} = $workers if $workers > $run->{most_workers};
	# What is behind is applied in the end: some seconds' worth.
	$lag = ($lag || 0) / 1024 / 1024;
	torture_load_pause($run->{load}, 1) if $lag > 40;
	torture_load_pause($run->{load}, 0) if $lag < 10;
	my %counts = torture_load_counts($run->{load});
	say_progress($run, sprintf('%d transactions, number %d, %.1f MB behind, %d apply workers, %d snapshots; last: %s',
		$counts{pub}, $numbers // 0, $lag, $workers, $counts{reader}, $run->{last}));
	return 1;
}

sub wind_up
{
	my ($run) = @_;
	return if @{ $run->{bad} };
	torture_load_stop($run->{load}, 'pub');
	become_ready($run, 60) or push @{ $run->{bad} }, 'tables are not synchronised within 60 s';
	push @{ $run->{bad} }, torture_wait_applied($run) unless @{ $run->{bad} };
	torture_load_stop($run->{load});
	push @{ $run->{bad} }, torture_log_check($run), split /\n/, torture_load_violations($run->{load});
	push @{ $run->{bad} }, torture_compare($run) unless @{ $run->{bad} };
	# since the last restart
	$run->{counters} = $sub->safe_psql('postgres', <<'SQL') if ppa_views($sub);
SELECT string_agg(key || ' ' || value, ', ') FROM parallel_apply.stat_subscription s JOIN pg_subscription p ON p.oid = s.subid, jsonb_each_text(to_jsonb(s)) j
WHERE key ~ '^(groups|group_replays|ordered|relations_ordered|dependency|turn|retries)' AND value <> '0'
SQL
	return;
}

sub tear_down
{
	my ($run) = @_;
	$sub->safe_psql('postgres', 'DROP SUBSCRIPTION sub');
	$pub->safe_psql('postgres', 'DROP PUBLICATION pub');
	$_->safe_psql('postgres', 'SET client_min_messages = warning; DROP SCHEMA public CASCADE; CREATE SCHEMA public') foreach $pub, $sub;
	push @{ $run->{bad} }, torture_log_check($run);
	return;
}

sub break_something
{
	my ($run) = @_;
	my $what = $opt{sabotage};
	say_progress($run, "sabotage: $what");
	if ($what eq 'crash')
	{
		kill 'KILL', $sub->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
	}
	elsif ($what eq 'origin')
	{
		# Confirmed, but never applied.
		ppa_disable($sub);
		$sub->safe_psql('postgres', "SELECT pg_replication_origin_advance('pg_' || oid, '"
			  . $pub->lsn('insert') . "') FROM pg_subscription WHERE subname = 'sub'");
		$pub->safe_psql('postgres', "SELECT pg_sleep(0.5)");
		torture_restart($run, $sub, 'immediate');
	}
	else
	{
		$sub->safe_psql('postgres', $sabotage{$what});
	}
	return;
}
