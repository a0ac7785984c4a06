# Bench::Contest: one publisher, one subscriber, several contenders in turn.
#
# Drains: each contender has a database, a subscription and a slot of its own.
# The databases are copies of one, all slots are made before a backlog, so all
# contenders drain the same WAL from the same starting data, one after the other.
#
# Shared ({shared}; latency, synchronous replication): all contenders apply one
# and the same subscription.  It changes hands while it is disabled, so nobody
# finds a backlog that another one left.

package Bench::Contest;

use strict;
use warnings;

use JSON::PP;
use List::Util qw(sum0);
use Time::HiRes qw(sleep time);

use Bench::Cluster qw(progress pg_config_path poll_until long_do);
use Bench::Proc qw(cpu_seconds children_cpu exited_cpu memory_bytes disk_bytes_read);

use constant SUBSCRIPTION => 'bench';

my $PUBLICATION = 'bench';
my $CEILING     = 'ceiling';
my $TEMPLATE    = 'filled';

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

# Start both nodes and see which contenders can run.
#
#	places		=> { memory => MB, disk => MB }		free space needed
#	contenders	=> [ Bench::Contender ... ]
#	profile		=> { publisher => PLACE, subscriber => PLACE, ..._settings => {} }
#	shared		=> one subscription for all
sub new
{
	my ($class, %arg) = @_;
	my $cluster = Bench::Cluster->new(places => $arg{places});
	my $self = bless {
		cluster   => $cluster,
		installed => extension_installed(),
		profile   => $arg{profile},
		shared    => $arg{shared},
	}, $class;
	eval { $self->start($arg{contenders}); 1 } or do
	{
		my $error = $@;
		print STDERR $cluster->log_tails;
		$cluster->finish;
		die $error;
	};
	return $self;
}

sub start
{
	my ($self, $wanted) = @_;
	my ($cluster, $profile) = @$self{qw(cluster profile)};
	$cluster->start_node('publisher', $profile->{publisher}, wal_level => 'logical',
		%{ $profile->{publisher_settings} // {} });
	$cluster->start_node('subscriber', $profile->{subscriber},
		($self->{installed} ? (shared_preload_libraries => "'pg_parallel_apply'") : ()),
		%{ $profile->{subscriber_settings} // {} });
	$self->{subscriber} = $cluster->connect_to('subscriber', 'postgres');
	($self->{parallel}) = $self->{subscriber}->selectrow_array(
		q{SELECT 1 FROM pg_settings WHERE name = 'pg_parallel_apply.workers'});

	for my $c (@$wanted)
	{
		my $reason = $c->unavailable(@$self{qw(installed parallel)});
		if (defined $reason)
		{
			progress("contender $c->{name} is not available: $reason");
			push @{ $self->{left_out} }, "$c->{name} ($reason)";
			next;
		}
		$c->{database}     = $self->{shared} ? SUBSCRIPTION : "db_$c->{name}";
		$c->{subscription} = $self->{shared} ? SUBSCRIPTION : "sub_$c->{name}";
		push @{ $self->{contenders} }, $c;
	}
	die "none of the contenders is available\n" unless $self->contenders;

	my $publisher = $cluster->connect_to('publisher', 'postgres');
	$publisher->do('CREATE DATABASE bench');
	$self->{publisher} = $cluster->connect_to('publisher', 'bench');
	$self->{publisher}->do("CREATE PUBLICATION $PUBLICATION FOR ALL TABLES");
	return;
}

sub contenders { my ($self) = @_; return @{ $self->{contenders} // [] }; }
sub left_out   { my ($self) = @_; return @{ $self->{left_out} // [] }; }
sub finish     { my ($self) = @_; $self->{cluster}->finish; return; }

# The contenders in the order of this round.
sub order
{
	my ($self, $round) = @_;
	return rotated($round, $self->contenders);
}

# LIST as it runs in this round: rotated, and every second round backwards, so
# that nobody always follows the same one.
sub rotated
{
	my ($round, @list) = @_;
	push @list, shift @list for 2 .. $round;
	return $round % 2 ? @list : reverse @list;
}

# What a record says about where it was made.
sub about
{
	my ($self) = @_;
	my ($cluster, $profile) = @$self{qw(cluster profile)};
	$self->{flush_us} //= $cluster->flush_us('disk') if $cluster->{place}{disk};
	return (
		($self->{flush_us} ? (disk_flush_us => $self->{flush_us}) : ()),
		publisher_on  => $cluster->{device}{ $profile->{publisher} },
		subscriber_on => $cluster->{device}{ $profile->{subscriber} },
		profile       => $profile->{name});
}

# Fill the publisher and every contender's database: FILL->(node, database,
# handle) creates the tables in one database.
sub fill
{
	my ($self, $fill) = @_;
	my $cluster = $self->{cluster};
	my $first = $self->{shared} ? SUBSCRIPTION : $TEMPLATE;

	$fill->('publisher', 'bench', $self->{publisher});
	$self->{subscriber}->do("CREATE DATABASE $first");
	my $dbh = $cluster->connect_to('subscriber', $first);
	$dbh->do('CREATE EXTENSION pg_parallel_apply') if $self->{installed};
	$fill->('subscriber', $first, $dbh);
	long_do($_, 'VACUUM ANALYZE') for $self->{publisher}, $dbh;
	if ($self->{shared})
	{
		$_->{dbh} = $dbh for $self->contenders;
		return;
	}
	$dbh->disconnect;
	for my $c ($self->contenders)
	{
		long_do($self->{subscriber}, "CREATE DATABASE $c->{database} TEMPLATE $first STRATEGY file_copy");
		$c->{dbh} = $cluster->connect_to('subscriber', $c->{database});
	}
	$self->{subscriber}->do("DROP DATABASE $first");
	return;
}

# Undo fill: TABLES are the publisher's.
sub empty
{
	my ($self, @tables) = @_;
	$self->{publisher}->do('DROP TABLE ' . join ', ', @tables);
	my %gone;
	for my $c ($self->contenders)
	{
		next if $gone{ $c->{database} }++;
		(delete $c->{dbh})->disconnect;
		$self->{subscriber}->do("DROP DATABASE $c->{database}");
	}
	return;
}

# New slots and disabled subscriptions that start here and now.
sub create_subscriptions
{
	my ($self, %options) = @_;
	my $conninfo = $self->{cluster}->conninfo('publisher', 'bench');
	my $shared;
	for my $c ($self->contenders)
	{
		if ($shared)
		{
			$c->{subid} = $shared->{subid};
			next;
		}
		$c->create_subscription($conninfo, $PUBLICATION, %options);
		$shared = $c if $self->{shared};
	}
	return;
}

sub drop_subscriptions
{
	my ($self) = @_;
	$_->drop_subscription for $self->contenders;
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
	my ($self, $dbh) = @_;
	long_do($dbh, 'VACUUM');
	long_do($dbh, 'CHECKPOINT');
	return;
}

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

# Empty the operating system's page cache of the subscriber's data, so that they
# come from the disk again; says how.  Only what has been written can be dropped.
sub drop_page_cache
{
	my ($self) = @_;
	system('sync') == 0 or die "sync failed\n";
	if (open my $out, '>', '/proc/sys/vm/drop_caches')
	{
		return 'drop_caches' if print($out "3\n") && close $out;
	}

	# Not root: ask file by file (dd does posix_fadvise DONTNEED).
	my $dir = "$self->{cluster}{nodes}{subscriber}/base";
	system("find '$dir' -type f -exec dd if='{}' iflag=nocache count=0 status=none ';'") == 0
	  or die "cannot drop the page cache of $dir\n";
	return 'fadvise';
}

# WAL position in bytes and next transaction id of the subscriber.
sub wal_and_xid
{
	my ($dbh) = @_;
	return $dbh->selectrow_array(q{
		SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())});
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

# Make C the one that applies, with its settings and those of the workload.
sub choose
{
	my ($self, $c, $extra) = @_;
	my %settings = $c->settings(@$self{qw(installed parallel)}, $extra);
	$self->{cluster}->configure('subscriber', $c->{dbh}, %settings);
	return { map { my $name = $_; s/^pg_parallel_apply\.// for $name; ($name => $settings{$_}) } keys %settings };
}

# Drain the backlog with one contender and measure it.
#
#	settings	of the workload, for ours
#	cold		drop the page cache first
#
# local_commits are transaction ids used: exact, but for those rolled back for a
# retry, which count too.  xact_commits and rollbacks are what pg_stat_database
# says: reading transactions count there (our looks for the marker are subtracted,
# some twenty other ones of ours are not), and a process that is told to stop may
# count as one rollback.
sub run_drain
{
	my ($self, $c, $marker, %arg) = @_;
	my $dbh = $c->{dbh};
	my $postmaster = $self->{cluster}->postmaster_pid('subscriber');

	$self->tidy($dbh);
	$self->{publisher}->do('CHECKPOINT');
	my %run = (settings => $self->choose($c, $arg{settings}));
	$run{cache_dropped_by} = $self->drop_page_cache if $arg{cold};
	my $before = statistics($c);
	my ($wal_before, $xid_before) = wal_and_xid($dbh);
	my $cpu_before = { exited => exited_cpu($postmaster), %{ children_cpu($postmaster) } };

	my $start = time;
	$c->enable;
	my ($end, $looks) = wait_for_marker($c, $marker, $start);

	# The workers must still be alive here: a dead one has no /proc entry.
	my $cpu_after = { exited => exited_cpu($postmaster), %{ children_cpu($postmaster) } };
	my $sender    = $self->walsender($c);
	my ($wal_after, $xid_after) = wal_and_xid($dbh);
	my $state = $c->counters->{state};
	$run{seconds}               = $end - $start;
	$run{start_seconds}         = $sender->{started} - $start;
	$run{walsender_cpu_seconds} = $sender->{cpu};
	$run{wal_bytes}             = $wal_after - $wal_before;
	$self->look_at_processes($c, \%run, $cpu_before, $cpu_after);
	$self->disable($c);

	my $after = statistics($c);
	my %count = map { ($_ => $after->{count}{$_} - ($before->{count}{$_} // 0)) }
	  grep { $_ ne 'state' } keys %{ $after->{count} };
	$c->check_proof($count{transactions} // 0, $state, $run{workers_seen});
	$run{extension} = { %count, state => $state } if $c->{ours};
	$run{wal_fpi}        = $after->{fpi} - $before->{fpi};
	$run{rollbacks}      = $after->{rollbacks} - $before->{rollbacks};
	$run{xact_commits}   = $after->{commits} - $before->{commits} - $looks;
	$run{local_commits}  = $xid_after - $xid_before - 1;    # 1 = ENABLE's
	return \%run;
}

# Wait in one session until the marker row is visible; returns the time and the
# number of looks.  Each look is a transaction of its own, so that no snapshot of
# ours is held and keeps the workers from pruning hot rows.
sub wait_for_marker
{
	my ($c, $marker, $start) = @_;
	my $look = $c->{dbh}->prepare("SELECT 1 FROM marker WHERE id = $marker");
	my $next_error_look = $start + $ERROR_LOOK_EVERY;
	my $looks = 0;
	while (1)
	{
		$looks++;
		return (time, $looks) if $look->execute > 0;
		my $now = time;
		die "$c->{name}: the backlog was not drained in $DRAIN_PATIENCE s\n"
		  if $now - $start > $DRAIN_PATIENCE;
		if ($now > $next_error_look)
		{
			die "$c->{name}: applying the backlog failed, see the subscriber's log\n"
			  if $c->apply_errors;
			$looks++;
			$next_error_look = $now + $ERROR_LOOK_EVERY;
		}
		sleep($POLL_SECONDS);
	}
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

# Into RUN: CPU seconds spent during the run by role, memory and disk reads of
# the processes that apply.  "leader" is the subscription's own worker, "workers"
# those of ours, "exited" what has ended during the run.  Client backends are the
# benchmark's sessions and do not count.
sub look_at_processes
{
	my ($self, $c, $run, $before, $after) = @_;
	my $leader = $c->leader_pid;
	die "$c->{name}: the apply worker is gone at the end of the drain\n"
	  unless defined $leader && exists $after->{$leader};
	die "$c->{name}: a restarted apply worker cannot be told from the first\n"
	  if exists $before->{$leader};

	my %cpu = (leader => 0, workers => 0, exited => $after->{exited} - $before->{exited});
	my %worker = map { ($_ => 1) } grep { exists $after->{$_} } $c->worker_pids;
	my $rows = $c->{dbh}->selectall_arrayref('SELECT pid, backend_type FROM pg_stat_activity');
	for my $row (@$rows)
	{
		my ($pid, $role) = @$row;
		next if $role eq 'client backend' || !exists $after->{$pid};
		$role = 'leader'  if $pid == $leader;
		$role = 'workers' if $worker{$pid};
		$cpu{$role} += $after->{$pid} - ($before->{$pid} // 0);
	}
	$run->{cpu_seconds}        = \%cpu;
	$run->{workers_seen}       = keys %worker;
	$run->{worker_cpu_seconds} = [ map { $after->{$_} - ($before->{$_} // 0) } sort keys %worker ];
	for my $pid ($leader, keys %worker)
	{
		my ($peak, $private) = memory_bytes($pid);
		$run->{peak_memory_bytes}    += $peak;
		$run->{private_memory_bytes} += $private;
		$run->{disk_bytes_read}      += disk_bytes_read($pid);
	}
	return;
}

# Disable, and wait until all that applied and the walsender have left.
sub disable
{
	my ($self, $c) = @_;
	$c->disable;
	poll_until("$c->{name}: the apply workers to stop", sub { return !$c->is_running; });
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
	die "DATA DIFFER after the run of $c->{name}:\n"
	  . join '', map { "  $_: publisher $expected->{$_}, subscriber $found->{$_} (rows, hash)\n" }
	  @different;
}

1;
