# PpaFakePublisher.pm: a publisher that says what the test wants, on a Unix socket, for what a real walsender does not do.
#
#   my $fake = PpaFakePublisher->start(sub { my ($n, $from, $say) = @_; ... });
#       a process that serves one replication connection after the other; the code is called for the $n-th stream (from 1) and
#       says what is in it behind the position $from: $say->($message) sends a message of the logical replication protocol.
#       When it returns true the stream ends with CopyDone, else it goes on, silent, until the subscriber leaves.
#   $fake->conninfo                          for CREATE SUBSCRIPTION ... WITH (connect = false)
#   PpaFakePublisher::begin($lsn, $xid), commit($lsn), relation($relid, $name, @columns), insert($relid, @values)
#       messages; all columns are text, and the first one is the key
package PpaFakePublisher;

use strict;
use warnings;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils ();
use POSIX ();
use Time::HiRes qw(time);

use constant {
	PORT     => 5432,
	TEXT_OID => 25,
	# seconds between the epochs of Unix and of PostgreSQL
	EPOCH    => 946_684_800,
};

my %running;

sub start
{
	my ($class, $stream) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir_short();
	chmod 0755, $dir;
	my $server = IO::Socket::UNIX->new(Local => "$dir/.s.PGSQL." . PORT, Listen => 5) or die "socket: $!";
	chmod 0777, "$dir/.s.PGSQL." . PORT;
	my $pid = fork() // die "fork: $!";
	if ($pid == 0)
	{
		eval { serve($server, $stream); 1 } or print STDERR "fake publisher: $@";
		POSIX::_exit(0);
	}
	close $server;
	$running{$pid} = 1;
	return bless { dir => $dir, pid => $pid }, $class;
}

sub conninfo { my ($self) = @_; return "host=$self->{dir} port=" . PORT . ' dbname=fake user=fake'; }

# ---- messages

sub now { return int((time() - EPOCH) * 1_000_000); }
sub begin { my ($lsn, $xid) = @_; return 'B' . pack('Q>Q>N', $lsn, now(), $xid); }
sub commit { my ($lsn) = @_; return 'C' . pack('CQ>Q>Q>', 0, $lsn, $lsn + 8, now()); }

sub relation
{
	my ($relid, $name, @columns) = @_;
	my $first = 1;
	return 'R' . pack('NZ*Z*an', $relid, 'public', $name, 'd', scalar @columns)
	  . join '', map { pack('CZ*NN', $first-- > 0 ? 1 : 0, $_, TEXT_OID, 0xffffffff) } @columns;
}

sub insert
{
	my ($relid, @values) = @_;
	return 'I' . pack('Nan', $relid, 'N', scalar @values) . join '', map { 't' . pack('N/a*', $_) } @values;
}

# ---- the server's side of the protocol

sub frame { my ($type, $payload) = @_; return $type . pack('N', 4 + length $payload) . $payload; }

# A result of one row, and that the next command may come.
sub row
{
	my (@values) = @_;
	my $columns = join '', map { pack('Z*NnNnNn', "c$_", 0, 0, TEXT_OID, 0xffff, 0xffffffff, 0) } 1 .. @values;
	return frame('T', pack('n', scalar @values) . $columns)
	  . frame('D', pack('n', scalar @values) . join '', map { pack('N/a*', $_) } @values)
	  . frame('C', "SELECT 1\0") . frame('Z', 'I');
}

sub read_bytes
{
	my ($client, $count) = @_;
	my $bytes = '';
	while (length $bytes < $count)
	{
		sysread($client, $bytes, $count - length $bytes, length $bytes) or return;
	}
	return $bytes;
}

sub read_frame
{
	my ($client) = @_;
	my $type = read_bytes($client, 1) // return;
	my $length = read_bytes($client, 4) // return;
	return ($type, read_bytes($client, unpack('N', $length) - 4) // '');
}

sub write_all
{
	my ($client, $bytes) = @_;
	local $SIG{PIPE} = 'IGNORE';
	for (my $done = 0; $done < length $bytes;)
	{
		$done += syswrite($client, $bytes, length($bytes) - $done, $done) // die "the subscriber has gone\n";
	}
	return;
}

sub serve
{
	my ($server, $stream) = @_;
	my $streams = 0;
	while (my $client = $server->accept)
	{
		eval { talk($client, sub { $stream->(++$streams, @_) }); 1 } or print STDERR "fake publisher: $@";
		close $client;
	}
	return;
}

sub talk
{
	my ($client, $stream) = @_;
	my $length = read_bytes($client, 4) // return;
	read_bytes($client, unpack('N', $length) - 4);
	write_all($client, frame('R', pack('N', 0)) . frame('S', "server_version\00015.0\0")
		  . frame('S', "client_encoding\0UTF8\0") . frame('Z', 'I'));
	while (my ($type, $payload) = read_frame($client))
	{
		next if $type ne 'Q';
		if ($payload =~ /^IDENTIFY_SYSTEM/)  { write_all($client, row('1', '1', '0/1000000', 'fake')); }
		elsif ($payload =~ /^START_REPLICATION/) { return unless stream($client, position($payload), $stream); }
		elsif ($payload =~ /EXISTS/) { write_all($client, row('f')); }
		else                         { write_all($client, row('')); }
	}
	return;
}

# Where a stream is to start.
sub position
{
	my ($command) = @_;
	my ($high, $low) = $command =~ m{ LOGICAL ([0-9A-F]+)/([0-9A-F]+)} or die "no position: $command\n";
	return hex($high) << 32 | hex $low;
}

# One stream; false if the subscriber has left in it.
sub stream
{
	my ($client, $from, $stream) = @_;
	my $lsn = 0x1000000;
	write_all($client, frame('W', pack('Cn', 0, 0)));
	my $ends = $stream->(
		$from,
		sub {
			my ($message) = @_;
			$lsn += 8;
			write_all($client, frame('d', 'w' . pack('Q>Q>Q>', $lsn, $lsn, now()) . $message));
		});
	write_all($client, frame('c', '')) if $ends;
	while (my ($type) = read_frame($client))
	{
		next if $type ne 'c';
		write_all($client, frame('C', "START_REPLICATION\0") . frame('Z', 'I'));
		return 1;
	}
	return 0;
}

END
{
	local $?;
	kill 'KILL', $_ foreach keys %running;
}

1;
