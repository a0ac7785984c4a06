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

use DBD::Pg qw(:async);
use JSON::PP;
use Time::HiRes qw(sleep time);

use Bench::Cluster qw(progress pg_config_path poll_until long_do);
use Bench::Measure qw(drop_page_cache);
use Bench::Meter;
use Bench::Publisher;

use constant {
	SUBSCRIPTION  => 'bench',
	SPARE_SLOTS   => 20,         # of each node, beside one for each contender
	WAKE_UP_EVERY => 0.5,        # seconds, while DROP DATABASE waits
};

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

# PRELOAD=0: a server that does not know us, as a control for the built-in worker.
sub extension_installed
{
	return ($ENV{PRELOAD} // 1) && -e pg_config_path('--pkglibdir') . '/pg_parallel_apply.so'
	  && -e pg_config_path('--sharedir') . '/extension/pg_parallel_apply.control';
}

# Start both nodes and see which contenders can run.
#
#	places		=> { memory => MB, disk => MB }		free space needed
#	contenders	=> [ Bench::Contender ... ]
#	profile		=> { publisher => PLACE, subscriber => PLACE, ..._settings => {} }
#	shared		=> one subscription for all
#	foreign		=> contenders may have another kind of subscription (pglogical)
#	elsewhere	=> the command can do with a publisher elsewhere (Bench::Publisher)
sub new
{
	my ($class, %arg) = @_;
	die "PUBLISHER: this benchmark needs a publisher of its own\n"
	  if !$arg{elsewhere} && Bench::Publisher::elsewhere();
	my $cluster = Bench::Cluster->new(places => $arg{places});
	my $self = bless {
		cluster   => $cluster,
		installed => extension_installed(),
		profile   => $arg{profile},
		shared    => $arg{shared},
		foreign   => $arg{foreign},
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
	my $cluster = $self->{cluster};
	$self->{wanted} = $wanted;
	$self->start_node($_) for 'publisher', 'subscriber';
	$self->{subscriber} = $cluster->connect_to('subscriber', 'postgres');
	($self->{parallel}) = $self->{subscriber}->selectrow_array(
		q{SELECT 1 FROM pg_settings WHERE name = 'pg_parallel_apply.workers'});
	$self->prepare_publisher;

	for my $c (@$wanted)
	{
		my $reason = $c->unavailable(@$self{qw(installed parallel)}, $self);
		if (defined $reason)
		{
			progress("contender $c->{name} is not available: $reason");
			push @{ $self->{left_out} }, "$c->{name} ($reason)";
			next;
		}
		$c->{database}     = $self->{shared} ? SUBSCRIPTION : "db_$c->{id}";
		$c->{subscription} = $self->{shared} ? SUBSCRIPTION : "sub_$c->{id}";
		$c->{conninfo}     = $cluster->conninfo('subscriber', $c->{database});
		push @{ $self->{contenders} }, $c;
	}
	die "none of the contenders is available\n" unless $self->contenders;
	return;
}

# One node of ours, with what the contenders need; a publisher elsewhere is there.
sub start_node
{
	my ($self, $name) = @_;
	my ($cluster, $profile) = @$self{qw(cluster profile)};
	my @wanted = @{ $self->{wanted} };
	return if $cluster->is_elsewhere($name);
	my @libraries = $self->{installed} && $name eq 'subscriber' ? 'pg_parallel_apply' : ();
	my %settings = ($name eq 'publisher' ? (wal_level => 'logical') : ());
	$settings{max_replication_slots} = $settings{max_wal_senders} = @wanted + SPARE_SLOTS
	  if @wanted > SPARE_SLOTS;
	for my $c ($self->{foreign} ? @wanted : ())
	{
		my %more = $c->start_settings($name, $profile);
		push @libraries, delete $more{library} // ();
		%settings = (%settings, %more);
	}
	$settings{shared_preload_libraries} = "'@{[join ', ', @libraries]}'" if @libraries;
	%settings = (%settings, %{ $profile->{"${name}_settings"} // {} });
	$cluster->start_node($name, $profile->{$name}, %settings);
	return;
}

# The database and the publication.  Of a publisher elsewhere we may not be superuser;
# then the publication names its tables once they are there.
sub prepare_publisher
{
	my ($self) = @_;
	my $cluster = $self->{cluster};
	my $dbh = $cluster->connect_to('publisher', 'postgres');
	if ($cluster->is_elsewhere('publisher'))
	{
		Bench::Publisher::create_database($dbh, $cluster->{dir});
		@$self{qw(no_checkpoint no_schema)} = Bench::Publisher::denied($dbh);
	}
	else
	{
		$dbh->do('CREATE DATABASE bench');
	}
	$self->{publisher} = $cluster->connect_to('publisher', 'bench');
	$self->{publisher}->do("CREATE PUBLICATION $PUBLICATION"
		  . ($self->{no_schema} ? '' : ' FOR TABLES IN SCHEMA public'));
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

# LIST as it runs in this round: every second round backwards, and each such pair of
# rounds begins with another one, so that nobody always follows the same one or is
# always the first.
sub rotated
{
	my ($round, @list) = @_;
	push @list, shift @list for 1 .. int(($round - 1) / 2);
	return $round % 2 ? @list : reverse @list;
}

# Settings of a node that are not the server's defaults and may matter.  Ours are those
# of the contender.
sub chosen_settings
{
	my ($dbh) = @_;
	return { map { @$_ } @{ $dbh->selectall_arrayref(q{
		SELECT name, setting FROM pg_settings
		WHERE source IN ('configuration file', 'command line', 'global', 'database')
			AND name !~ '^(pg_parallel_apply|lc_|log_|unix_socket|listen_|port$|hba_|ident_|config_|data_dir)'
			AND name NOT IN ('TimeZone', 'DateStyle', 'default_text_search_config', 'external_pid_file', 'cluster_name')
		ORDER BY 1}) } };
}

# What a record says about where it was made.
sub about
{
	my ($self) = @_;
	my ($cluster, $profile) = @$self{qw(cluster profile)};
	$self->{flush_us} //= $cluster->flush_us('disk') if $cluster->{place}{disk};
	$self->{server_settings} //= { map { ($_ => chosen_settings($self->{$_})) } qw(publisher subscriber) };
	return (
		server_settings => $self->{server_settings},
		($self->{flush_us} ? (disk_flush_us => $self->{flush_us}) : ()),
		($cluster->is_elsewhere('publisher') ? Bench::Publisher::about($self->{publisher})
			: (publisher_on => $cluster->{device}{ $profile->{publisher} })),
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
	$self->publish_only(@{ $self->{publisher}->selectcol_arrayref(
				q{SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public'}) })
	  if $self->{no_schema};
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
	$self->drop_database($first);
	return;
}

# On the subscriber.  A library may have a process that must be woken for it.
sub drop_database
{
	my ($self, $database) = @_;
	my $dbh = $self->{subscriber};
	my ($admin, $next) = (undef, time + WAKE_UP_EVERY);
	$dbh->do("DROP DATABASE $database WITH (FORCE)", { pg_async => PG_ASYNC });
	until ($dbh->pg_ready)
	{
		sleep(0.005);
		next if time < $next;
		$admin //= $self->{cluster}->connect_to('subscriber', 'postgres');
		$_->wake_up($admin) for @{ $self->{wanted} };
		$next = time + WAKE_UP_EVERY;
	}
	return $dbh->pg_result;
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
		$self->drop_database($c->{database});
	}
	return;
}

# New slots and disabled subscriptions that start here and now.
sub create_subscriptions
{
	my ($self, %options) = @_;
	my $shared;
	$_->prepare_publisher($self) for $self->contenders;
	for my $c ($self->contenders)
	{
		if ($shared)
		{
			$c->{subid} = $shared->{subid};
			next;
		}
		$self->create_subscription($c, %options);
		$shared = $c if $self->{shared};
	}
	return;
}

sub create_subscription
{
	my ($self, $c, %options) = @_;
	$c->create_subscription($self->{cluster}->conninfo('publisher', 'bench'), $PUBLICATION, %options);
	return;
}

# Publish these tables and no others.
sub publish_only
{
	my ($self, @tables) = @_;
	$self->{publisher}->do("DROP PUBLICATION $PUBLICATION");
	$self->{publisher}->do("CREATE PUBLICATION $PUBLICATION FOR TABLE " . join ', ', @tables);
	return;
}

sub drop_subscriptions
{
	my ($self) = @_;
	$_->drop_subscription        for $self->contenders;
	$_->restore_publisher($self) for $self->contenders;
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
	long_do($dbh, 'CHECKPOINT') unless $dbh == $self->{publisher} && $self->{no_checkpoint};
	return;
}

# Somebody else's publisher may not allow it.
sub checkpoint_publisher
{
	my ($self) = @_;
	long_do($self->{publisher}, 'CHECKPOINT') unless $self->{no_checkpoint};
	return;
}

# Read the backlog with the minimal client.
sub run_ceiling
{
	my ($self, $program, $until) = @_;
	$self->checkpoint_publisher;
	my $line = $self->{cluster}->run_client($program,
		$self->{cluster}->conninfo('publisher', 'bench'),
		$CEILING, $PUBLICATION, $until);
	return decode_json($line);
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
#	work		where there is no backlog: called once the subscription is enabled;
#				commits the changes and the marker, returns when the clock started
sub run_drain
{
	my ($self, $c, $marker, %arg) = @_;

	$self->tidy($c->{dbh});
	$self->checkpoint_publisher;
	my %run = (settings => $self->choose($c, $arg{settings}));
	$run{cache_dropped_by} = drop_page_cache($self->{cluster}{nodes}{subscriber}) if $arg{cold};
	my $meter = Bench::Meter->start($self, $c);

	my $start = time;
	$c->enable;
	$start = $arg{work}->() if $arg{work};
	my ($end, $looks) = wait_for_marker($c, $marker, $start);
	$run{seconds} = $end - $start;
	$meter->stop(\%run);
	my $started = $meter->sender_started;
	$run{start_seconds} = $started - $start if defined $started;
	$self->disable($c);
	$meter->count(\%run);
	$run{xact_commits} -= $looks;
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

# Rows and order-independent content hash of every published table, or of those rows
# that meet a condition: {table => SQL}.
sub contents
{
	my ($self, $dbh, $where) = @_;
	return {
		map { ($_ => join ' ', $dbh->selectrow_array(
				"SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM $_ t"
				  . ($where->{$_} ? " WHERE $where->{$_}" : ''))) }
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
