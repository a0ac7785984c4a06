# Bench::Contender: one of those who apply the publisher's changes.
#
#	builtin		the server's own apply worker
#	serial		pg_parallel_apply, workers = 0: all in one process
#	ours		pg_parallel_apply with its default number of workers
#	oursN		pg_parallel_apply with N workers, for example ours4
#	pglogical	the extension of that name: Bench::Pglogical
#
# All of them but pglogical apply a native subscription, so they differ in
# settings only.  Pglogical is a subclass that does otherwise; nothing else knows
# what a subscription is made of.  The object has no connection of its own until
# Bench::Contest gives it one ({dbh}, in {database}).

package Bench::Contender;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(is_contender default_contenders contender_names);

use constant MAX_WORKERS => 128;

my @DEFAULT = qw(builtin serial ours4);

# Columns of our view that say how things are, not how often they were so.
my $GAUGE = qr/^(?:subid|datid|pid|lag_.*|workers_.*|queued_.*|relations_ordered)$/;

sub default_contenders { return @DEFAULT; }
sub contender_names    { return 'builtin, serial, ours, oursN (N = 1 to ' . MAX_WORKERS . '), pglogical'; }

sub is_contender
{
	my ($name) = @_;
	return $name =~ /^(?:builtin|serial|ours|pglogical)$/
	  || ($name =~ /^ours([1-9]\d{0,2})$/ && $1 <= MAX_WORKERS);
}

# {workers}: undef where the setting is left alone.  MORE, where one contender takes
# part several times with other settings:
#
#	id			what tells it apart from the others of its name
#	settings	its own, for ours
#	record		fields of its records
sub new
{
	my ($class, $name, %more) = @_;
	die "unknown contender \"$name\"\n" unless is_contender($name);
	my ($workers) = $name =~ /^ours(\d+)$/;
	$workers = 0 if $name eq 'serial';
	if ($name eq 'pglogical')
	{
		require Bench::Pglogical;
		$class = 'Bench::Pglogical';
	}
	return bless {
		name    => $name,
		id      => $name,
		workers => $workers,
		ours    => $name =~ /^(?:serial|ours\d*)$/ ? 1 : 0,
		%more,
	}, $class;
}

# Settings that a node of ours must start with, for the libraries that this contender
# needs beside ours: (library => ..., ...).  PROFILE: of the contest.
sub start_settings { my ($self, $node, $profile) = @_; return (); }

# What the publisher needs for this contender before any slot is made, and the end of
# it once all subscriptions are gone.
sub prepare_publisher { my ($self, $contest) = @_; return; }
sub restore_publisher { my ($self, $contest) = @_; return; }

# DROP DATABASE waits on the subscriber: wake a process that does not see its signal.
sub wake_up { my ($self, $dbh) = @_; return; }

# Why this contender cannot run here, or nothing.  INSTALLED: our library is there;
# PARALLEL: it knows pg_parallel_apply.workers.
sub unavailable
{
	my ($self, $installed, $parallel, $contest) = @_;
	return unless $self->{ours};
	return 'pg_parallel_apply is not installed' unless $installed;
	return 'the installed library has no setting pg_parallel_apply.workers: it is serial only'
	  if $self->{workers} && !$parallel;
	return;
}

sub engine { my ($self) = @_; return $self->{ours} ? 'pg_parallel_apply' : 'built-in'; }

# Settings of the subscriber that make this contender the one that applies;
# EXTRA are those of the workload, for ours.
sub settings
{
	my ($self, $installed, $parallel, $extra) = @_;
	return () unless $installed;
	return ('pg_parallel_apply.subscriptions' => "''") unless $self->{ours};
	return (
		'pg_parallel_apply.subscriptions' => "'*'",
		(defined $self->{workers} && $parallel ? ('pg_parallel_apply.workers' => $self->{workers}) : ()),
		%{ $extra // {} }, %{ $self->{settings} // {} });
}

# A disabled subscription that starts here and now; OPTIONS as in WITH (...), where
# copy_data is off if they do not say so.
sub create_subscription
{
	my ($self, $conninfo, $publication, %options) = @_;
	my %with = (enabled => 'false', copy_data => 'false', %options);
	$self->{dbh}->do("CREATE SUBSCRIPTION $self->{subscription} CONNECTION "
		  . $self->{dbh}->quote($conninfo) . " PUBLICATION $publication WITH ("
		  . join(', ', map { "$_ = $with{$_}" } sort keys %with) . ')');
	($self->{subid}) = $self->{dbh}->selectrow_array(
		'SELECT oid FROM pg_subscription WHERE subname = ?', undef, $self->{subscription});
	return;
}

sub drop_subscription
{
	my ($self) = @_;
	$self->{dbh}->do("DROP SUBSCRIPTION $self->{subscription}");
	return;
}

sub enable
{
	my ($self) = @_;
	$self->{dbh}->do("ALTER SUBSCRIPTION $self->{subscription} ENABLE");
	return;
}

sub disable
{
	my ($self) = @_;
	$self->{dbh}->do("ALTER SUBSCRIPTION $self->{subscription} DISABLE");
	return;
}

# Any process that applies for this subscription, or any worker of ours at all:
# the leader leaves last.
sub is_running
{
	my ($self) = @_;
	return defined $self->leader_pid || $self->worker_pids > 0;
}

# The process that receives; it also applies where there are no workers.
sub leader_pid
{
	my ($self) = @_;
	return ($self->{dbh}->selectrow_array(
		'SELECT pid FROM pg_stat_subscription WHERE subid = ? AND relid IS NULL',
		undef, $self->{subid}))[0];
}

# Only one subscription is enabled at a time, so all workers are its own.
sub worker_pids
{
	my ($self) = @_;
	return @{ $self->{dbh}->selectcol_arrayref(q{
		SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'}) };
}

sub apply_errors
{
	my ($self) = @_;
	return ($self->{dbh}->selectrow_array(
		'SELECT apply_error_count + sync_error_count FROM pg_stat_subscription_stats WHERE subid = ?',
		undef, $self->{subid}))[0];
}

# Tables whose initial copy is not finished.
sub tables_to_copy
{
	my ($self) = @_;
	return ($self->{dbh}->selectrow_array(
		q{SELECT count(*) FROM pg_subscription_rel WHERE srsubid = ? AND srsubstate <> 'r'},
		undef, $self->{subid}))[0];
}

# All that our view counts for this subscription, and its state; empty where the
# library has not seen it.  Built in, too, to prove that we had no part in it.
sub counters
{
	my ($self) = @_;
	my ($view) = $self->{dbh}->selectrow_array(
		q{SELECT to_regclass('parallel_apply.stat_subscription') IS NOT NULL});
	return {} unless $view;
	my $row = $self->{dbh}->selectrow_hashref(
		'SELECT * FROM parallel_apply.stat_subscription WHERE subid = ?', undef, $self->{subid});
	return {} unless $row;
	my %count = (state => $row->{state});
	for my $column (grep { !/$GAUGE/ } keys %$row)
	{
		$count{$column} = $row->{$column} + 0 if ($row->{$column} // '') =~ /^-?\d+$/;
	}
	return \%count;
}

# Die unless the one that applied was this contender: TRANSACTIONS of ours, in
# state STATE, with WORKERS alive at the end.
sub check_proof
{
	my ($self, $transactions, $state, $workers) = @_;
	my $seen = sprintf '%d transactions by pg_parallel_apply, state "%s", %d workers',
	  $transactions, $state // 'none', $workers;
	my $ok = $self->{ours}
	  ? $transactions > 0 && ($state // '') ne 'passed through'
	  : $transactions == 0;
	$ok &&= $self->{workers} ? $workers > 0 && $workers <= $self->{workers} : $workers == 0
	  if defined $self->{workers};
	die "$self->{name}: somebody else has applied ($seen)\n" unless $ok;
	return;
}

1;
