# TortureCheck.pm: what must hold, during a round and at its end. Each function returns texts that say what is wrong.
#
# $run is the round, see torture.pl: pub, sub, schema, log_pos, since.
#
#   torture_log_check($run)      new entries of the logs: crashes, and errors that serial apply would not have had
#   torture_wait_applied($run)   waits until all that is committed on the publisher is applied
#   torture_compare($run)        the tables of both sides, and what local sessions have written down
#   torture_origin_check($run)   for a subscriber that was stopped at once and is up again, with no apply worker so far:
#                                are there exactly the transactions that its origin says, and all that was confirmed?
#   torture_wait_ready($run, $seconds)  true when all tables are synchronised within that time
package TortureCheck;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils ();
use PpaTest;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(torture_log_check torture_wait_applied torture_compare torture_origin_check torture_wait_ready);

# Errors of the subscriber's processes that the chaos explains, by backend type. Everything else is a failure.
my $ended = qr/^terminating (?:logical replication worker|background worker "[^"]+") due to administrator command$/;
my $cancelled = qr/^canceling statement due to user request$/;
my $verbs = qr/connect to the publisher|receive data from WAL stream|send data to WAL stream|start WAL streaming/;
my $lost = qr/^could not (?:$verbs|send end-of-streaming message to primary): /;
my $taken = qr/^replication (?:origin with (?:OID|ID) \d+ is already active for PID \d+|slot "[^"]+" is active for PID \d+)/;
my $stopped = qr/^terminating connection due to administrator command$/;
my %expected = (
	'logical replication worker' => qr/$ended|$cancelled|$lost|$taken/,
	'pg_parallel_apply worker' => qr/$ended|$cancelled|^apply worker stops where pg_parallel_apply.debug_stop says$/,
	'logical replication launcher' => qr/^terminating background worker "[^"]+" due to administrator command$/,
	'client backend' => qr/^the database system is (?:starting up|shutting down|not yet accepting connections)$|$stopped/,
);

sub torture_log_check
{
	my ($run) = @_;
	my @bad;
	foreach my $node ($run->{pub}, $run->{sub})
	{
		my $name = $node->name;
		foreach my $entry (ppa_log_entries($node, $run->{log_pos}{$name}))
		{
			$run->{log_pos}{$name} = $entry->{next};
			my ($level, $text) = @{$entry}{qw(level text)};
			if ($level eq 'PANIC' || $text =~ /terminated by signal|reinitializing|^TRAP: /)
			{
				push @bad, "$name: $level: $text";
				next;
			}
			next unless $node == $run->{sub} && $level =~ /^(?:ERROR|FATAL)$/;
			my $expected = $expected{ $entry->{backend} };
			next if $expected && $text =~ $expected;
			push @bad, "$name: [$entry->{backend}] $entry->{sqlstate} $level: $text" . ($entry->{context} ? " ($entry->{context})" : '');
		}
	}
	return @bad;
}

# Polls $done until it is true -> true; false when $seconds have passed, or if the logs say that it will never be.
sub wait_until
{
	my ($run, $seconds, $done) = @_;
	my $end = time() + $seconds;
	until ($done->())
	{
		return 0 if time() > $end;
		push @{ $run->{bad} }, torture_log_check($run);
		return 0 if @{ $run->{bad} };
		usleep(100_000);
	}
	return 1;
}

sub torture_wait_applied
{
	my ($run) = @_;

	# The last commits of sessions with synchronous_commit off may not have been written yet.
	ppa_flush($run->{pub});
	my $target = $run->{pub}->lsn('flush');
	my $done = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'sub' AND replay_lsn >= '$target'";
	my $limit = $PostgreSQL::Test::Utils::timeout_default;
	return () if wait_until($run, $limit, sub { $run->{pub}->safe_psql('postgres', $done) });
	return () if @{ $run->{bad} };
	my $state = $run->{sub}->safe_psql('postgres',
		"SELECT string_agg(format('%s %s %s %s', pid, backend_type, wait_event, pg_blocking_pids(pid)), '; ') "
		  . "FROM pg_stat_activity WHERE backend_type ~ 'apply|logical'");
	return "not applied within $limit s: $target; $state";
}

sub torture_wait_ready
{
	my ($run, $seconds) = @_;
	return wait_until($run, $seconds,
		sub { $run->{sub}->safe_psql('postgres', "SELECT count(*) = 0 FROM pg_subscription_rel WHERE srsubstate <> 'r'") eq 't' });
}

# The first rows that differ, as both have them.
sub differences
{
	my ($run, $rows) = @_;
	my %rest;
	$rest{$_}++ for split /\n/, $run->{pub}->safe_psql('postgres', $rows);
	$rest{$_}-- for split /\n/, $run->{sub}->safe_psql('postgres', $rows);
	my @missing = grep { $rest{$_} > 0 } sort keys %rest;
	my @extra = grep { $rest{$_} < 0 } sort keys %rest;
	my $show = sub { join('; ', (map { substr($_, 0, 120) } @_ > 5 ? @_[ 0 .. 4 ] : @_)) };
	return sprintf('%d only on the publisher (%s), %d only on the subscriber (%s)',
		scalar @missing, $show->(@missing), scalar @extra, $show->(@extra));
}

sub same_tables
{
	my ($run) = @_;
	my @compare = @{ $run->{schema}{compare} };
	my $all = join(' UNION ALL ', map {
			"(SELECT '$_->[0]', count(*), coalesce(sum(hashtextextended(r::text, 0)), 0) "
			  . "FROM (SELECT $_->[1] FROM $_->[0] WHERE $_->[2]) r)"
	} @compare);
	my ($pub, $sub) = map { { map { split /\|/, $_, 2 } split /\n/, $_->safe_psql('postgres', $all) } } $run->{pub}, $run->{sub};
	my @bad;
	$run->{rows} = 0;
	foreach my $entry (@compare)
	{
		my ($name, $columns, $condition) = @$entry;
		$run->{rows} += (split /\|/, $sub->{$name})[0];
		next if $pub->{$name} eq $sub->{$name};
		push @bad, "$name: " . differences($run, "SELECT r::text FROM (SELECT $columns FROM $name WHERE $condition) r");
	}
	return @bad;
}

# What the subscriber's own tables say: [text, query that must return nothing].
sub local_truths
{
	my ($run) = @_;
	my ($leaf) = $run->{schema}{sub} =~ /CREATE TRIGGER count_leaf AFTER INSERT OR DELETE ON (\w+)/;
	my $from = $run->{since};
	my @truths = (
		[ 'local updates of replicated rows', <<'SQL' ],
SELECT t.id, t.local_count, coalesce(d.n, 0) FROM local_n t LEFT JOIN (SELECT id, count(*) AS n FROM local_done GROUP BY id) d USING (id)
WHERE t.local_count <> coalesce(d.n, 0)
SQL
		[ 'local rows of a replicated table', <<'SQL' ],
SELECT * FROM (SELECT k, v FROM own WHERE k < 0) o FULL JOIN own_mirror m USING (k) WHERE o.v IS DISTINCT FROM m.v
SQL
		[ 'an ordered trigger saw all before it', <<"SQL" ],
SELECT l.e, l.n, s.seen FROM chk_log l JOIN chk_seen s USING (e) WHERE l.n > $from AND s.seen IS DISTINCT FROM l.n - 1
SQL
		[ 'a trigger fired at all', <<'SQL' ],
SELECT e FROM (SELECT e FROM chk_event UNION ALL SELECT e FROM chk_event2_p0) x WHERE NOT EXISTS (SELECT 1 FROM chk_seen s WHERE s.e = x.e)
SQL
		[ 'a trigger fired once', 'SELECT e, count(*) FROM chk_seen GROUP BY e HAVING count(*) <> 1' ],
		[ 'the triggers of one leaf', <<"SQL" ],
SELECT r.n, s.n FROM (SELECT count(*) AS n FROM $leaf) r, (SELECT coalesce(sum(delta), 0) AS n FROM leaf_sum) s WHERE r.n <> s.n
SQL
		[ 'the last snapshot', "SELECT r FROM (SELECT torture_read() || torture_read_sums() || torture_read_keys() AS r) x WHERE r <> ''" ],
	);
	push @truths, [ 'rows that apply did not find', <<'SQL' ] if ppa_views($run->{sub});
SELECT missing_rows FROM parallel_apply.stat_subscription s JOIN pg_subscription p ON p.oid = s.subid WHERE missing_rows <> 0
SQL
	return @truths;
}

sub torture_compare
{
	my ($run) = @_;
	my @bad = same_tables($run);
	foreach my $truth (local_truths($run))
	{
		my $rows = $run->{sub}->safe_psql('postgres', "$truth->[1] LIMIT 5");
		push @bad, "$truth->[0]: $rows" if $rows ne '';
	}
	my ($status, $out, $err) = $run->{sub}->psql('postgres', <<'SQL');
SELECT bt_index_check(i.indexrelid, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relkind = 'i' AND c.relnamespace = 'public'::regnamespace AND i.indisvalid
	AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')
SQL
	push @bad, "an index is broken: $err" if $status != 0;
	return @bad;
}

# Number n is written down with an LSN that its commit record is behind, and that the commit record of n - 1 is before. So
# with the origin at R, n must be absent if R <= lsn(n), and n - 1 must be there if lsn(n) <= R. The second holds for what
# was confirmed to the publisher too: it will not be sent again.
sub torture_origin_check
{
	my ($run) = @_;
	my ($n, $lsn, $origin, $bad) = split /\|/, $run->{sub}->safe_psql('postgres', <<'SQL');
SELECT coalesce(max(l.n), 0), coalesce((SELECT lsn FROM chk_log ORDER BY n DESC LIMIT 1), '0/0'),
	(SELECT coalesce(max(o.remote_lsn), '0/0') FROM pg_replication_origin_status o JOIN pg_subscription s ON o.external_id = 'pg_' || s.oid
		WHERE s.subname = 'sub'),
	torture_read() || torture_read_sums()
FROM chk_log l
SQL
	my ($beyond, $lost, $confirmed, $unconfirmed) = split /\|/, $run->{pub}->safe_psql('postgres', <<"SQL");
SELECT $n > 0 AND '$origin'::pg_lsn <= '$lsn'::pg_lsn,
	(SELECT count(*) FROM chk_log WHERE n > $n + 1 AND lsn <= '$origin'), confirmed_flush_lsn,
	(SELECT count(*) FROM chk_log WHERE n > $n + 1 AND lsn <= confirmed_flush_lsn)
FROM pg_replication_slots WHERE slot_name = 'sub'
SQL
	my @bad;
	my $state = "there are numbers up to $n, the origin is at $origin, confirmed is $confirmed";
	push @bad, "the data is ahead of the origin: $state" if $beyond eq 't';
	push @bad, "the origin is ahead of the data by $lost: $state" if $lost;
	push @bad, "what was confirmed is ahead of the data by $unconfirmed: $state" if $unconfirmed;
	push @bad, "after a crash:$bad" if $bad ne '';
	$run->{origin_checks}++;
	return @bad;
}

1;
