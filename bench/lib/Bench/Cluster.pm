# Bench::Cluster: throwaway PostgreSQL nodes for the benchmarks.
#
# Nodes live below a folder in memory (BENCH_DIR) or one on disk (BENCH_DISK) and
# listen on Unix sockets in their data folders.  A guardian process waits for the
# end of this one, however it ends (normal exit, die, Ctrl-C, kill -9), then ends
# every process that names our folders on its command line, removes the folders,
# and drops our database where the publisher is elsewhere (Bench::Publisher: then
# there is no node of that name).  That is the only clean-up path.

package Bench::Cluster;

use strict;
use warnings;

use Cwd qw(abs_path);
use DBI;
use DBD::Pg qw(:async);
use Errno qw(EINTR);
use Exporter qw(import);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IO::Handle;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(sleep time);

use Bench::Publisher qw(elsewhere connection_words);

our @EXPORT_OK = qw(progress pg_config_path poll_until long_do check_places);

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
	max_worker_processes        => 160,
	max_replication_slots       => 40,
	max_wal_senders             => 40,
	log_line_prefix             => "'%m [%p] %b '",
);

# Settings that change from run to run, in a file of their own.
my $CHANGING = 'bench.conf';

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

# The folder for nodes in memory or on disk, and what it is made of.
my %PLACE = (
	memory => { variable => 'BENCH_DIR',  default => '/dev/shm' },
	disk   => { variable => 'BENCH_DISK', default => '/var/tmp' },
);

# (path, device, file system) of a place; dies if it cannot be used.
sub place
{
	my ($name) = @_;
	my $place = $PLACE{$name};
	my $wanted = $ENV{ $place->{variable} } // $place->{default};
	my $path = abs_path($wanted);
	die "no folder $wanted: set $place->{variable}\n" unless defined $path && -d $path;
	my @lines = qx{df --output=source,fstype '$path'};
	my ($device, $type) = split ' ', $lines[1] // '';
	die "cannot tell what $path is on\n" unless defined $type;
	die "$path is in memory ($type), not on disk: set $place->{variable}\n"
	  if $name eq 'disk' && $type =~ /^(?:tmpfs|ramfs|devtmpfs)$/;
	return ($path, $device, $type);
}

# Die unless the places have the free space asked for: {place => megabytes}; two may
# be on one file system.  Called before anything is started.
sub check_places
{
	my ($megabytes) = @_;
	my %needed;
	for my $name (sort keys %$megabytes)
	{
		my ($path) = place($name);
		my @lines = qx{df -Pm '$path'};
		my $free = (split ' ', $lines[1] // '')[3];
		die "cannot tell the free space of $path\n" unless defined $free && $free =~ /^\d+$/;
		my $device = (stat $path)[0];
		$needed{$device} += $megabytes->{$name};
		die "only $free MB free in $path, $needed{$device} MB needed: free some,"
		  . " enlarge it, or set $PLACE{$name}{variable} to another folder\n"
		  if $free < $needed{$device};
	}
	return;
}

# Make the folders and start the guardian.  PLACES: megabytes needed by place.
sub new
{
	my ($class, %arg) = @_;
	my $self = bless {
		bindir    => pg_config_path('--bindir'),
		nodes     => {},
		elsewhere => scalar elsewhere(),
	}, $class;

	die "no PostgreSQL server in $self->{bindir}: install postgresql-15 or set PG_CONFIG\n"
	  unless -x "$self->{bindir}/postgres" && -x "$self->{bindir}/pgbench";
	my (undef, undef, $uid, $gid) = getpwnam($SERVER_USER);
	die "no operating system user \"$SERVER_USER\" to run the servers as\n" if $> == 0 && !defined $uid;

	check_places($arg{places});
	for my $name (sort keys %{ $arg{places} })
	{
		my ($path, $device, $type) = place($name);
		$self->{place}{$name} = tempdir('ppa-bench.XXXXXX', DIR => $path, CLEANUP => 0);
		$self->{device}{$name} = "$device ($type)";
	}
	$self->{dir} = $self->{place}{memory};
	$self->start_guardian;
	if ($> == 0)
	{
		chown $uid, $gid, values %{ $self->{place} } or die "chown: $!\n";
		$self->{as_user} = [ 'runuser', '-u', $SERVER_USER, '--' ];
	}
	return $self;
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
		clean_up(values %{ $self->{place} });
		Bench::Publisher::clean_up($self->{elsewhere}, $self->{dir}) if $self->{elsewhere};
		POSIX::_exit(0);
	}
	close $read;
	$self->{guardian} = $pid;
	$self->{lifeline} = $write;    # close-on-exec, so no child keeps it open
	return;
}

# Processes that work in our folders (server processes) or name one on their
# command line (pgbench, bench_ceiling, initdb): {pid => command line}.
sub our_processes
{
	my (@dirs) = @_;
	my %found;
	for my $proc (glob '/proc/[0-9]*')
	{
		my ($pid) = $proc =~ /(\d+)/;
		next if $pid == $$;
		open my $in, '<', "$proc/cmdline" or next;
		local $/ = undef;
		my $line = <$in> // '';
		my $cwd = readlink("$proc/cwd") // '';
		$found{$pid} = $line
		  if grep { index($line, $_) >= 0 || index($cwd, "$_/") == 0 } @dirs;
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
	my (@dirs) = @_;
	my $first = time;
	while (time - $first < 60)
	{
		my $running = our_processes(@dirs);
		if (!%$running)
		{
			remove_tree(@dirs, { error => \my $ignored });
			last unless grep { -e } @dirs;
		}
		for my $pid (keys %$running)
		{
			kill time - $first > 20 ? 'KILL' : ending_signal($running->{$pid}), $pid;
		}
		sleep(0.05);
	}
	my @left = ((map { "process $_" } keys %{ our_processes(@dirs) }), grep { -e } @dirs);
	print STDERR "left behind after a minute: @left\n" if @left;
	return;
}

# Normal end: let the guardian do its work and wait for it.
sub finish
{
	my ($self) = @_;
	return unless $self->{lifeline};
	local @SIG{qw(INT TERM)} = ('IGNORE') x 2;
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

# Start a client program of ours; returns a handle for finish_client.
sub start_client
{
	my ($self, @command) = @_;
	pipe my $read, my $write or die "pipe: $!\n";
	my $pid = fork // die "fork: $!\n";
	if ($pid == 0)
	{
		open STDOUT, '>&', $write;
		open STDERR, '>>', "$self->{dir}/clients.log";
		exec(@command) or POSIX::_exit(127);
	}
	close $write;
	return { pid => $pid, output => $read, command => "@command" };
}

# Wait for the program's end and return its standard output; die if it failed.
sub finish_client
{
	my ($self, $client) = @_;
	my $read = $client->{output};
	my $output = do { local $/ = undef; <$read> } // '';
	waitpid $client->{pid}, 0;
	die "failed (status $?): " . ($client->{command} =~ s/\bpassword=\S+/password=.../gr)
	  . "\n$output" . tail("$self->{dir}/clients.log", 20)
	  if $? != 0;
	return $output;
}

sub run_client
{
	my ($self, @command) = @_;
	return $self->finish_client($self->start_client(@command));
}

# Microseconds that flushing one page to a place takes, the median of some.
sub flush_us
{
	my ($self, $place) = @_;
	my $file = "$self->{place}{$place}/flush";
	open my $out, '+>:raw', $file or die "$file: $!\n";
	my @us;
	for (1 .. 51)
	{
		seek $out, 0, 0;
		print $out 'x' x 8192;
		$out->flush;
		my $start = time;
		$out->sync or die "$file: $!\n";
		push @us, 1e6 * (time - $start);
	}
	close $out;
	unlink $file;
	return (sort { $a <=> $b } @us)[ @us / 2 ];
}

# initdb and start one node in a place (memory, disk); SETTINGS are added to
# those above.
sub start_node
{
	my ($self, $name, $place, %settings) = @_;
	my $dir = "$self->{place}{$place}/$name";

	progress("starting the $name" . ($place eq 'disk' ? " on $self->{device}{disk}" : ''));
	$self->run_as_server("$self->{bindir}/initdb", '-D', $dir, '-U', 'postgres', '-A', 'trust',
		'-E', 'UTF8', '--locale=C', '--no-sync');
	open my $conf, '>>', "$dir/postgresql.conf" or die "$dir/postgresql.conf: $!\n";
	my %all = (%SETTINGS, unix_socket_directories => "'$dir'", %settings);
	print $conf "$_ = $all{$_}\n" for sort keys %all;
	print $conf "include_if_exists = '$CHANGING'\n";
	close $conf or die "$dir/postgresql.conf: $!\n";
	$self->{nodes}{$name} = $dir;
	eval {
		$self->run_as_server("$self->{bindir}/pg_ctl", '-D', $dir, '-l', "$dir/server.log",
			'-t', $PATIENCE, '-w', 'start');
		1;
	} or die "the $name does not start: $@" . tail("$dir/server.log", 20);
	return;
}

# Give a node these settings, in place of those of the call before, and wait
# until they are in force.  The postmaster reads the file before it tells its
# children to, so a session that has read it proves that new processes have, too.
sub configure
{
	my ($self, $node, $dbh, %settings) = @_;
	return Bench::Publisher::configure($dbh, %settings) if $self->is_elsewhere($node);
	my $file = "$self->{nodes}{$node}/$CHANGING";
	my $generation = ++$self->{generation};
	open my $conf, '>', "$file.new" or die "$file.new: $!\n";
	print $conf "$_ = $settings{$_}\n" for sort keys %settings;
	print $conf "bench.generation = $generation\n";
	close $conf or die "$file.new: $!\n";
	chmod 0644, "$file.new";
	rename "$file.new", $file or die "$file: $!\n";
	$dbh->do('SELECT pg_reload_conf()');
	poll_until("the $node to take over new settings (see its log)", sub {
		my ($seen) = $dbh->selectrow_array(q{SELECT current_setting('bench.generation', true)});
		return defined $seen && $seen eq $generation;
	});
	return;
}

sub is_elsewhere
{
	my ($self, $node) = @_;
	return $node eq 'publisher' && defined $self->{elsewhere};
}

sub conninfo
{
	my ($self, $node, $database) = @_;
	return "$self->{elsewhere} dbname=$database" if $self->is_elsewhere($node);
	return "host=$self->{nodes}{$node} port=5432 user=postgres dbname=$database";
}

# Options for pgbench to reach a database.
sub client_options
{
	my ($self, $node, $database) = @_;
	return $self->conninfo($node, $database) if $self->is_elsewhere($node);
	return ('-h', $self->{nodes}{$node}, '-p', 5432, '-U', 'postgres', $database);
}

sub program { my ($self, $name) = @_; return "$self->{bindir}/$name"; }

# A connection in autocommit mode; errors die.
sub connect_to
{
	my ($self, $node, $database) = @_;
	my $dsn = 'dbi:Pg:' . join ';', connection_words($self->conninfo($node, $database));
	my $dbh = DBI->connect($dsn, '', '',
		{ AutoCommit => 1, RaiseError => 1, PrintError => 0, PrintWarn => 0,
			AutoInactiveDestroy => 1 });
	$dbh->do("SET statement_timeout = '${PATIENCE}s'");
	$dbh->do('SET client_min_messages = error');
	return $dbh;
}

# A statement that may take long, so that Ctrl-C need not wait for its end.
sub long_do
{
	my ($dbh, $sql) = @_;
	$dbh->do($sql, { pg_async => PG_ASYNC });
	sleep(0.005) until $dbh->pg_ready;
	$dbh->pg_result;
	return;
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
