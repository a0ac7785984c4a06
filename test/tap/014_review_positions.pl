# 014_review_positions.pl: the positions that the publisher learns, and what we do for its synchronous commits.
# Shows: confirmed_flush_lsn follows while a backlog is being applied and the input never runs dry; the worker flushes
# its WAL at each commit only if the subscription is among the publisher's synchronous standbys.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
use Time::HiRes qw(time usleep);

# Only with fsync on does the server count flushes.
my ($pub, $sub) = ppa_pair(sub_conf => 'fsync = on');
ppa_both($pub, $sub, 'CREATE TABLE slow (id int PRIMARY KEY, n int); CREATE TABLE paced (id serial PRIMARY KEY, n int)');
$sub->safe_psql('postgres', <<'SQL');
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION slow();
ALTER TABLE slow ENABLE ALWAYS TRIGGER slow;
SQL
$pub->safe_psql('postgres', 'CREATE PROCEDURE commit_each(n int) LANGUAGE plpgsql AS
	$$ BEGIN FOR i IN 1 .. n LOOP INSERT INTO paced (n) VALUES (1); COMMIT; END LOOP; END $$');
ppa_subscribe($pub, $sub);

# ---- a backlog that is applied more slowly than the publisher sends it; all of it fits into the socket, or nearly so
SKIP:
{
	skip 'the built-in worker has rules of its own', 3 if ppa_builtin();
	my $count = 800;
	ppa_backlog($pub, $sub, 'sub', join '', map { "INSERT INTO slow VALUES ($_, 0);" } 1 .. $count);
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
	my ($applied, @confirmed) = (0);
	until ($applied == $count)
	{
		die 'timed out waiting for the backlog to be applied' if time() > $end;
		my $lsn = $pub->safe_psql('postgres', "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = 'sub'");

		# Counted after the position was read: so that was reported before the end.
		$applied = $sub->safe_psql('postgres', 'SELECT count(*) FROM slow');
		push @confirmed, $lsn if $applied && $applied < $count && (!@confirmed || $lsn != $confirmed[-1]);
		usleep(20_000);
	}
	note "confirmed while the backlog was applied: @confirmed";
	cmp_ok(scalar @confirmed, '>=', 3, 'confirmed_flush_lsn moves while the backlog is applied');
	cmp_ok($confirmed[-1], '>', $confirmed[0], 'forward');
	is(join(' ', @confirmed), join(' ', sort { $a <=> $b } @confirmed), 'and never back');
}
ppa_catchup($pub, $sub);
ppa_same_table($pub, $sub, 'slow', 'slow equal');

# ---- a publisher that waits for somebody else
# Paced so that the input runs dry after nearly every transaction, but is never silent for long.
# pg_stat_wal is up to date once the worker has gone: then it has reported what it did.
sub syncs
{
	ppa_disable($sub);
	my $syncs = $sub->safe_psql('postgres', 'SELECT wal_sync FROM pg_stat_wal');
	ppa_enable($sub);
	fault_walsender($pub);
	return $syncs;
}

sub load_paced
{
	local $ENV{PGOPTIONS} = '-c synchronous_commit=local';
	ppa_load_finish(ppa_load_start($pub, script => 'INSERT INTO paced (n) VALUES (0);',
		clients => 4, transactions => 500, rate => 500, args => ['-n']));
	ppa_catchup($pub, $sub);
	return;
}

sub set_standbys
{
	my ($names) = @_;
	ppa_set($pub, 'synchronous_standby_names', "'$names'");
	ppa_wait_for($pub, "SELECT current_setting('synchronous_standby_names') = '$names'", 'the setting');

	# Asked when the worker connects.
	ppa_disable($sub);
	ppa_enable($sub);
	fault_walsender($pub);
	return;
}

my %growth;
foreach my $names ('', 'somebody_else', 'FIRST 1 (somebody_else, "sub_2")')
{
	set_standbys($names);
	my $before = syncs();
	load_paced();
	my $growth = syncs() - $before;
	note "standbys \"$names\": $growth flushes for 2000 transactions";
	cmp_ok($growth, '<', 600, "standbys \"$names\": no flush at each of 2000 commits");
}

# ---- a publisher that waits for us: however the subscription is named, its commits end
foreach my $names ('sub', 'FIRST 1 (somebody_else, "sub")', 'ANY 1 (SUB, other)', '1(sub)', '*')
{
	set_standbys($names);
	ppa_wait_for($pub, "SELECT sync_state IN ('sync', 'quorum') FROM pg_stat_replication WHERE application_name = 'sub'",
		'a synchronous standby');
	my ($status, undef, $stderr) = $pub->psql('postgres', 'SET synchronous_commit = on; CALL commit_each(10)', timeout => 60);
	is("$status $stderr", '0 ', "standbys '$names': 10 commits with synchronous_commit on end");
}
ppa_set($pub, 'synchronous_standby_names');
ppa_catchup($pub, $sub);
ppa_same_table($pub, $sub, 'paced', 'paced equal');
fault_no_crash($pub, $sub);
done_testing();
