# PpaPair: the demo's throwaway publisher and subscriber.
#
# Servers, folder and clean-up are those of the benchmarks (Bench::Cluster); this adds what a first-time user needs:
# clear errors before anything is started, a folder with enough room, programs in the background, and nodes that
# outlive the demo.
package PpaPair;

use strict;
use warnings;

use Cwd qw(abs_path);
use DBD::Pg qw(:async);
use File::Basename qw(dirname);
use POSIX qw(:sys_wait_h);

use lib dirname(abs_path(__FILE__)) . '/../bench/lib';
use parent 'Bench::Cluster';
use Bench::Cluster qw(pg_config_path);

# Both nodes of the demo together use about 1.3 GB.
use constant NEEDED_MB => 2048;
# A socket address holds 108 bytes with the terminating zero (sun_path on Linux).
use constant MAX_SOCKET_PATH => 107;

sub new
{
	my ($class) = @_;
	my $library = pg_config_path('--pkglibdir') . '/pg_parallel_apply.so';
	-e $library
	  or die "$library is missing: the extension is not built and installed.\n"
	  . "Run 'make demo' in the top folder, or 'make -f pgxs.mk all install'.\n";

	local $ENV{BENCH_DIR} = choose_folder();
	my $self = $class->SUPER::new(places => { memory => NEEDED_MB });
	$self->{sessions} = {};
	return $self;
}

# Memory first: on a disk, two servers and a load would measure the disk.
sub choose_folder
{
	my @places = $ENV{DEMO_DIR} ? ($ENV{DEMO_DIR}) : ('/dev/shm', '/tmp');
	my @full;

	for my $place (@places)
	{
		my $path = -d $place ? abs_path($place) : undef;
		defined $path or die "$place is not a folder\n";
		$path =~ m{^[\w./+-]+$}
		  or die "the path \"$path\" has characters that this demo does not quote: set DEMO_DIR to another folder\n";
		my $socket = "$path/ppa-bench.XXXXXX/subscriber/.s.PGSQL.5432";
		length($socket) <= MAX_SOCKET_PATH
		  or die "the path of a Unix socket below $path would be " . length($socket) . " bytes long, the system allows "
		  . MAX_SOCKET_PATH . ": set DEMO_DIR to a folder with a shorter path\n";
		my $free = (split ' ', (qx{df -Pm '$path'})[1] // '')[3] // 0;
		return $path if $free >= NEEDED_MB;
		push @full, "$path has $free MB free";
	}
	die 'no room for two servers, which need ' . NEEDED_MB . ' MB (' . join(', ', @full)
	  . "): free some, or set DEMO_DIR to another folder\n";
}

# One session per node and database, kept: a new one for each question would cost more CPU than what it watches.
sub dbh
{
	my ($self, $node, $database) = @_;
	return $self->{sessions}{"$node $database"} ||= $self->connect_to($node, $database);
}

# run_all([DBH, SQL]...): runs one statement on each session, all at the same time; returns the first row of each, its
# columns joined by blanks.
sub run_all
{
	my ($self, @work) = @_;
	my @statements = map { $_->[0]->prepare($_->[1], { pg_async => PG_ASYNC }) } @work;
	$_->execute for @statements;
	my @rows;
	for my $i (0 .. $#work)
	{
		$work[$i][0]->pg_result;
		my $row = $statements[$i]{NUM_OF_FIELDS} ? $statements[$i]->fetchrow_arrayref : [];
		push @rows, join ' ', @$row;
		$statements[$i]->finish;
	}
	return @rows;
}

# ---- programs in the background, which can be asked whether they still run

sub start_program
{
	my ($self, $name, @command) = @_;
	my $output = "$self->{dir}/$name.out";
	my $pid = fork // die "fork: $!\n";
	if ($pid == 0)
	{
		open STDIN,  '<', '/dev/null';
		open STDOUT, '>', $output;
		open STDERR, '>&', \*STDOUT;
		exec(@command) or POSIX::_exit(127);
	}
	return { pid => $pid, name => $name, output => $output };
}

sub program_runs
{
	my ($self, $program) = @_;
	return 0 if defined $program->{status};
	return 1 if waitpid($program->{pid}, WNOHANG) == 0;
	$program->{status} = $?;
	return 0;
}

# Waits for it and returns its output; dies with the output if it failed.
sub finish_program
{
	my ($self, $program) = @_;
	if (!defined $program->{status})
	{
		waitpid $program->{pid}, 0;
		$program->{status} = $?;
	}
	open my $in, '<', $program->{output} or die "$program->{output}: $!\n";
	local $/ = undef;
	my $output = <$in> // '';
	die "$program->{name} failed (status $program->{status}):\n$output" if $program->{status} != 0;
	return $output;
}

# ---- nodes that outlive the demo

# Leaves both nodes running; returns the command that stops them and removes the folder.
sub keep
{
	my ($self) = @_;
	my $script = "$self->{dir}/stop";
	my $user = join ' ', @{ $self->{as_user} // [] };
	open my $out, '>', $script or die "$script: $!\n";
	print $out "# Stops both servers of the demo and removes their folder.\ncd /\n";
	print $out "$user $self->{bindir}/pg_ctl stop -m fast -D $self->{nodes}{$_}\n" for qw(subscriber publisher);
	print $out "rm -rf $self->{dir}\n";
	close $out or die "$script: $!\n";

	# The guardian cleans up when we end, however we end: end it first.
	kill 'KILL', $self->{guardian};
	waitpid $self->{guardian}, 0;
	delete $self->{lifeline};
	return "sh $script";
}

1;
