# Bench::Measure: single figures of the servers, for Bench::Meter and Bench::Contest.

package Bench::Measure;

use strict;
use warnings;

use Exporter qw(import);

use Bench::Proc qw(cpu_seconds);

our @EXPORT_OK = qw(drop_page_cache statistics walsender wal_and_xid);

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

# WAL position in bytes and next transaction id of a server.
sub wal_and_xid
{
	my ($dbh) = @_;
	return $dbh->selectrow_array(q{
		SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())});
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

1;
