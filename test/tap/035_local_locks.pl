# 035_local_locks.pl: remote changes of rows that a local session has inserted, deleted, moved or locked and not yet
# committed. Shows: apply waits for that session and then does what its end asks for: the change is applied, or the row
# is missing (counted, and apply goes on).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;

my ($pub, $sub) = ppa_pair();
ppa_both($pub, $sub, 'CREATE TABLE t (id int PRIMARY KEY, version int); CREATE TABLE done (n int)');
ppa_subscribe($pub, $sub);
my ($local, $local_pid) = fault_session($sub);
my $missing = 0;
my $number = 0;

# One case: $prepare is done on the subscriber first, $hold is what the local session does and does not yet commit, $end
# is COMMIT or ROLLBACK, $want the rows on the subscriber afterwards, $lost how many rows are missing then.
# Each case has an id of its own: 'ID' stands for it in all texts. Another transaction follows the one that waits.
sub check_case
{
	my (%case) = @_;
	my $id = 10 * ++$number;
	my $name = "$case{name}, then $case{end}";
	s/ID/$id/g for @case{qw(prepare hold remote want)};
	my $before = "INSERT INTO t VALUES ($id, 0)";
	$before = 'SELECT' if $case{remote} =~ /^INSERT/;
	$pub->safe_psql('postgres', $before);
	ppa_catchup($pub, $sub);
	$sub->safe_psql('postgres', $case{prepare});
	$local->query_safe("BEGIN; $case{hold}");
	my $worker = ppa_worker_pid($sub);
	my $errors = ppa_error_count($sub);
	$pub->safe_psql('postgres', $case{remote});
	$pub->safe_psql('postgres', "INSERT INTO done VALUES ($number)");
	fault_blocked($sub, $worker, $local_pid);
	is($sub->safe_psql('postgres', "SELECT count(*) FROM done WHERE n = $number"), 0, "$name: apply waits");
	$local->query_safe($case{end});
	ppa_catchup($pub, $sub);
	is($sub->safe_psql('postgres', "SELECT id - $id, version FROM t WHERE id BETWEEN $id AND $id + 9 ORDER BY 1"),
		$case{want}, "$name: the right rows");
	is($sub->safe_psql('postgres', "SELECT count(*) FROM done WHERE n = $number"), 1, "$name: apply went on");
	is(ppa_worker_pid($sub), $worker, "$name: same apply worker");
	is(ppa_error_count($sub), $errors, "$name: no error");
	$missing += $case{lost};
	is(fault_missing($sub), $missing, "$name: missing rows counted") unless ppa_builtin();
	return;
}

my $update = 'UPDATE t SET version = 1 WHERE id = ID';
my $delete = 'DELETE FROM t WHERE id = ID';
my %insert = (prepare => $delete, hold => 'INSERT INTO t VALUES (ID, 7)');
check_case(name => 'UPDATE of a row being inserted', %insert, remote => $update, end => 'COMMIT', want => '0|1', lost => 0);
check_case(name => 'UPDATE of a row being inserted', %insert, remote => $update, end => 'ROLLBACK', want => '', lost => 1);
check_case(name => 'DELETE of a row being inserted', %insert, remote => $delete, end => 'COMMIT', want => '', lost => 0);
check_case(name => 'DELETE of a row being inserted', %insert, remote => $delete, end => 'ROLLBACK', want => '', lost => 1);

my %deleted = (prepare => 'SELECT', hold => $delete);
check_case(name => 'UPDATE of a row being deleted', %deleted, remote => $update, end => 'COMMIT', want => '', lost => 1);
check_case(name => 'UPDATE of a row being deleted', %deleted, remote => $update, end => 'ROLLBACK', want => '0|1', lost => 0);
check_case(name => 'DELETE of a row being deleted', %deleted, remote => $delete, end => 'COMMIT', want => '', lost => 1);
check_case(name => 'DELETE of a row being deleted', %deleted, remote => $delete, end => 'ROLLBACK', want => '', lost => 0);

# The key goes away: 'ID + 1' is where the row moves to.
my %leaves = (prepare => 'SELECT', hold => 'UPDATE t SET id = ID + 1 WHERE id = ID');
check_case(name => 'UPDATE of a row whose key changes', %leaves, remote => $update, end => 'COMMIT', want => '1|0', lost => 1);
check_case(name => 'UPDATE of a row whose key changes', %leaves, remote => $update, end => 'ROLLBACK', want => '0|1', lost => 0);
check_case(name => 'DELETE of a row whose key changes', %leaves, remote => $delete, end => 'COMMIT', want => '1|0', lost => 1);

# The key arrives: the row is at 'ID + 1' first.
my %arrives = (
	prepare => 'UPDATE t SET id = ID + 1 WHERE id = ID',
	hold => 'UPDATE t SET id = ID, version = 9 WHERE id = ID + 1');
check_case(name => 'UPDATE of a row whose key arrives', %arrives, remote => $update, end => 'COMMIT', want => '0|1', lost => 0);
check_case(name => 'UPDATE of a row whose key arrives', %arrives, remote => $update, end => 'ROLLBACK', want => '1|0', lost => 1);

# Deleted and inserted again by the same local transaction: another row, same key.
my %again = (prepare => 'SELECT', hold => "$delete; INSERT INTO t VALUES (ID, 5)");
check_case(name => 'UPDATE of a row being replaced', %again, remote => $update, end => 'COMMIT', want => '0|1', lost => 0);
check_case(name => 'UPDATE of a row being replaced', %again, remote => $update, end => 'ROLLBACK', want => '0|1', lost => 0);

my %updated = (prepare => 'SELECT', hold => 'UPDATE t SET version = 8 WHERE id = ID');
check_case(name => 'UPDATE of a row being updated', %updated, remote => $update, end => 'COMMIT', want => '0|1', lost => 0);
check_case(name => 'DELETE of a row being updated', %updated, remote => $delete, end => 'COMMIT', want => '', lost => 0);

my %locked = (prepare => 'SELECT', hold => 'SELECT FROM t WHERE id = ID FOR UPDATE');
check_case(name => 'UPDATE of a locked row', %locked, remote => $update, end => 'COMMIT', want => '0|1', lost => 0);
check_case(name => 'DELETE of a locked row', %locked, remote => $delete, end => 'ROLLBACK', want => '', lost => 0);

# INSERT against an uncommitted row of the same key waits for its end as well.
check_case(name => 'INSERT of a key being inserted', prepare => 'SELECT', hold => 'INSERT INTO t VALUES (ID, 7)',
	remote => 'INSERT INTO t VALUES (ID, 3)', end => 'ROLLBACK', want => '0|3', lost => 0);
check_case(name => 'INSERT of a key being deleted', prepare => 'INSERT INTO t VALUES (ID, 6)', hold => $delete,
	remote => 'INSERT INTO t VALUES (ID, 3)', end => 'COMMIT', want => '0|3', lost => 0);

# A local column that only the subscriber has, changed by the session that apply waits for, survives.
$sub->safe_psql('postgres', "ALTER TABLE t ADD COLUMN note text");
check_case(name => 'UPDATE of a row whose local column changes', prepare => 'SELECT',
	hold => "UPDATE t SET note = 'mine' WHERE id = ID", remote => $update, end => 'COMMIT', want => '0|1', lost => 0);
is($sub->safe_psql('postgres', "SELECT note FROM t WHERE id = 10 * $number"), 'mine', 'the local column is kept');

$local->quit;
fault_no_crash($pub, $sub);
done_testing();
