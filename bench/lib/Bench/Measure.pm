# Bench::Measure: what one run cost the servers, for Bench::Contest::run_drain.

package Bench::Measure;

use strict;
use warnings;

use Exporter qw(import);

use Bench::Proc qw(cpu_seconds memory_bytes disk_bytes_read);

our @EXPORT_OK = qw(drop_page_cache statistics walsender look_at_processes);

# Empty the operating system's page cache of a node's data, so that they
# come from the disk again; says how.  Only what has been written can be dropped.
sub drop_page_cache
{
	my ($data) = @_;
	run_quietly('sync');
	if (open my $out, '>', '/proc/sys/vm/drop_caches')
	{
		return 'drop_caches' if print($out "3\n") && close $out;
	}

	# Not root: ask file by file (dd does posix_fadvise DONTNEED).
	my $dir = "$data/base";
	run_quietly("find '$dir' -type f -exec dd if='{}' iflag=nocache count=0 status=none ';'");
	return 'fadvise';
}

# Not with system(), which would keep Ctrl-C from us.
sub run_quietly
{
	my ($command) = @_;
	my $output = qx{$command 2>&1};
	die "failed: $command\n$output" if $? != 0;
	return;
}

# Statistics that processes report late: complete once they have ended.
sub statistics
{
	my ($c) = @_;
	$c->{dbh}->do('SELECT pg_stat_force_next_flush()');
	my ($commits, $rollbacks, $fpi) = $c->{dbh}->selectrow_array(q{
		SELECT xact_commit, xact_rollback, wal_fpi FROM pg_stat_database, pg_stat_wal
		WHERE datname = current_database()});
	my $count = $c->counters;
	return { commits => $commits, rollbacks => $rollbacks, fpi => $fpi, count => $count };
}

# CPU and start of the process that serves a contender; only for a publisher of ours.
sub walsender
{
	my ($publisher, $c) = @_;
	my ($pid, $started) = $publisher->selectrow_array(q{
		SELECT pid, extract(epoch FROM backend_start)
		FROM pg_stat_replication WHERE application_name = ?}, undef, $c->{subscription});
	my $cpu = defined $pid ? cpu_seconds($pid) : undef;
	die "$c->{name}: the walsender is gone at the end of the drain\n" unless defined $cpu;
	return { cpu => $cpu, started => $started };
}

# Into RUN: CPU seconds spent during the run by role, memory and disk reads of
# the processes that apply.  "leader" is the subscription's own worker, "workers"
# those of ours, "exited" what has ended during the run.  Client backends are the
# benchmark's sessions and do not count.
sub look_at_processes
{
	my ($c, $run, $before, $after) = @_;
	my $leader = $c->leader_pid;
	die "$c->{name}: the apply worker is gone at the end of the drain\n"
	  unless defined $leader && exists $after->{$leader};
	die "$c->{name}: a restarted apply worker cannot be told from the first\n"
	  if exists $before->{$leader};

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

1;
