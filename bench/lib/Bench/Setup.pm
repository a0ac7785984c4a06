# Bench::Setup: what the benchmark commands share around the measuring: choice of
# workloads and contenders, checks before the start, records, progress, the end.

package Bench::Setup;

use strict;
use warnings;

use Cwd qw(abs_path);
use Digest::MD5;
use Exporter qw(import);
use JSON::PP;
use List::Util qw(uniq);
use POSIX qw(strftime);

use Bench::Cluster qw(progress pg_config_path check_places);
use Bench::Contender qw(is_contender default_contenders contender_names);
use Bench::Contest;
use Bench::Workload qw(is_workload default_workloads workload_names expand_alias);

our @EXPORT_OK = qw(positive_number count number_list choice build_reader check_server
  new_results_file run_benchmark start_steps fewer_steps step measuring load_average);

# Our own start-up stays below this load average.  A command among others (bench/run)
# is told by LOAD_AT_START what the load was before the first of them.
my $BUSY = 1;

# What of the environment says how a command measures.
my @OPTIONS = qw(ROUNDS SIZE SCALE POINTS SECONDS CLIENTS MODES DISK SAMPLES LOADS LOAD_SECONDS TURNS
  PERCENTS STREAMING TABLES ROWS SYNC_WORKERS BUSY SLOTS CASES PRELOAD);

# What an interrupted command ends with, as a shell would say it.
use constant INTERRUPTED => 130;

my $interrupted;

sub load_average
{
	open my $in, '<', '/proc/loadavg' or return 0;
	my ($load) = split ' ', <$in>;
	return $load + 0;
}

# A number above 0 from the environment.
sub positive_number
{
	my ($name, $default) = @_;
	my $value = $ENV{$name} // $default;
	die "$name must be a number above 0, not \"$value\"\n"
	  unless $value =~ /^\d*\.?\d+$/ && $value > 0;
	return $value;
}

# The same, a whole number.
sub count
{
	my ($name, $default) = @_;
	my $value = positive_number($name, $default);
	die "$name must be a whole number, not \"$value\"\n" unless $value =~ /^\d+$/;
	return $value;
}

# A list of whole numbers from MIN to MAX from the environment.
sub number_list
{
	my ($name, $default, $min, $max) = @_;
	my @values = split /[\s,]+/, $ENV{$name} // $default;
	die "$name must be whole numbers from $min to $max, not \"@values\"\n"
	  if !@values || grep { !/^\d+$/ || $_ < $min || $_ > $max } @values;
	return uniq @values;
}

# What to run: (workloads, contenders), from the arguments, else from BENCH and
# CONTENDERS, else the defaults.  A command without workloads passes WITHOUT.
sub choice
{
	my ($arguments, $without) = @_;
	my @workloads = $without ? () : map { expand_alias($_) } split ' ', $ENV{BENCH} // '';
	my @contenders = split ' ', $ENV{CONTENDERS} // '';
	my (@w, @c);
	for my $name (@$arguments)
	{
		if    (is_contender($name) || $name eq 'ceiling') { push @c, $name; }
		elsif ($without) { die "unknown contender \"$name\"; there are: @{[contender_names()]}\n"; }
		else             { push @w, expand_alias($name); }
	}
	@workloads  = @w                   if @w;
	@contenders = @c                   if @c;
	@workloads  = default_workloads()  unless @workloads || $without;
	@contenders = default_contenders() unless @contenders;
	for my $name (grep { !is_workload($_) } @workloads)
	{
		die "unknown workload or contender \"$name\"; workloads: @{[workload_names()]};"
		  . " contenders: @{[contender_names()]}\n";
	}

	# The ceiling is the yardstick: it always runs where it can.
	@contenders = grep { $_ ne 'ceiling' } @contenders;
	for my $name (grep { !is_contender($_) } @contenders)
	{
		die "unknown contender \"$name\"; there are: @{[contender_names()]}\n";
	}
	die "no contender but the ceiling; there are: @{[contender_names()]}\n" unless @contenders;
	die "pg_parallel_apply is not installed, and nobody else is to run: make install\n"
	  if !(grep { !Bench::Contender->new($_)->{ours} } @contenders) && !Bench::Contest::extension_installed();
	return ([ uniq @workloads ], [ uniq @contenders ]);
}

# Die before anything is started if the server is not there or a disk is too full.
sub check_server
{
	my ($places) = @_;
	my $bindir = pg_config_path('--bindir');
	for my $program (qw(postgres initdb pg_ctl pgbench))
	{
		die "no $program in $bindir: install postgresql-15 or set PG_CONFIG\n"
		  unless -x "$bindir/$program";
	}
	check_places($places);
	return;
}

# Build bench_ceiling if needed; returns its path.
sub build_reader
{
	my ($bench) = @_;
	my $include = pg_config_path('--includedir');
	die "no libpq-fe.h in $include: apt-get install libpq-dev\n" unless -e "$include/libpq-fe.h";
	my $output = qx{make -s -C '$bench' 2>&1};
	die "cannot build bench_ceiling:\n$output" if $? != 0;
	return abs_path("$bench/../build/bench/bench_ceiling");
}

# A new file in results/ or RESULTS_DIR: {path}, and {write} for one record, which
# adds what a result must say to be compared with another one.  All checks come
# before this: with CHECK_ONLY=1 the command ends here, and bench/run knows that it
# can run.
sub new_results_file
{
	my ($root, $kind) = @_;
	exit 0 if $ENV{CHECK_ONLY};
	my $dir = $ENV{RESULTS_DIR} // abs_path($root) . '/results';
	mkdir $dir unless -d $dir;
	my $file = abs_path($dir) . "/$kind-" . strftime('%Y%m%d-%H%M%S', localtime) . '.jsonl';
	open my $out, '>>', $file or die "$file: $!\n";
	$out->autoflush(1);
	my $machine = about_machine($root);
	my $json = JSON::PP->new->canonical;
	return {
		path  => $file,
		cores => $machine->{cores},
		write => sub {
			my (%record) = @_;
			my %all = (%$machine, benchmark => $kind, time => strftime('%FT%TZ', gmtime), %record);
			print $out $json->encode(\%all), "\n" or die "$file: $!\n";
			return;
		},
	};
}

# Processor, memory and kernel, as one line.
sub hardware
{
	my @parts;
	for (['/proc/cpuinfo', qr/^model name\s*:\s*(.*\S)/m, '%s'],
		['/proc/meminfo', qr/^MemTotal:\s*(\d+) kB/m, '%.0f MB'])
	{
		my ($file, $pattern, $format) = @$_;
		open my $in, '<', $file or next;
		local $/ = undef;
		my ($found) = <$in> =~ $pattern or next;
		push @parts, sprintf $format, $format eq '%s' ? $found : $found / 1024;
	}
	my ($system, undef, $release, undef, $architecture) = POSIX::uname();
	return join ', ', @parts, "$system $release $architecture";
}

sub about_machine
{
	my ($root) = @_;
	my $cores  = qx{nproc};
	my $commit = qx{git -C '$root' describe --always --dirty 2>/dev/null} || 'unknown';
	my $version = pg_config_path('--version');
	chomp($cores, $commit);
	my %machine = (cores => $cores + 0, commit => $commit, postgresql => $version,
		machine => hardware(),
		load_at_start => $ENV{LOAD_AT_START} // load_average());
	$machine{load_at_start} += 0;
	$machine{options} = { map { ($_ => $ENV{$_}) } grep { defined $ENV{$_} } @OPTIONS };

	# The commit is that of the tree; the library may be another one.
	if (open my $library, '<:raw', pg_config_path('--pkglibdir') . '/pg_parallel_apply.so')
	{
		$machine{library_md5} = Digest::MD5->new->addfile($library)->hexdigest;
	}
	progress("the machine is busy (load $machine{load_at_start}): do not quote these figures")
	  if $machine{load_at_start} > $BUSY;
	return \%machine;
}

# Progress of a command of TOTAL steps that take about the same time.
my %steps;

sub start_steps
{
	my ($total) = @_;
	%steps = (total => $total, done => 0);
	return;
}

sub fewer_steps { my ($count) = @_; $steps{total} -= $count; return; }

# The next step begins; its line says how far we are and how long still.
sub step
{
	my ($text) = @_;
	my $left = '';
	$steps{start} //= time;
	if ($steps{done} > 0)
	{
		my $seconds = (time - $steps{start}) / $steps{done} * ($steps{total} - $steps{done});
		$left = $seconds < 90 ? sprintf(', about %d s left', $seconds)
		  : sprintf(', about %d min left', $seconds / 60 + 0.5);
	}
	progress(sprintf '[%d/%d%s] %s', ++$steps{done}, $steps{total}, $left, $text);
	return;
}

# Run WORK with a new contest (arguments as of Bench::Contest::new), then clean
# up; dies as WORK does, after showing what the servers said.
sub measuring
{
	my ($work, %arg) = @_;
	my $contest = Bench::Contest->new(%arg);
	my $ok = eval { $work->($contest); 1 };
	my $error = $@;
	print STDERR $contest->{cluster}->log_tails unless $ok || $interrupted;
	my @left_out = $contest->left_out;
	$contest->finish;
	die $error unless $ok;
	return @left_out;
}

# Run the benchmark WORK, then REPORT, which shows what there is; exit 1 on any
# error, 130 after Ctrl-C.
sub run_benchmark
{
	my ($work, $report) = @_;
	local @SIG{qw(INT TERM)} = (sub {
		$interrupted = 1;

		# Once more means at once; the guardian cleans up in any case.
		@SIG{qw(INT TERM)} = ('DEFAULT') x 2;
		die "interrupted\n";
	}) x 2;
	my $ok = eval { $work->(); 1 };
	my $error = $@;
	print STDERR $interrupted ? "\nINTERRUPTED; what follows is not complete\n" : "\nFAILED: $error"
	  unless $ok;
	my $reported = eval { $report->(); 1 };
	print STDERR "\nFAILED: $@" unless $reported;
	exit($ok && $reported ? 0 : $interrupted ? INTERRUPTED : 1);
}

1;
