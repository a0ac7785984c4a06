# Bench::Meter: what a run of a contender cost the subscriber.
#
#	my $meter = Bench::Meter->start($contest, $c);		before the subscription is enabled, or while it runs
#	$meter->stop(\%run);		at the end, while the processes that apply are there
#	$meter->count(\%run);	once they are gone, or have said all (the counters of our view are up to date
#							at once)
#
# Fields of a record: cpu_seconds by role ("leader" is the subscription's own worker,
# "workers" are ours together, "exited" what has ended meanwhile; client backends are the
# benchmark's sessions and do not count), workers_seen, worker_cpu_seconds (each),
# walsender_cpu_seconds, wal_bytes, wal_fpi, peak_memory_bytes (largest resident sizes,
# shared memory counted in each process), private_memory_bytes (now), disk_bytes_read,
# local_commits, xact_commits, rollbacks, extension (by how much each counter of our view
# rose, and the state).
#
# local_commits are transaction ids used: exact, but for those rolled back for a
# retry, which count too.  xact_commits and rollbacks are what pg_stat_database
# says: reading transactions count there (some twenty of ours, too), and a process that
# is told to stop may count as one rollback.

package Bench::Meter;

use strict;
use warnings;

use Bench::Measure qw(statistics walsender wal_and_xid);
use Bench::Proc qw(children_cpu exited_cpu memory_bytes disk_bytes_read);

sub start
{
	my ($class, $contest, $c) = @_;
	my $self = bless { contest => $contest, c => $c,
		postmaster => $contest->{cluster}->postmaster_pid('subscriber') }, $class;
	$self->{leader} = $c->leader_pid;
	$self->{errors} = $c->apply_errors;
	$self->{sender} = $self->sender if defined $self->{leader};
	$self->{before} = statistics($c);
	@$self{qw(wal xid)} = wal_and_xid($c->{dbh});
	$self->{cpu} = $self->cpu;
	return $self;
}

# CPU seconds of all processes of the subscriber, by pid, and of those that have ended.
sub cpu
{
	my ($self) = @_;
	return { exited => exited_cpu($self->{postmaster}), %{ children_cpu($self->{postmaster}) } };
}

# Not known of a publisher elsewhere.
sub sender
{
	my ($self) = @_;
	my $contest = $self->{contest};
	return if $contest->{cluster}->is_elsewhere('publisher');
	return walsender($contest->{publisher}, $self->{c});
}

sub stop
{
	my ($self, $run) = @_;
	my $c = $self->{c};
	die "$c->{name}: applying failed meanwhile, see the subscriber's log\n"
	  if $c->apply_errors > $self->{errors};

	# The workers must still be alive here: a dead one has no /proc entry.
	my $cpu = $self->cpu;
	if (my $sender = $self->sender)
	{
		$run->{walsender_cpu_seconds} = $sender->{cpu} - ($self->{sender} ? $self->{sender}{cpu} : 0);
		$self->{sender_started} = $sender->{started};
	}
	my ($wal, $xid) = wal_and_xid($c->{dbh});
	$run->{wal_bytes}     = $wal - $self->{wal};
	$run->{local_commits} = $xid - $self->{xid} - (defined $self->{leader} ? 0 : 1);    # ENABLE's
	$self->{state} = $c->counters->{state};
	$self->look_at_processes($run, $cpu);
	return;
}

# When the walsender started, after stop; undef of a publisher elsewhere.
sub sender_started { my ($self) = @_; return $self->{sender_started}; }

sub look_at_processes
{
	my ($self, $run, $after) = @_;
	my ($c, $before) = @$self{qw(c cpu)};
	my $leader = $c->leader_pid;
	die "$c->{name}: the apply worker is gone at the end of the run\n"
	  unless defined $leader && exists $after->{$leader};
	die "$c->{name}: a restarted apply worker cannot be told from the first\n"
	  if exists $before->{$leader} && $leader != ($self->{leader} // 0);

	my %cpu = (leader => 0, workers => 0, exited => $after->{exited} - $before->{exited});
	my %worker = map { ($_ => 1) } grep { exists $after->{$_} } $c->worker_pids;
	my $rows = $c->{dbh}->selectall_arrayref('SELECT pid, backend_type FROM pg_stat_activity');
	for my $row (@$rows)
	{
		my ($pid, $role) = @$row;
		next if $role eq 'client backend' || !exists $after->{$pid};
		$role = 'leader'  if $pid == $leader;
		$role = 'workers' if $worker{$pid};
		$cpu{$role} += $after->{$pid} - ($before->{$pid} // 0);
	}
	$run->{cpu_seconds}        = \%cpu;
	$run->{workers_seen}       = keys %worker;
	$run->{worker_cpu_seconds} = [ map { $after->{$_} - ($before->{$_} // 0) } sort keys %worker ];
	for my $pid ($leader, keys %worker)
	{
		my ($peak, $private) = memory_bytes($pid);
		$run->{peak_memory_bytes}    += $peak;
		$run->{private_memory_bytes} += $private;
		$run->{disk_bytes_read}      += disk_bytes_read($pid);
	}
	return;
}

# Proves, too, that this contender was the one who applied.
sub count
{
	my ($self, $run) = @_;
	my ($c, $before) = @$self{qw(c before)};
	my $after = statistics($c);
	my %count = map { ($_ => $after->{count}{$_} - ($before->{count}{$_} // 0)) }
	  grep { $_ ne 'state' } keys %{ $after->{count} };
	$c->check_proof($count{transactions} // 0, $self->{state}, $run->{workers_seen});
	$run->{extension} = { %count, state => $self->{state} } if $c->{ours};
	$run->{wal_fpi}      = $after->{fpi} - $before->{fpi};
	$run->{rollbacks}    = $after->{rollbacks} - $before->{rollbacks};
	$run->{xact_commits} = $after->{commits} - $before->{commits};
	return;
}

1;
