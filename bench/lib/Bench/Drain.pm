# Bench::Drain: what bench/drain and bench/sweep share: rounds of backlogs, each read
# by the minimal client and by every contender.
#
# Drains are planned in groups.  A group has a pair of nodes of its own, the profile
# that says how they are, workloads, and contenders:
#
#	{ profile => NAME, workloads => [ Bench::Workload ... ],
#	  contenders => [ Bench::Contender ... ] }
#
# {record} of a workload and of a contender are fields of the records of their runs.

package Bench::Drain;

use strict;
use warnings;

use List::Util qw(max sum0 uniq);

use Bench::Cluster qw(progress);
use Bench::Contest;
use Bench::Publisher qw(elsewhere check_publisher);
use Bench::Setup qw(build_reader check_server new_results_file start_steps fewer_steps step
  measuring);
use Bench::Workload qw(profile);

# Check that the drains can be made, and make ready: BENCH (the folder), KIND (of the
# results), ROUNDS, GROUPS.
sub new
{
	my ($class, %arg) = @_;
	my $self = bless { %arg, runs => [], left_out => [] }, $class;
	my @groups = @{ $arg{groups} };
	check_server(space($_)) for @groups;
	check_publisher(slots => 1 + max(map { scalar @{ $_->{contenders} } } @groups));
	$self->{reader}  = build_reader($arg{bench});
	$self->{results} = new_results_file("$arg{bench}/..", $arg{kind});
	return $self;
}

sub runs     { my ($self) = @_; return @{ $self->{runs} }; }
sub left_out { my ($self) = @_; return uniq @{ $self->{left_out} }; }
sub results  { my ($self) = @_; return $self->{results}; }

# Free space that a group needs, by place.  Nothing is deleted between two rounds, so
# the tables grow: half as much again.
sub space
{
	my ($group) = @_;
	my $profile = profile($group->{profile});
	my $wal     = max(map { $_->wal_megabytes } @{ $group->{workloads} });
	my $tables  = max(map { $_->table_megabytes } @{ $group->{workloads} });
	my %need    = (memory => 200);
	$need{ $profile->{publisher} } += $wal + 1.5 * $tables unless elsewhere();
	$need{ $profile->{subscriber} } += $wal + 1.5 * $tables * (1 + @{ $group->{contenders} }) + 100;
	$_ = int for values %need;
	return \%need;
}

# The benchmark: all groups, one after the other.
sub run
{
	my ($self) = @_;
	my @groups = @{ $self->{groups} };
	start_steps($self->{rounds}
		  * sum0(map { @{ $_->{workloads} } * (1 + @{ $_->{contenders} }) } @groups));
	for my $group (@groups)
	{
		push @{ $self->{left_out} }, measuring(
			sub { $self->run_group($_[0], $group); },
			places     => space($group),
			contenders => $group->{contenders},
			profile    => profile($group->{profile}),
			foreign    => 1,
			elsewhere  => 1);
	}
	return;
}

# All rounds of the workloads of a group.
sub run_group
{
	my ($self, $contest, $group) = @_;
	my %about = $contest->about;
	my @workloads = @{ $group->{workloads} };
	fewer_steps(@workloads * $self->{rounds} * $contest->left_out);
	for my $w (@workloads)
	{
		progress("$w->{name}: filling the tables");
		$contest->fill(sub { $w->create_tables($contest->{cluster}, @_); });
		for my $round (1 .. $self->{rounds})
		{
			my @new;
			my $ok = eval { $self->run_round($contest, $w, $round, \@new); 1 };
			my $error = $@;
			$self->keep(\%about, @new);
			die $error unless $ok;
		}
		$contest->empty($w->all_tables);
	}
	return;
}

# One backlog and all its readings; each record is added to DONE.
sub run_round
{
	my ($self, $contest, $w, $round, $done) = @_;
	progress("$w->{name}, round $round of $self->{rounds}:"
		  . " making a backlog of $w->{transactions} transactions");
	$contest->create_subscriptions(%{ $contest->{profile}{subscription_options} // {} });
	$contest->create_ceiling_slot;
	$w->make_backlog($contest->{cluster}, 'publisher', 'bench', $round);
	my $until = $contest->commit_marker($round);
	$contest->tidy($contest->{publisher});
	my $expected = $contest->contents($contest->{publisher});

	for my $contender (Bench::Contest::rotated($round, undef, $contest->contenders))
	{
		my $name = $contender ? $contender->{id} : 'ceiling';
		step("$w->{name}, round $round of $self->{rounds}: $name");
		my $run =
			$contender
		  ? $self->run_contender($contest, $w, $round, $contender, $expected)
		  : $self->run_ceiling($contest, $w, $until);
		complete($w, $run);
		$run->{round} = $round;
		progress(sprintf '  %-8s %8.0f txn/s, %.2f s', $name, @$run{qw(tps seconds)});
		$run->{position} = push @$done, $run;
	}
	$contest->drop_ceiling_slot;
	$contest->drop_subscriptions;
	return;
}

sub run_contender
{
	my ($self, $contest, $w, $round, $c, $expected) = @_;
	my $run = $contest->run_drain($c, $round, cold => $w->{cold}, settings => $w->{settings});
	$contest->check_equal($c, $expected);
	return { %$run, contender => $c->{name}, engine => $c->engine, %{ $c->{record} // {} } };
}

sub run_ceiling
{
	my ($self, $contest, $w, $until) = @_;
	my $run = $contest->run_ceiling($self->{reader}, $until);
	die "the ceiling's reader saw $run->{transactions} transactions, the backlog has "
	  . ($w->{transactions} + 1) . "\n"
	  if $run->{transactions} != $w->{transactions} + 1;
	return { %$run, contender => 'ceiling', engine => 'bench_ceiling' };
}

# The figures of one run that depend on the workload's size.
sub complete
{
	my ($w, $run) = @_;
	my $changes = $w->{transactions} * $w->{changes} + 1;    # 1 = the marker
	$run->{workload}     = $w->{name};
	$run->{rows}         = $w->{rows};
	$run->{transactions} = $w->{transactions} + 1;
	$run->{changes}      = $changes;
	$run->{tps}          = $run->{transactions} / $run->{seconds};
	%$run = (%$run, %{ $w->{record} // {} });
	if (my $cpu = $run->{cpu_seconds})
	{
		my $us = 1e6 / $run->{transactions};
		$run->{cpu_us_per_transaction}       = $us * sum0(values %$cpu);
		$run->{apply_us_per_transaction}     = $us * ($cpu->{leader} + $cpu->{workers});
		$run->{leader_us_per_transaction}    = $us * $cpu->{leader};
		$run->{workers_us_per_transaction}   = $us * $cpu->{workers};
		$run->{walwriter_us_per_transaction} = $us * ($cpu->{walwriter} // 0);
		$run->{walsender_us_per_transaction} = $us * $run->{walsender_cpu_seconds}
		  if defined $run->{walsender_cpu_seconds};
		$run->{wal_bytes_per_change} = $run->{wal_bytes} / $changes;
	}
	if (my $extension = $run->{extension})
	{
		$run->{transactions_per_group} = $extension->{transactions} / $extension->{groups}
		  if $extension->{groups};
	}
	return;
}

# Write what a round has brought, even if it was not finished.
sub keep
{
	my ($self, $about, @new) = @_;
	my ($ceiling) = grep { $_->{contender} eq 'ceiling' } @new;
	for my $run (@new)
	{
		$run->{share_of_ceiling} = $run->{tps} / $ceiling->{tps} if $ceiling;
		$self->{results}{write}->(%$about, %$run);
		push @{ $self->{runs} }, $run;
	}
	return;
}

1;
