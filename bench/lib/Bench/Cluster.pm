# Bench::Cluster: throwaway PostgreSQL nodes for the benchmarks.
#
# All nodes live below one folder on tmpfs and listen on Unix sockets in it.
# A guardian process waits for the end of this one, however it ends (normal
# exit, die, Ctrl-C, kill -9), then ends every process that names our folder on
# its command line and removes the folder.  That is the only clean-up path.

package Bench::Cluster;

use strict;
use warnings;

use Cwd qw(abs_path);
use DBI;
use Errno qw(EINTR);
use Exporter qw(import);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep);

our @EXPORT_OK = qw(progress pg_config_path poll_until);

# Settings of WORKLOADS.md.  No checkpoint may fall into a run: the size and
# time limits are out of reach, CHECKPOINT is issued between the runs.
my %SETTINGS = (
	listen_addresses            => "''",
	fsync                       => 'off',
	shared_buffers              => '256MB',
	autovacuum                  => 'off',
	wal_retrieve_retry_interval => '20ms',
	max_wal_size                => '64GB',
	checkpoint_timeout          => '1d',
	max_worker_processes        => 32,
	log_line_prefix             => "'%m [%p] %b '",
);

# PostgreSQL does not run as root; as root we use this operating system user.
my $SERVER_USER = 'postgres';

# Start-up of a node, and the longest statement outside a drain (seconds).
my $PATIENCE = 300;

sub progress
{
	my ($text) = @_;
	my ($s, $m, $h) = localtime;
	printf STDERR "%02d:%02d:%02d %s\n", $h, $m, $s, $text;
	return;
}

# One answer of pg_config ($PG_CONFIG chooses another installation).
sub pg_config_path
{
	my ($option) = @_;
	my $pg_config = $ENV{PG_CONFIG} // 'pg_config';
	my $path = qx{$pg_config $option 2>/dev/null} // '';
	chomp $path;
	die "cannot run $pg_config: install postgresql-server-dev-15 or set PG_CONFIG\n"
	  if $path eq '';
	return $path;
}

# Call CHECK about every 10 ms until it returns true; die after a bound.
sub poll_until
{
	my ($what, $check, $seconds) = @_;
	$seconds //= 60;
	my $end = time + $seconds;
	while (1)
	{
		my $result = $check->();
		return $result if $result;
		die "gave up after $seconds s: waiting for $what\n" if time > $end;
		sleep(0.01);
	}
}

# Make the folder and start the guardian.  MEGABYTES must be free there.
sub new
{
	my ($class, %arg) = @_;
	my $self = bless { bindir => pg_config_path('--bindir'), nodes => {} }, $class;

	die "no PostgreSQL server in $self->{bindir}: install postgresql-15 or set PG_CONFIG\n"
	  unless -x "$self->{bindir}/postgres" && -x "$self->{bindir}/pgbench";

	my $parent = abs_path($ENV{BENCH_DIR} // '/dev/shm');
	check_space($parent, $arg{megabytes});
	$self->{dir} = tempdir('ppa-bench.XXXXXX', DIR => $parent, CLEANUP => 0);
	$self->start_guardian;
	if ($> == 0)
	{
		my (undef, undef, $uid, $gid) = getpwnam($SERVER_USER);
		die "no operating system user \"$SERVER_USER\" to run the servers as\n" unless defined $uid;
		chown $uid, $gid, $self->{dir} or die "chown $self->{dir}: $!\n";
		$self->{as_user} = [ 'runuser', '-u', $SERVER_USER, '--' ];
	}
	return $self;
}

sub check_space
{
	my ($dir, $megabytes) = @_;
	my @lines = qx{df -Pm '$dir'};
	my $free = (split ' ', $lines[1] // '')[3];
	die "cannot tell the free space of $dir\n" unless defined $free && $free =~ /^\d+$/;
	die "only $free MB free in $dir, $megabytes MB needed: "
	  . "free some, enlarge it, or set BENCH_DIR to another folder\n"
	  if $free < $megabytes;
	return;
}

sub start_guardian
{
	my ($self) = @_;
	pipe my $read, my $write or die "pipe: $!\n";
	my $pid = fork // die "fork: $!\n";
	if ($pid == 0)
	{
		# Own session: Ctrl-C in the terminal must not end the guardian.
		POSIX::setsid();
		$SIG{$_} = 'IGNORE' for qw(INT TERM HUP PIPE);
		close $write;
		my $byte;
		while (1)
		{
			my $n = sysread $read, $byte, 1;
			last if defined $n || $! != EINTR;
		}
		clean_up($self->{dir});
		POSIX::_exit(0);
	}
	close $read;
	$self->{guardian} = $pid;
	$self->{lifeline} = $write;    # close-on-exec, so no child keeps it open
	return;
}

# Processes that work in our folder (server processes) or name it on their
# command line (pgbench, bench_ceiling, initdb): {pid => command line}.
sub our_processes
{
	my ($dir) = @_;
	my %found;
	for my $proc (glob '/proc/[0-9]*')
	{
		my ($pid) = $proc =~ /(\d+)/;
		next if $pid == $$;
		open my $in, '<', "$proc/cmdline" or next;
		local $/ = undef;
		my $line = <$in> // '';
		my $cwd = readlink("$proc/cwd") // '';
		$found{$pid} = $line if index($line, $dir) >= 0 || index($cwd, "$dir/") == 0;
	}
	return \%found;
}

# The signal that ends a process in good order.  Server processes are left to
# their postmaster, for which QUIT means immediate shutdown; initdb's backends
# end at the end of their input (killed, they leave shared memory behind).
sub ending_signal
{
	my ($command) = @_;
	return 0 if $command =~ /^postgres: / || $command =~ /\0--(?:boot|single|check)\0/;
	return $command =~ m{^\S*/postgres\0} ? 'QUIT' : 'TERM';
}

# What was just being started may come up late: repeat until all is gone.
sub clean_up
{
	my ($dir) = @_;
	my $first = time;
	while (time - $first < 60)
	{
		my $running = our_processes($dir);
		if (!%$running)
		{
			remove_tree($dir, { error => \my $ignored });
			last unless -e $dir;
		}
		for my $pid (keys %$running)
		{
			kill time - $first > 20 ? 'KILL' : ending_signal($running->{$pid}), $pid;
		}
		sleep(0.05);
	}
	return;
}

# Normal end: let the guardian do its work and wait for it.
sub finish
{
	my ($self) = @_;
	return unless $self->{lifeline};
	close delete $self->{lifeline};
	waitpid $self->{guardian}, 0;
	return;
}

# Run a program as the servers' user; die with its output if it fails.
sub run_as_server
{
	my ($self, @command) = @_;
	my $log = "$self->{dir}/commands.log";
	my $pid = fork // die "fork: $!\n";
	if ($pid == 0)
	{
		chdir '/';
		open STDIN,  '<',  '/dev/null';
		open STDOUT, '>>', $log;
		open STDERR, '>&', \*STDOUT;
		exec(@{ $self->{as_user} // [] }, @command)
		  or POSIX::_exit(127);
	}
	waitpid $pid, 0;
	die "failed (status $?): @command\n" . tail($log, 20) if $? != 0;
	return;
}

# Run a client program of ours and return its standard output.
sub run_client
{
	my ($self, @command) = @_;
	my $log = "$self->{dir}/clients.log";
	pipe my $read, my $write or die "pipe: $!\n";
	my $pid = fork // die "fork: $!\n";
	if ($pid == 0)
	{
		open STDOUT, '>&', $write;
		open STDERR, '>>', $log;
		exec(@command) or POSIX::_exit(127);
	}
	close $write;
	local $/ = undef;
	my $output = <$read> // '';
	waitpid $pid, 0;
	die "failed (status $?): @command\n$output" . tail($log, 20) if $? != 0;
	return $output;
}

# initdb and start one node; SETTINGS are added to those above.
sub start_node
{
	my ($self, $name, %settings) = @_;
	my $dir = "$self->{dir}/$name";

	progress("starting the $name");
	$self->run_as_server("$self->{bindir}/initdb", '-D', $dir, '-U', 'postgres', '-A', 'trust',
		'-E', 'UTF8', '--locale=C', '--no-sync');
	open my $conf, '>>', "$dir/postgresql.conf" or die "$dir/postgresql.conf: $!\n";
	my %all = (%SETTINGS, unix_socket_directories => "'$dir'", %settings);
	print $conf "$_ = $all{$_}\n" for sort keys %all;
	close $conf or die "$dir/postgresql.conf: $!\n";
	$self->{nodes}{$name} = $dir;
	eval {
		$self->run_as_server("$self->{bindir}/pg_ctl", '-D', $dir, '-l', "$dir/server.log",
			'-t', $PATIENCE, '-w', 'start');
		1;
	} or die "the $name does not start: $@" . tail("$dir/server.log", 20);
	return;
}

sub conninfo
{
	my ($self, $node, $database) = @_;
	return "host=$self->{nodes}{$node} port=5432 user=postgres dbname=$database";
}

# Options for pgbench to reach a database.
sub client_options
{
	my ($self, $node, $database) = @_;
	return ('-h', $self->{nodes}{$node}, '-p', 5432, '-U', 'postgres', $database);
}

sub program { my ($self, $name) = @_; return "$self->{bindir}/$name"; }

# A connection in autocommit mode; errors die.
sub connect_to
{
	my ($self, $node, $database) = @_;
	my $dsn = 'dbi:Pg:' . join ';', split ' ', $self->conninfo($node, $database);
	my $dbh = DBI->connect($dsn, '', '',
		{ AutoCommit => 1, RaiseError => 1, PrintError => 0, PrintWarn => 0,
			AutoInactiveDestroy => 1 });
	$dbh->do("SET statement_timeout = '${PATIENCE}s'");
	$dbh->do('SET client_min_messages = error');
	return $dbh;
}

sub postmaster_pid
{
	my ($self, $node) = @_;
	open my $in, '<', "$self->{nodes}{$node}/postmaster.pid" or die "$node: no postmaster.pid\n";
	my $pid = <$in>;
	chomp $pid;
	return $pid;
}

sub tail
{
	my ($file, $count) = @_;
	open my $in, '<', $file or return '';
	my @lines = <$in>;
	splice @lines, 0, @lines - $count if @lines > $count;
	return join '', "--- end of $file:\n", @lines;
}

# What the servers said last, to be shown when a benchmark fails.
sub log_tails
{
	my ($self) = @_;
	return join '', map { tail("$self->{nodes}{$_}/server.log", 20) } sort keys %{ $self->{nodes} };
}

1;
