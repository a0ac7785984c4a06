# Bench::Publisher: a publisher elsewhere, named by PUBLISHER.
#
# PUBLISHER is a libpq connection string of words like host=... user=..., without
# dbname.  That server is then used instead of one of our own: database "bench" is
# created and dropped there, and while it exists slots and, for bench/sync, the
# setting synchronous_standby_names.  The database carries the name of our folder as
# its comment; only one that does is ever dropped, by the guardian of Bench::Cluster.

package Bench::Publisher;

use strict;
use warnings;

use DBI;
use Exporter qw(import);
use Time::HiRes qw(sleep time);

our @EXPORT_OK = qw(elsewhere check_publisher connection_words);

use constant {
	DATABASE => 'bench',
	SENDERS  => 4,         # one contender, the ceiling's reader, a slot being made, one late
	PATIENCE => 200,       # seconds for the clean-up; a stuck process of pglogical takes 180
};

# What tells of the server's speed, for the records.
my @SETTINGS = qw(autovacuum fsync max_wal_size shared_buffers synchronous_commit wal_level);

# The words KEY=VALUE of a connection string, values quoted as they are there.
sub connection_words
{
	my ($string) = @_;
	my @words;
	while ($string =~ /\G\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)+)(?=\s|\z)/gc)
	{
		push @words, "$1=$2";
	}
	die "not a connection string of words like host=... user=...\n"
	  if !@words || $string !~ /\G\s*\z/gc;
	return @words;
}

# The connection string, or undef where the publisher is one of our own.  It must say
# who and where: the server of the subscriber has another environment than we have.
sub elsewhere
{
	my $string = $ENV{PUBLISHER} // '';
	return undef if $string eq '';
	my @words = eval { connection_words($string) } or die "PUBLISHER is $@";
	my %there = map { /^(\w+)=/ ? ($1 => 1) : () } @words;
	die "PUBLISHER must not name a database: \"@{[DATABASE]}\" is created there\n"
	  if $there{dbname};
	die "PUBLISHER must say host=... and user=...\n"
	  unless ($there{host} || $there{hostaddr}) && $there{user};
	return join ' ', @words;
}

sub connect_there
{
	my ($string) = @_;
	my $dsn = 'dbi:Pg:' . join ';', connection_words("$string dbname=postgres connect_timeout=10");
	# DBI's own message shows the whole string, a password too.
	my $dbh = DBI->connect($dsn, '', '', { AutoCommit => 1, RaiseError => 0, PrintError => 0 })
	  or die $DBI::errstr, "\n";
	$dbh->{RaiseError} = 1;
	return $dbh;
}

# Die unless the publisher can be used.
#
#	slots		how many are needed
#	sync		bench/sync: the setting synchronous_standby_names will be changed
sub check_publisher
{
	my (%arg) = @_;
	my $string = elsewhere() // return;
	my $dbh = eval { connect_there($string) } or die "PUBLISHER cannot be reached: $@";
	my ($level, $slots, $senders, $standbys, $super, $rights, $taken) = $dbh->selectrow_array(q{
		SELECT current_setting('wal_level'),
			current_setting('max_replication_slots')::int
				- (SELECT count(*) FROM pg_replication_slots),
			current_setting('max_wal_senders')::int
				- (SELECT count(*) FROM pg_stat_replication),
			current_setting('synchronous_standby_names'), rolsuper, rolcreatedb AND rolreplication,
			EXISTS (SELECT 1 FROM pg_database WHERE datname = ?)
		FROM pg_roles WHERE rolname = current_user}, undef, DATABASE);
	$dbh->disconnect;
	my @wrong = (
		($level eq 'logical' ? () : "wal_level is $level, not logical"),
		($super || $rights ? () : 'its user needs CREATEDB and REPLICATION'),
		($slots >= $arg{slots} ? () : "$slots replication slots are free, $arg{slots} needed"),
		($senders >= SENDERS ? () : "$senders WAL senders are free, @{[SENDERS]} needed"),
		($taken ? "it has a database \"@{[DATABASE]}\"" : ()));
	if ($arg{sync})
	{
		push @wrong, 'its user must be a superuser to set synchronous_standby_names' unless $super;
		push @wrong, "synchronous_standby_names is set there ($standbys)" if $standbys ne '';
	}
	die "PUBLISHER cannot be used: ", join('; ', @wrong), "\n" if @wrong;
	return;
}

# Create the database; MARK: the name of our folder.  DBH is a session of database
# postgres.
sub create_database
{
	my ($dbh, $mark) = @_;
	$dbh->do("CREATE DATABASE @{[DATABASE]} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'");
	$dbh->do("COMMENT ON DATABASE @{[DATABASE]} IS " . $dbh->quote($mark));
	return;
}

# May we not say CHECKPOINT, or publish a whole schema?  (checkpoint, schema)
sub denied
{
	my ($dbh) = @_;
	my ($super, $checkpoint) = $dbh->selectrow_array(q{
		SELECT rolsuper, EXISTS (SELECT 1 FROM pg_roles
			WHERE rolname = 'pg_checkpoint' AND pg_has_role(oid, 'USAGE'))
		FROM pg_roles WHERE rolname = current_user});
	return (!$super && !$checkpoint, !$super);
}

# What a record says about the publisher; DBH is a session there.
sub about
{
	my ($dbh) = @_;
	my %setting = map { ($_ => $dbh->selectrow_array("SHOW $_")) } @SETTINGS;
	my ($version) = $dbh->selectrow_array('SHOW server_version');
	return (
		publisher_on       => "$dbh->{pg_host}:$dbh->{pg_port}",
		publisher_version  => $version,
		publisher_settings => \%setting);
}

# Settings of the whole server, here synchronous_standby_names: see remove.
sub configure
{
	my ($dbh, %settings) = @_;
	$dbh->do("ALTER SYSTEM SET $_ = $settings{$_}") for sort keys %settings;
	$dbh->do('SELECT pg_reload_conf()');
	return;
}

# Drop what belongs to MARK, and give the setting back that bench/sync changes.
sub remove
{
	my ($dbh, $mark) = @_;
	my ($ours) = $dbh->selectrow_array(q{
		SELECT 1 FROM pg_database WHERE datname = ? AND shobj_description(oid, 'pg_database') = ?},
		undef, DATABASE, $mark);
	return unless $ours;
	my ($standbys) = $dbh->selectrow_array('SHOW synchronous_standby_names');
	if ($standbys eq DATABASE)
	{
		$dbh->do('ALTER SYSTEM RESET synchronous_standby_names');
		$dbh->do('SELECT pg_reload_conf()');
	}
	$dbh->do(q{SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots
		WHERE database = ? AND active}, undef, DATABASE);
	$dbh->do("DROP DATABASE @{[DATABASE]} WITH (FORCE)");
	return;
}

# The same for the guardian: repeat until it is done, complain if it cannot be.
sub clean_up
{
	my ($string, $mark) = @_;
	my $end = time + PATIENCE;
	while (1)
	{
		return if eval { remove(connect_there($string), $mark); 1 };
		last if time > $end;
		sleep(0.5);
	}
	print STDERR "could not drop database \"@{[DATABASE]}\" on the publisher, do it yourself: $@";
	return;
}

1;
