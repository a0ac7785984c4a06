# TortureChaos.pm: what happens to the servers during a round.
#
# $run is the round, see torture.pl: pub, sub, bad, ready, settings, local, log.
#
#   torture_chaos_plan(%opt)     -> list of [pause before it in seconds, action, argument], long enough for a round, made
#                                with rand(): seed it before. tables: names of plain tables; workers: a number that stays;
#                                calm: do nothing
#   torture_chaos_do($run, $action, $argument)   does one of them; appends to $run->{bad} what it finds wrong
#   torture_restart($run, $node, $mode)          stops and starts a server; a subscriber stopped at once is checked
package TortureChaos;

use strict;
use warnings;
use Exporter 'import';
use FindBin;
use lib $FindBin::RealBin;
use PpaTest;
use TortureCheck;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(torture_chaos_plan torture_chaos_do torture_restart);

my %actions = (
	end_walsender => [ 10, sub { end_backend($_[0]{pub}, 'walsender') } ],
	end_leader => [ 12, sub { end_backend($_[0]{sub}, 'logical replication worker') } ],
	end_worker => [ 14, sub { end_backend($_[0]{sub}, 'pg_parallel_apply worker') } ],
	sub_immediate => [ 8, sub { torture_restart($_[0], $_[0]{sub}, 'immediate') } ],
	sub_fast => [ 3, sub { torture_restart($_[0], $_[0]{sub}, 'fast') } ],
	pub_immediate => [ 6, sub { torture_restart($_[0], $_[0]{pub}, 'immediate') } ],
	pub_fast => [ 2, sub { torture_restart($_[0], $_[0]{pub}, 'fast') } ],
	cancel_leader => [ 3, sub { end_backend($_[0]{sub}, 'logical replication worker', 'pg_cancel_backend') } ],
	cancel_worker => [ 3, sub { end_backend($_[0]{sub}, 'pg_parallel_apply worker', 'pg_cancel_backend') } ],
	hand_back => [ 4, \&hand_back ],
	die_in_turn => [ 5, \&die_in_turn ],
	settings => [ 20, \&change_settings ],
	stall => [ 16, \&stall ],
	disable => [ 8, \&disable_enable ],
	checkpoint => [ 4, sub { $_[0]{sub}->safe_psql('postgres', 'CHECKPOINT') } ],
	vacuum => [ 5, sub { any_of($_[0]{sub}, "VACUUM $_[1]", "ALTER TABLE $_[1] ALTER v SET DEFAULT 0") } ],
	index => [ 3, \&index_concurrently ],
	trigger => [ 8, \&toggle_trigger ],
	announce => [ 5, sub { any_of($_[0]{pub}, "ALTER TABLE $_[1] ALTER v SET STATISTICS " . int(rand(100))) } ],
);

# What a local session holds while groups pile up behind the one that wants it. One lock: no deadlock is possible.
my @stalls = (
	'SELECT 1 FROM chk_counter FOR UPDATE',
	'SELECT 1 FROM cl_a WHERE client = 3 FOR UPDATE',
	'SELECT 1 FROM chain WHERE id = 5 FOR UPDATE',
	'SELECT 1 FROM bank1 WHERE id = 5 FOR UPDATE',
	'SELECT 1 FROM hot WHERE k = 2 FOR UPDATE',
	'LOCK TABLE cl_b IN SHARE MODE',
	'LOCK TABLE g1 IN SHARE MODE',
);

# Of these only one per round is enough: they take long.
my %rare = (pub_fast => 1, index => 1);

sub pick
{
	return $_[ rand @_ ];
}

sub argument
{
	my ($action, %opt) = @_;
	return pick(@{ $opt{tables} }) if $action =~ /^(?:vacuum|index|announce)$/;
	return join(' ', pick('g1 nothing', 'parts_p0 nothing', ('chk_event2_p1 see_counter') x 4), pick('ENABLE ALWAYS', 'DISABLE')) if $action eq 'trigger';
	# The longer ones make a backlog.
	return int(rand(pick(200, 3000))) / 1000 if $action =~ /^(?:disable|hand_back)$/;
	return [ pick(@stalls), 0.1 + int(rand(pick(500, 2000))) / 1000 ] if $action eq 'stall';
	return pick('die-before-commit', 'die-after-commit') if $action eq 'die_in_turn';
	return unless $action eq 'settings';
	my %values = (
		workers => $opt{workers} // pick(1 .. 8, 4, 8),
		group_transactions => pick(1, 2, 10, 100, 1000),
		group_bytes => pick(1, 1, 8, 64, 64, 1024, 16384),
		group_commit => pick('auto', 'auto', 'on', 'off'),
	);
	return { map { $_ => $values{$_} } sort keys %values };
}

sub torture_chaos_plan
{
	my (%opt) = @_;
	my @names = map { ($_) x $actions{$_}[0] } sort keys %actions;
	my ($least, $most) = @{ pick([ 1, 3 ], [ 0.2, 1.5 ], [ 0.2, 1.5 ], [ 0.05, 0.6 ]) };
	my ($time, %done, @plan) = (0);
	# Restarts take time of their own: this is more than enough.
	while ($time < $opt{seconds})
	{
		my $action = pick(@names);
		my $pause = $least + rand($most - $least);
		my $argument = argument($action, %opt);
		next if $rare{$action} && $done{$action}++;
		next if $opt{calm};
		push @plan, [ $pause, $action, $argument ];
	}
	continue
	{
		$time += $least;
	}
	return @plan;
}

sub torture_chaos_do
{
	my ($run, $action, $argument) = @_;
	my $start = time();
	$actions{$action}[1]->($run, $argument);
	$run->{done}{$action}++;
	my $text = ref $argument eq 'ARRAY' ? "@$argument" : ref $argument ? join(', ', map { "$_ $argument->{$_}" } sort keys %$argument) : $argument // '';
	$run->{log}->(sprintf('%s %s (%.1f s)', $action, $text, time() - $start));
	return;
}

# One that is there, if any.
sub end_backend
{
	my ($node, $type, $function) = @_;
	$function //= 'pg_terminate_backend';
	$node->safe_psql('postgres',
		"SELECT $function(pid) FROM (SELECT pid FROM pg_stat_activity WHERE backend_type = '$type' ORDER BY random() LIMIT 1) p");
	return;
}

# Statements that may fail: a lock that they wait for may take too long, a session of the load may win a deadlock.
sub any_of
{
	my ($node, @statements) = @_;
	$node->psql('postgres', join('', map { "$_;\n" } "SET log_min_messages = log", "SET statement_timeout = '20s'", @statements),
		on_error_stop => 0);
	return;
}

sub change_settings
{
	my ($run, $values) = @_;
	my @known = grep { $run->{settings}{$_} } sort keys %$values;
	$run->{sub}->safe_psql('postgres',
		join("\n", (map { "ALTER SYSTEM SET pg_parallel_apply.$_ = '$values->{$_}';" } @known), 'SELECT pg_reload_conf();'));
	return;
}

sub disable_enable
{
	my ($run, $pause) = @_;
	ppa_disable($run->{sub});
	usleep($pause * 1_000_000);
	ppa_enable($run->{sub});
	return;
}

# The built-in worker goes on for a while, unless there are local sessions that move rows: its lookup misses them, an open
# bug in all stock versions.
sub hand_back
{
	my ($run, $pause) = @_;
	return if $run->{local} > 1 || !$run->{settings}{subscriptions};
	ppa_set($run->{sub}, 'pg_parallel_apply.subscriptions', "''");
	usleep($pause * 1_000_000);
	ppa_set($run->{sub}, 'pg_parallel_apply.subscriptions', undef);
	return;
}

sub stall
{
	my ($run, $argument) = @_;
	my ($lock, $seconds) = @$argument;
	any_of($run->{sub}, "BEGIN; $lock; SELECT pg_sleep($seconds); COMMIT");
	return;
}

# Once per start of the subscriber.
sub die_in_turn
{
	my ($run, $where) = @_;
	ppa_set($run->{sub}, 'pg_parallel_apply.debug_stop', "'$where'") if $run->{settings}{debug_stop};
	return;
}

sub index_concurrently
{
	my ($run, $table) = @_;
	any_of($run->{sub}, "CREATE INDEX CONCURRENTLY torture_index ON $table (v)");
	any_of($run->{sub}, 'DROP INDEX IF EXISTS torture_index');
	return;
}

sub toggle_trigger
{
	my ($run, $argument) = @_;
	my ($table, $trigger, $state) = split / /, $argument, 3;
	any_of($run->{sub}, "ALTER TABLE $table $state TRIGGER $trigger");
	return;
}

sub torture_restart
{
	my ($run, $node, $mode) = @_;
	$node->stop($mode);
	if ($node == $run->{sub} && $mode eq 'immediate' && $run->{ready})
	{
		$node->append_conf('postgresql.conf', 'max_logical_replication_workers = 0');
		$node->start;
		push @{ $run->{bad} }, torture_origin_check($run);
		$node->stop('fast');
		$node->adjust_conf('postgresql.conf', 'max_logical_replication_workers', 12);
	}
	$node->start;
	return;
}

1;
