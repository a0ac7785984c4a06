# Bench::Contest: one publisher, one subscriber, two contenders.
#
# Each contender has its own database, subscription and slot on the same two
# nodes: "b" is applied by the built-in worker, "o" by pg_parallel_apply.  Both
# slots are made before a backlog, so both contenders drain the same WAL from
# the same starting data, one after the other.  Without an installed extension
# both contenders are the built-in worker (to work on the benchmark itself).

package Bench::Contest;

use strict;
use warnings;

use JSON::PP;
use Time::HiRes qw(sleep time);

use Bench::Cluster qw(progress pg_config_path poll_until);
use Bench::Proc qw(cpu_seconds children_cpu);

my $PUBLICATION = 'bench';
my $CEILING     = 'ceiling';

# How often the waiting session looks for the marker: below 0.3 % of a drain
# of 2 s, and about 1 % of one core.
my $POLL_SECONDS = 0.005;

# The longest drain, and how often to look for apply errors: a worker that
# fails is restarted for ever.  In seconds.
my $DRAIN_PATIENCE   = 300;
my $ERROR_LOOK_EVERY = 1;

sub extension_installed
{
	return -e pg_config_path('--pkglibdir') . '/pg_parallel_apply.so'
	  && -e pg_config_path('--sharedir') . '/extension/pg_parallel_apply.control';
}

# Start both nodes with empty databases.
sub new
{
	my ($class, %arg) = @_;
	my $cluster = Bench::Cluster->new(megabytes => $arg{megabytes});
	my $self = bless { cluster => $cluster, installed => extension_installed() }, $class;

	$cluster->start_node('publisher', wal_level => 'logical');
	$cluster->start_node(
		'subscriber',
		$self->{installed}
		? ( shared_preload_libraries           => "'pg_parallel_apply'",
			'pg_parallel_apply.subscriptions' => "'o.sub_o'")
		: ());

	$self->{contenders} = [
		{ name => 'builtin', database => 'b', subscription => 'sub_b', ours => 0 },
		{ name => 'ours', database => 'o', subscription => 'sub_o', ours => $self->{installed} },
	];
	my $publisher  = $cluster->connect_to('publisher',  'postgres');
	my $subscriber = $cluster->connect_to('subscriber', 'postgres');
	$publisher->do('CREATE DATABASE bench');
	$self->{publisher} = $cluster->connect_to('publisher', 'bench');
	$self->{publisher}->do("CREATE PUBLICATION $PUBLICATION FOR ALL TABLES");
	for my $c ($self->contenders)
	{
		$subscriber->do("CREATE DATABASE $c->{database}");
		$c->{dbh} = $cluster->connect_to('subscriber', $c->{database});
		$c->{dbh}->do('CREATE EXTENSION pg_parallel_apply') if $c->{ours};
	}
	return $self;
}

sub contenders { my ($self) = @_; return @{ $self->{contenders} }; }
sub finish     { my ($self) = @_; $self->{cluster}->finish; return; }

# Every database that a workload's tables live in, as [node, database, handle].
sub places
{
	my ($self) = @_;
	return ([ 'publisher', 'bench', $self->{publisher} ],
		map { [ 'subscriber', $_->{database}, $_->{dbh} ] } $self->contenders);
}

# New slots and disabled subscriptions that start here and now.
sub create_subscriptions
{
	my ($self) = @_;
	my $conninfo = $self->{cluster}->conninfo('publisher', 'bench');
	for my $c ($self->contenders)
	{
		$c->{dbh}->do("CREATE SUBSCRIPTION $c->{subscription} CONNECTION '$conninfo'"
			  . " PUBLICATION $PUBLICATION WITH (enabled = false, copy_data = false)");
	}
	return;
}

sub drop_subscriptions
{
	my ($self) = @_;
	$_->{dbh}->do("DROP SUBSCRIPTION $_->{subscription}") for $self->contenders;
	return;
}

sub create_ceiling_slot
{
	my ($self) = @_;
	$self->{publisher}->do("SELECT pg_create_logical_replication_slot('$CEILING', 'pgoutput')");
	return;
}

sub drop_ceiling_slot
{
	my ($self) = @_;
	$self->{publisher}->do("SELECT pg_drop_replication_slot('$CEILING')");
	return;
}

# Commit the marker row that ends a backlog; returns an LSN that only the
# marker's own commit passes.
sub commit_marker
{
	my ($self, $id) = @_;
	my $dbh = $self->{publisher};
	$dbh->begin_work;
	$dbh->do("INSERT INTO marker VALUES ($id)");
	my ($lsn) = $dbh->selectrow_array('SELECT pg_current_wal_insert_lsn()');
	$dbh->commit;
	return $lsn;
}

# The same quiet start for each run.
sub tidy
{
	my ($self, @handles) = @_;
	for my $dbh (@handles)
	{
		$dbh->do('VACUUM');
		$dbh->do('CHECKPOINT');
	}
	return;
}

sub tidy_publisher { my ($self) = @_; $self->tidy($self->{publisher}); return; }

# Read the backlog with the minimal client.
sub run_ceiling
{
	my ($self, $program, $until) = @_;
	$self->{publisher}->do('CHECKPOINT');
	my $line = $self->{cluster}->run_client($program,
		$self->{cluster}->conninfo('publisher', 'bench'),
		$CEILING, $PUBLICATION, $until);
	return decode_json($line);
}

# WAL position in bytes and next transaction id of the subscriber.
sub wal_and_xid
{
	my ($dbh) = @_;
	return $dbh->selectrow_array(q{
		SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())});
}

sub full_page_images
{
	my ($dbh) = @_;
	return ($dbh->selectrow_array('SELECT wal_fpi FROM pg_stat_wal'))[0];
}

# Drain the backlog with one contender and measure it.
#
# Local commits are counted by transaction ids used: exact and at once, where
# pg_stat_database lags and also counts reading transactions, our polls too.
sub run_drain
{
	my ($self, $c, $marker) = @_;
	my $dbh = $c->{dbh};
	my $postmaster = $self->{cluster}->postmaster_pid('subscriber');

	$self->tidy($dbh);
	$self->{publisher}->do('CHECKPOINT');
	my $fpi_before = full_page_images($dbh);
	my ($wal_before, $xid_before) = wal_and_xid($dbh);
	my $cpu_before = children_cpu($postmaster);

	my $start = time;
	$self->enable($c);
	my $end = wait_for_marker($c, $marker, $start);

	# The workers must still be alive here: a dead one has no /proc entry.
	my $cpu_after = children_cpu($postmaster);
	my $sender    = $self->walsender($c);
	my ($wal_after, $xid_after) = wal_and_xid($dbh);
	my %run = (
		seconds               => $end - $start,
		start_seconds         => $sender->{started} - $start,
		walsender_cpu_seconds => $sender->{cpu},
		cpu_seconds           => $self->cpu_by_role($c, $cpu_before, $cpu_after),
		wal_bytes             => $wal_after - $wal_before,
		local_commits         => $xid_after - $xid_before - 1,    # 1 = ENABLE's
	);
	$run{extension} = $self->extension_statistics($c) if $c->{ours};
	$self->disable($c);
	$run{wal_fpi} = full_page_images($dbh) - $fpi_before;
	return \%run;
}

# Wait in one session until the marker row is visible; returns the time.  Each
# look is a transaction of its own, so that no snapshot of ours is held and
# keeps the workers from pruning hot rows.
sub wait_for_marker
{
	my ($c, $marker, $start) = @_;
	my $look = $c->{dbh}->prepare("SELECT 1 FROM marker WHERE id = $marker");
	my $next_error_look = $start + $ERROR_LOOK_EVERY;
	while (1)
	{
		return time if $look->execute > 0;
		my $now = time;
		die "$c->{name}: the backlog was not drained in $DRAIN_PATIENCE s\n"
		  if $now - $start > $DRAIN_PATIENCE;
		if ($now > $next_error_look)
		{
			die "$c->{name}: applying the backlog failed, see the subscriber's log\n"
			  if apply_errors($c);
			$next_error_look = $now + $ERROR_LOOK_EVERY;
		}
		sleep($POLL_SECONDS);
	}
}

sub apply_errors
{
	my ($c) = @_;
	my ($count) = $c->{dbh}->selectrow_array(
		'SELECT apply_error_count FROM pg_stat_subscription_stats WHERE subname = ?',
		undef, $c->{subscription});
	return $count;
}

sub walsender
{
	my ($self, $c) = @_;
	my ($pid, $started) = $self->{publisher}->selectrow_array(q{
		SELECT pid, extract(epoch FROM backend_start)
		FROM pg_stat_replication WHERE application_name = ?}, undef, $c->{subscription});
	my $cpu = defined $pid ? cpu_seconds($pid) : undef;
	die "$c->{name}: the walsender is gone at the end of the drain\n" unless defined $cpu;
	return { cpu => $cpu, started => $started };
}

# CPU seconds spent during the run, by role; "apply" is the subscription's own
# worker.  Client backends are the benchmark's sessions and do not count.
sub cpu_by_role
{
	my ($self, $c, $before, $after) = @_;
	my ($apply) = $c->{dbh}->selectrow_array(
		'SELECT pid FROM pg_stat_subscription WHERE subname = ? AND relid IS NULL',
		undef, $c->{subscription});
	die "$c->{name}: the apply worker is gone at the end of the drain\n"
	  unless defined $apply && exists $after->{$apply};
	die "$c->{name}: a restarted apply worker cannot be told from the first\n"
	  if exists $before->{$apply};

	my %cpu;
	my $rows = $c->{dbh}->selectall_arrayref('SELECT pid, backend_type FROM pg_stat_activity');
	for my $row (@$rows)
	{
		my ($pid, $role) = @$row;
		next if $role eq 'client backend' || !exists $after->{$pid};
		$role = 'apply' if $pid == $apply;
		$cpu{$role} += $after->{$pid} - ($before->{$pid} // 0);
	}
	return \%cpu;
}

# Our own counters; also the proof that the extension did the work.
sub extension_statistics
{
	my ($self, $c) = @_;
	my $row = $c->{dbh}->selectrow_hashref(q{
		SELECT state, groups, transactions, multi_insert_rows, group_replays, missing_rows, errors
		FROM parallel_apply.stat_subscription WHERE subname = ?}, undef, $c->{subscription});
	die "ours: no row in parallel_apply.stat_subscription\n" unless $row;
	die "ours: the subscription was passed through to the built-in worker\n"
	  if $row->{state} eq 'passed through' || !$row->{transactions};
	my $state = delete $row->{state};
	return { state => $state, map { ($_ => $row->{$_} + 0) } keys %$row };
}

sub enable
{
	my ($self, $c) = @_;
	$c->{dbh}->do("ALTER SUBSCRIPTION $c->{subscription} ENABLE");
	return;
}

# Disable, and wait until worker and walsender have left.
sub disable
{
	my ($self, $c) = @_;
	$c->{dbh}->do("ALTER SUBSCRIPTION $c->{subscription} DISABLE");
	poll_until("$c->{name}: the apply worker to stop", sub {
		return !$c->{dbh}->selectrow_array(
			'SELECT 1 FROM pg_stat_subscription WHERE subname = ? AND pid IS NOT NULL',
			undef, $c->{subscription});
	});
	poll_until("$c->{name}: the walsender to stop", sub {
		return !$self->{publisher}->selectrow_array(
			'SELECT 1 FROM pg_stat_replication WHERE application_name = ?',
			undef, $c->{subscription});
	});
	return;
}

# Rows and order-independent content hash of every published table.
sub contents
{
	my ($self, $dbh) = @_;
	return {
		map { ($_ => join ' ', $dbh->selectrow_array(
				"SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM $_ t")) }
		  $self->published_tables
	};
}

sub published_tables
{
	my ($self) = @_;
	return @{ $self->{publisher}->selectcol_arrayref(
			q{SELECT format('%I.%I', schemaname, tablename) FROM pg_publication_tables
			WHERE pubname = ? ORDER BY 1}, undef, $PUBLICATION) };
}

# Die when a contender's data differ from the publisher's (from contents()).
sub check_equal
{
	my ($self, $c, $expected) = @_;
	my $found = $self->contents($c->{dbh});
	my @different = grep { $found->{$_} ne $expected->{$_} } sort keys %$expected;
	return unless @different;
	die "DATA DIFFER after the drain by $c->{name}:\n"
	  . join '', map { "  $_: publisher $expected->{$_}, subscriber $found->{$_} (rows, hash)\n" }
	  @different;
}

1;
