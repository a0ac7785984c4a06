# Bench::Setup: what the benchmark commands share around the measuring.

package Bench::Setup;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter qw(import);
use POSIX qw(strftime);

use Bench::Cluster qw(progress pg_config_path);
use Bench::Contest;

our @EXPORT_OK = qw(positive_number build_reader new_results_file about_machine run_benchmark);

# Our own start-up stays below this load average.
my $BUSY = 1;

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

# (path, handle) of a new file in results/.
sub new_results_file
{
	my ($root, $kind) = @_;
	my $dir = abs_path($root) . '/results';
	mkdir $dir unless -d $dir;
	my $file = "$dir/$kind-" . strftime('%Y%m%d-%H%M%S', localtime) . '.jsonl';
	open my $out, '>>', $file or die "$file: $!\n";
	$out->autoflush(1);
	return ($file, $out);
}

# What a result must say to be compared with another one.
sub about_machine
{
	my ($root) = @_;
	my $cores  = qx{nproc};
	my $commit = qx{git -C '$root' describe --always --dirty 2>/dev/null} || 'unknown';
	my $version = pg_config_path('--version');
	chomp($cores, $commit);
	my $load = load_average();
	progress("the machine is busy (load $load): do not quote these figures") if $load > $BUSY;
	return { cores => $cores + 0, commit => $commit, postgresql => $version, load_at_start => $load };
}

# Start the nodes, run WORK with the contest, clean up; exit 1 on any error.
sub run_benchmark
{
	my ($megabytes, $work) = @_;
	my $contest;
	my $ok = eval {
		progress('the extension is not installed: both contenders are the built-in worker')
		  unless Bench::Contest::extension_installed();
		$contest = Bench::Contest->new(megabytes => $megabytes);
		$work->($contest);
		1;
	};
	my $error = $@;
	if (!$ok)
	{
		print STDERR $contest->{cluster}->log_tails if $contest;
		print STDERR "\nFAILED: $error";
	}
	$contest->finish if $contest;
	exit($ok ? 0 : 1);
}

1;
