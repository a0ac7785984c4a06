# Bench::Proc: CPU time, memory and disk reads of server processes, from /proc.

package Bench::Proc;

use strict;
use warnings;

use Exporter qw(import);
use POSIX ();

our @EXPORT_OK = qw(cpu_seconds children_cpu exited_cpu memory_bytes disk_bytes_read);

my $TICK = 1 / POSIX::sysconf(POSIX::_SC_CLK_TCK());

# The fields of /proc/PID/stat from the third on, or nothing when the process is
# gone: 1 = parent, 11 and 12 = user and system ticks, 13 and 14 = the same of
# children that ended.
sub read_stat
{
	my ($pid) = @_;
	open my $in, '<', "/proc/$pid/stat" or return;
	my $line = <$in> // return;

	# The second field is the name in brackets and may contain anything.
	$line =~ s/^.*\) // or return;
	return split ' ', $line;
}

# What a process has used.  The scheduler counts nanoseconds; where it does not tell,
# ticks of user and system time, which are cut off for each process and so favour those
# who share their work among many.
sub cpu_seconds
{
	my ($pid) = @_;
	if (open my $in, '<', "/proc/$pid/schedstat")
	{
		my ($ns) = split ' ', <$in> // '';
		return $ns / 1e9 if $ns;
	}
	my @field = read_stat($pid);
	return @field ? ($field[11] + $field[12]) * $TICK : undef;
}

# CPU seconds of each living child of PARENT, by pid.
sub children_cpu
{
	my ($parent) = @_;
	my %cpu;
	for my $dir (glob '/proc/[0-9]*')
	{
		my ($pid) = $dir =~ /(\d+)/;
		my @field = read_stat($pid);
		next unless @field && $field[1] == $parent;
		my $seconds = cpu_seconds($pid);
		$cpu{$pid} = $seconds if defined $seconds;
	}
	return \%cpu;
}

# CPU seconds of all children of PARENT that have ended.
sub exited_cpu
{
	my ($parent) = @_;
	my @field = read_stat($parent);
	return @field ? ($field[13] + $field[14]) * $TICK : 0;
}

# (largest resident size, private memory now) in bytes.  The first includes the
# pages of shared memory that the process has touched.
sub memory_bytes
{
	my ($pid) = @_;
	open my $in, '<', "/proc/$pid/status" or return (0, 0);
	my ($peak, $private) = (0, 0);
	while (<$in>)
	{
		$peak    = $1 * 1024 if /^VmHWM:\s+(\d+) kB/;
		$private = $1 * 1024 if /^RssAnon:\s+(\d+) kB/;
	}
	return ($peak, $private);
}

# Bytes that came from the disk for this process; 0 where we may not look.
sub disk_bytes_read
{
	my ($pid) = @_;
	open my $in, '<', "/proc/$pid/io" or return 0;
	while (<$in>)
	{
		return $1 + 0 if /^read_bytes: (\d+)/;
	}
	return 0;
}

1;
