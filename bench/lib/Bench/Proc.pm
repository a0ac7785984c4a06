# Bench::Proc: CPU time of server processes, from /proc.

package Bench::Proc;

use strict;
use warnings;

use Exporter qw(import);
use POSIX ();

our @EXPORT_OK = qw(cpu_seconds children_cpu);

my $TICK = 1 / POSIX::sysconf(POSIX::_SC_CLK_TCK());

# (parent pid, user + system seconds), or nothing when the process is gone.
sub read_stat
{
	my ($pid) = @_;
	open my $in, '<', "/proc/$pid/stat" or return;
	my $line = <$in> // return;

	# The second field is the name in brackets and may contain anything.
	$line =~ s/^.*\) // or return;
	my @field = split ' ', $line;
	return ($field[1], ($field[11] + $field[12]) * $TICK);
}

sub cpu_seconds
{
	my ($pid) = @_;
	my (undef, $seconds) = read_stat($pid);
	return $seconds;
}

# CPU seconds of each living child of PARENT, by pid.
sub children_cpu
{
	my ($parent) = @_;
	my %cpu;
	for my $dir (glob '/proc/[0-9]*')
	{
		my ($pid) = $dir =~ /(\d+)/;
		my ($ppid, $seconds) = read_stat($pid);
		$cpu{$pid} = $seconds if defined $ppid && $ppid == $parent;
	}
	return \%cpu;
}

1;
