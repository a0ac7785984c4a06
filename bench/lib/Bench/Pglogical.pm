# Bench::Pglogical: the extension pglogical as a contender.
#
# It has its own worker, slot and output plugin, so it needs its library on both
# nodes, a node of its own on each, and replication sets that say what is published:
# the tables of the publication, those without a primary key for inserts only.  Its
# subscription is made without initial copy and disabled at once.  It knows neither
# the options of a native subscription nor its views.

package Bench::Pglogical;

use strict;
use warnings;

use parent -norequire, 'Bench::Contender';

use Bench::Cluster qw(pg_config_path poll_until);

use constant {
	PLUGIN => 'pglogical_output',
	SETS   => 'default,default_insert_only',
};

sub engine { return 'pglogical'; }

sub installed
{
	return -e pg_config_path('--pkglibdir') . '/pglogical.so'
	  && -e pg_config_path('--sharedir') . '/extension/pglogical.control';
}

# Its synchronous_commit is a setting of the server, not of the subscription.
sub start_settings
{
	my ($self, $node, $profile) = @_;
	return () unless installed();
	my $commit = $profile->{subscription_options}{synchronous_commit};
	return (
		library => 'pglogical',
		($node eq 'subscriber' && $commit ? ('pglogical.synchronous_commit' => $commit) : ()));
}

sub unavailable
{
	my ($self, $ours, $parallel, $contest) = @_;
	return 'the extension is not installed: apt-get install postgresql-15-pglogical'
	  unless installed();
	return 'it has a subscription of its own kind; bench/drain and bench/sweep measure it'
	  unless $contest->{foreign};
	return unless $contest->{cluster}->is_elsewhere('publisher');
	return 'it needs a superuser on the publisher' if $contest->{no_schema};
	my ($libraries, $plugins) = $contest->{publisher}->selectrow_array(q{
		SELECT current_setting('shared_preload_libraries'), coalesce(
			current_setting('output_plugin_libraries', true), ?)}, undef, PLUGIN);
	return 'the publisher has not preloaded it' unless $libraries =~ /\bpglogical\b/;
	return "the publisher's output_plugin_libraries does not name @{[PLUGIN]}"
	  unless $plugins =~ /\b@{[PLUGIN]}\b/;
	return;
}

# Later minor releases of the server want to be told which output plugins may be used.
sub prepare_publisher
{
	my ($self, $contest) = @_;
	my ($dbh, $cluster) = ($contest->{publisher}, $contest->{cluster});
	my ($plugins) =
	  $dbh->selectrow_array(q{SELECT current_setting('output_plugin_libraries', true)});
	$cluster->configure('publisher', $dbh,
		output_plugin_libraries => "'" . join(', ', $plugins, PLUGIN) . "'")
	  if defined $plugins && $plugins !~ /\b@{[PLUGIN]}\b/;

	create_extension($dbh, 'publisher', $cluster->conninfo('publisher', 'bench'));
	for my $table ($contest->published_tables)
	{
		$dbh->do(q{SELECT pglogical.replication_set_add_table(
				CASE WHEN EXISTS (
						SELECT 1 FROM pg_index WHERE indrelid = $1::regclass AND indisprimary)
					THEN 'default' ELSE 'default_insert_only' END, $1::regclass)}, undef, $table);
	}
	return;
}

# Tables in a set cannot be dropped.
sub restore_publisher
{
	my ($self, $contest) = @_;
	$contest->{publisher}->do(q{
		SELECT pglogical.replication_set_remove_table(set_name, relid)
		FROM pglogical.tables WHERE set_name IS NOT NULL});
	return;
}

# The extension and its node, once and for good: a session that has used it cannot use
# it when it has been dropped and created again.
sub create_extension
{
	my ($dbh, $node, $conninfo) = @_;
	return if $dbh->selectrow_array(q{SELECT 1 FROM pg_extension WHERE extname = 'pglogical'});
	$dbh->do('CREATE EXTENSION pglogical');
	$dbh->do('SELECT pglogical.create_node(?, ?)', undef, $node, $conninfo);
	return;
}

# Of the OPTIONS synchronous_commit is known: see start_settings.
sub create_subscription
{
	my ($self, $conninfo, $publication, %options) = @_;
	my @unknown = grep { $_ ne 'synchronous_commit' } sort keys %options;
	die "pglogical knows no @unknown\n" if @unknown;
	my $dbh = $self->{dbh};
	create_extension($dbh, 'subscriber', $self->{conninfo});
	$dbh->do(q{SELECT pglogical.create_subscription(
			?, ?, string_to_array(?, ','), false, false, '{}')},
		undef, $self->{subscription}, $conninfo, SETS);
	poll_until('pglogical to make its slot', sub { return $self->status eq 'replicating'; });
	($self->{slot}) = $dbh->selectrow_array(
		'SELECT slot_name FROM pglogical.show_subscription_status(?)',
		undef, $self->{subscription});
	$self->disable;
	poll_until('pglogical to stop', sub { return !$self->is_running; });
	return;
}

sub status
{
	my ($self) = @_;
	return ($self->{dbh}->selectrow_array(
		'SELECT status FROM pglogical.show_subscription_status(?)',
		undef, $self->{subscription}))[0];
}

sub drop_subscription
{
	my ($self) = @_;
	$self->{dbh}->do('SELECT pglogical.drop_subscription(?)', undef, $self->{subscription});
	return;
}

sub enable
{
	my ($self) = @_;
	delete $self->{seen};
	$self->{dbh}->do('SELECT pglogical.alter_subscription_enable(?, true)',
		undef, $self->{subscription});
	return;
}

sub disable
{
	my ($self) = @_;
	$self->{dbh}->do('SELECT pglogical.alter_subscription_disable(?, true)',
		undef, $self->{subscription});
	return;
}

sub leader_pid
{
	my ($self) = @_;
	return ($self->{dbh}->selectrow_array(q{
		SELECT pid FROM pg_stat_activity
		WHERE backend_type LIKE 'pglogical apply %' AND datname = current_database()}))[0];
}

# It counts no errors: a worker that was there and is not the same any more has failed.
sub apply_errors
{
	my ($self) = @_;
	my $pid = $self->leader_pid;
	my $before = $self->{seen} //= $pid;
	return defined $before && $before != ($pid // 0) ? 1 : 0;
}

# Ours had no part in it, and the position that its worker keeps has moved.
sub check_proof
{
	my ($self, @seen) = @_;
	$self->SUPER::check_proof(@seen);
	my ($position) = $self->{dbh}->selectrow_array(
		'SELECT remote_lsn FROM pg_replication_origin_status WHERE external_id = ?',
		undef, $self->{slot});
	die "pglogical: its position has not moved: somebody else has applied\n"
	  if !defined $position || $position eq ($self->{position} // '0/0');
	$self->{position} = $position;
	return;
}

# Its supervisor does not look at signals (a barrier that DROP DATABASE waits for) in
# the three minutes that it sleeps.  A change to any node of it wakes it.
sub wake_up
{
	my ($self, $dbh) = @_;
	$dbh->do('CREATE EXTENSION IF NOT EXISTS pglogical');
	$dbh->do(q{SELECT pglogical.create_node('wake_up', 'dbname=postgres')});
	$dbh->do(q{SELECT pglogical.drop_node('wake_up')});
	return;
}

1;
