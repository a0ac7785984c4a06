# TortureLoad.pm: the sessions of the torture test. Each is a process of its own with a random generator of its own, so
# that what it sends follows from the seed; when follows from nothing. All survive restarts of their server.
#
#   torture_load_start(%opt)    starts a round's sessions -> handle. pub, sub: nodes; schema; seed; dir: a folder of ours;
#                               local: 0 none, 1 lockers only, 2 all that local sessions do
#   torture_readers_start($load)   starts the readers: only when all tables are synchronised
#   torture_load_pause($load, $on) the publisher's clients stop between transactions, or go on
#   torture_load_stop($load, $kind)   ends those of the kind pub, sub or reader, or all
#   torture_load_counts($load)  -> hash: pub, sub, reader: transactions done; failed: transactions of the publisher's
#                               clients that an error ended
#   torture_load_violations($load)  -> what readers have seen that no snapshot may show, and clients that gave up
package TortureLoad;

use strict;
use warnings;
use Digest::MD5 qw(md5);
use DBI;
use Exporter 'import';
use POSIX ();
use PostgreSQL::Test::Utils qw(slurp_file append_to_file);
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  torture_load_start torture_readers_start torture_load_pause torture_load_stop torture_load_counts
  torture_load_violations torture_derive
);
push @EXPORT, 'torture_clients';

use constant torture_clients => 8;

my %running;    # pids that must not outlive us

# A seed for a purpose: neighbouring seeds of rand() begin alike.
sub torture_derive
{
	my ($seed, $purpose) = @_;
	return unpack('N', md5("$seed $purpose"));
}

sub pick
{
	return $_[ rand @_ ];
}

sub chance
{
	my ($percent) = @_;
	return rand(100) < $percent;
}

# ------------------------------------------------------------------------------------------ what the publisher's clients do

sub any_key
{
	my ($table) = @_;
	return 1 + int(rand($table->{dom}));
}

sub where
{
	my ($table, $number) = @_;
	my @literals = $table->{key}{lit}->($number);
	return join(' AND ', map { "$_->[0] = " . shift @literals } @{ $table->{key}{cols} });
}

sub set_key
{
	my ($table, $number) = @_;
	my @literals = $table->{key}{lit}->($number);
	return join(', ', map { "$_->[0] = " . shift @literals } @{ $table->{key}{cols} });
}

sub key_columns
{
	my ($table) = @_;
	return join(', ', map { $_->[0] } @{ $table->{key}{cols} });
}

sub any_u
{
	my ($table) = @_;
	return 'NULL::int' if !$table->{u} || chance(15);
	return 1 + int(rand($table->{dom} * 1.5));
}

my $long = "(SELECT string_agg(md5((g * %d)::text), '') FROM generate_series(1, 100) g)";

sub any_text
{
	return sprintf($long, 1 + int(rand(1000))) if chance(3);
	return "'" . 'x' x int(rand(20)) . "'";
}

sub insert
{
	my ($table, $number) = @_;
	my $values = join(', ', $table->{key}{lit}->($number), int(rand(100)), any_u($table), any_text());
	# without a key nothing else keeps these small
	return "INSERT INTO $table->{name} SELECT $values WHERE (SELECT count(*) FROM $table->{name}) < $table->{dom}"
	  if $table->{identity} eq 'nothing';
	return "INSERT INTO $table->{name} VALUES ($values)";
}

# One statement that changes one row as a rule. Some fail: their transaction is rolled back as a whole.
sub change
{
	my ($table) = @_;
	return family_change($table->{parent}, $table) if $table->{family};
	my ($name, $number) = ($table->{name}, any_key($table));
	my $where = where($table, $number);
	my $what = rand(100);
	return "UPDATE $name SET v = v + " . (1 + int(rand(5))) . " WHERE $where" if $what < 30;
	if ($what < 60)
	{
		my $insert = insert($table, $number);
		return $insert if $table->{identity} eq 'nothing' || $what < 40;
		my $conflict = ' ON CONFLICT (' . key_columns($table) . ') DO ';
		return $insert . $conflict . 'NOTHING' if $what < 45;
		return $insert . $conflict . "UPDATE SET v = $name.v + 1" . ($table->{u} && chance(40) ? ', u = excluded.u' : '');
	}
	return "DELETE FROM $name WHERE $where" if $what < 78;
	return "UPDATE $name SET t = " . any_text() . " WHERE $where" if $what < 82;
	return "UPDATE $name SET " . set_key($table, any_key($table)) . " WHERE $where" if $what < 89;
	return "UPDATE $name SET v = v + 1 WHERE v % 11 = " . int(rand(11)) if $what < 90;
	return "UPDATE $name SET u = " . any_u($table) . ", v = v + 1 WHERE $where" if $what < 95 || !$table->{u};

	# a unique value moves to a new row, by delete and insert or within one statement
	my ($a, $b) = (any_u($table), any_u($table));
	return "UPDATE $name SET u = CASE u WHEN $a THEN $b ELSE $a END WHERE u IN ($a, $b)" if $what < 96;
	my $columns = join(', ', $table->{key}{lit}->(any_key($table)));
	return "WITH d AS (DELETE FROM $name WHERE $where RETURNING v, u, t) INSERT INTO $name SELECT $columns, v + 1, u, t FROM d";
}

sub family_change
{
	my ($parent, $child) = @_;
	my $number = any_key($parent);
	my @literals = $parent->{key}{lit}->($number);
	my $refs = join(', ', @{ $child->{refs} });
	my $ref_is = join(' AND ', map { "$child->{refs}[$_] = $literals[$_]" } 0 .. $#literals);
	my $id = 1 + int(rand($child->{dom}));
	my $what = rand(100);
	return insert($parent, $number) if $what < 15;
	return "INSERT INTO child (id, $refs) VALUES ($id, " . join(', ', @literals) . ')' if $what < 45;
	return "DELETE FROM child WHERE id = $id" if $what < 60;
	return "UPDATE child SET " . join(', ', map { "$child->{refs}[$_] = $literals[$_]" } 0 .. $#literals) . " WHERE id = $id"
	  if $what < 70;
	return "DELETE FROM parent WHERE " . where($parent, $number) if $what < 80;
	return "UPDATE parent SET " . set_key($parent, any_key($parent)) . ' WHERE ' . where($parent, $number) if $what < 84;
	return "INSERT INTO child (id, $refs) VALUES ($id, " . join(', ', @literals) . "); " . insert($parent, $number) if $what < 90;
	return "DELETE FROM child WHERE $ref_is; DELETE FROM parent WHERE " . where($parent, $number);
}

sub any_table
{
	my ($plan) = @_;
	return pick(@{ chance($plan->{ordered_percent}) ? $plan->{ordered} : $plan->{free} });
}

sub some_changes
{
	my ($plan, $most) = @_;
	return map { change(any_table($plan)) } 1 .. 1 + int(rand($most));
}

# The number is taken in the last statements, under the lock of the counter's row: numbers are commit order, and the
# position written down is before this transaction's commit record and behind that of the number before.
sub numbered
{
	my ($plan, $client) = @_;
	my ($event, @event) = ('NULL');
	if (chance(2 + $plan->{ordered_percent}))
	{
		$event = "'$client-" . ++$plan->{events} . "'";
		@event = ('INSERT INTO ' . pick('chk_event', 'chk_event2', 'chk_event2') . " VALUES ($event)");
	}
	my @changes = chance(60) ? some_changes($plan, 3) : ();
	return join('; ', @event, @changes,
		'WITH c AS (UPDATE chk_counter SET n = n + 1 RETURNING n) '
		  . "INSERT INTO chk_log SELECT n, $event, pg_current_wal_insert_lsn() FROM c",
		"INSERT INTO chk_a SELECT n, $client FROM chk_counter",
		"INSERT INTO chk_b SELECT n, 'pad' FROM chk_counter");
}

sub with_savepoints
{
	my ($plan) = @_;
	my @statements = ('BEGIN', some_changes($plan, 2), 'SAVEPOINT s', some_changes($plan, 3));
	push @statements, 'SAVEPOINT inner_s', some_changes($plan, 2), 'RELEASE inner_s' if chance(30);
	push @statements, chance(70) ? 'ROLLBACK TO s' : 'RELEASE s';
	return (@statements, some_changes($plan, 2), chance(95) ? 'COMMIT' : 'ROLLBACK');
}

# Row by row, each in a transaction of its own: the key, or the unique value, of the next row is taken from the last one.
sub shift_rows
{
	my $low = 1 + int(rand(300));
	my ($up, @statements) = chance(50);
	for my $step (0 .. 15)
	{
		my ($from, $to) = $up ? ($low + 16 - $step, $low + 17 - $step) : ($low + 1 + $step, $low + $step);
		if (chance(80))
		{
			push @statements, "UPDATE shift SET id = $to WHERE id = $from AND NOT EXISTS (SELECT 1 FROM shift WHERE id = $to)";
			next;
		}
		push @statements,
		  "WITH d AS (DELETE FROM shift WHERE id = $from RETURNING email) INSERT INTO shift SELECT $to, email FROM d";
	}
	return @statements;
}

sub large
{
	my ($plan, $client) = @_;
	my $first = int(rand(20_000));
	my $last = $first + 1000 + int(rand(4000));
	my @changes = (
		"INSERT INTO bulk SELECT $client, g, 0, 'row' FROM generate_series($first, $last) g ON CONFLICT DO NOTHING",
		"UPDATE bulk SET v = v + 1 WHERE client = $client AND seq BETWEEN $first AND $last",
		"DELETE FROM bulk WHERE client = $client AND seq BETWEEN $first AND $last"
	);
	return join('; ', pick(@changes), chance(30) ? some_changes($plan, 2) : ());
}

sub both_sides_of_a_pair
{
	my ($client) = @_;
	return ("UPDATE cl_a SET n = n + 1 WHERE client = $client AND n = (SELECT n FROM cl_b WHERE client = $client)",
		"UPDATE cl_b SET n = (SELECT n FROM cl_a WHERE client = $client) WHERE client = $client");
}

sub transfer
{
	my ($from, $to) = chance(50) ? ('bank1', 'bank2') : ('bank2', 'bank1');
	my $sum = int(rand(100));
	return sprintf('UPDATE %s SET v = v - %d WHERE id = %d; UPDATE %s SET v = v + %d WHERE id = %d',
		$from, $sum, 1 + int(rand(40)), $to, $sum, 1 + int(rand(40)));
}

sub swallowing
{
	my ($plan) = @_;
	return 'DO $$ BEGIN ' . change(any_table($plan)) . '; BEGIN ' . join('; ', some_changes($plan, 2))
	  . '; EXCEPTION WHEN others THEN NULL; END; END $$';
}

sub emptying
{
	my ($plan) = @_;
	return join('; ', some_changes($plan, 2), 'TRUNCATE ' . pick('trunc1', 'trunc2', 'trunc1, trunc2'), some_changes($plan, 2));
}

# One transaction or several: a list of statements, each sent at once.
sub publisher_work
{
	my ($plan, $client) = @_;
	my $what = rand(100);
	return change(any_table($plan)) if $what < 36;
	return join('; ', some_changes($plan, 5)) if $what < 50;
	return with_savepoints($plan) if $what < 58;
	return numbered($plan, $client) if $what < 58 + $plan->{numbered_percent};
	return transfer() if $what < 83;
	return both_sides_of_a_pair($client) if $what < 89;
	return 'UPDATE chain SET v = v + 1 WHERE id = ' . (1 + int(rand(20))) if $what < 93;
	return 'UPDATE local_n SET v = v + 1 WHERE id = ' . (1 + int(rand(100))) if $what < 97;
	return swallowing($plan) if $what < 98.5;
	return shift_rows() if $what < 99.3;
	return emptying($plan) if $what < 99.6;
	return 'UPDATE ' . pick(grep { $_->{dom} <= 200 } @{ $plan->{free} })->{name} . ' SET v = v + 1' if $what < 99.8;
	return large($plan, $client) if $what < 99.9;
	return change(any_table($plan));
}

# ------------------------------------------------------------------------------------------- what local sessions do

# Each holds one lock that apply may want, and waits for none meanwhile: no deadlock with serial apply is possible. Those
# on chain lock two rows; there the publisher changes one row per transaction, and nothing else.
sub local_work
{
	my ($plan) = @_;
	my $what = rand(100);
	# now and then long enough for a backlog
	my $sleep = sprintf('SELECT pg_sleep(%.4f)', chance(1) ? rand(0.5) : rand(0.01));
	if ($what < 40)
	{
		my $table = pick(@{ $plan->{lockable} });
		return "SELECT 1 FROM $table->{name} WHERE "
		  . where($table, any_key($table)) . ' LIMIT 1 FOR ' . pick('UPDATE', 'NO KEY UPDATE', 'SHARE', 'KEY SHARE') . "; $sleep";
	}
	return 'LOCK TABLE ' . pick(@{ $plan->{lockable} })->{name} . " IN SHARE MODE; $sleep" if $what < 44;
	if ($what < 48)
	{
		my @ids = map { 1 + int(rand(20)) } 1, 2;
		return join("; $sleep; ", map { "SELECT 1 FROM chain WHERE id = $_ FOR UPDATE" } @ids);
	}
	return $sleep if $plan->{local} < 2;
	if ($what < 75)
	{
		my $id = 1 + int(rand(100));
		return "WITH u AS (UPDATE local_n SET local_count = local_count + 1 WHERE id = $id RETURNING id) "
		  . "INSERT INTO local_done SELECT id FROM u";
	}
	my $k = -1 - int(rand(30));
	return "DELETE FROM own WHERE k = $k; DELETE FROM own_mirror WHERE k = $k" if $what < 82;
	my $v = int(rand(1000));
	return "INSERT INTO own (k, v, u) VALUES ($k, $v, $k) ON CONFLICT (k) DO UPDATE SET v = excluded.v; "
	  . "INSERT INTO own_mirror VALUES ($k, $v) ON CONFLICT (k) DO UPDATE SET v = excluded.v; " . pick($sleep, 'SELECT 1');
}

# ------------------------------------------------------------------------------------------------------- the processes

sub connect_to
{
	my ($session) = @_;
	my $dbh;
	until ($dbh)
	{
		$dbh = DBI->connect("dbi:Pg:$session->{connstr}", '', '',
			{ PrintError => 0, PrintWarn => 0, RaiseError => 0, AutoCommit => 1 });
		usleep(50_000) unless $dbh;
	}
	return $dbh;
}

# Sends the statements one by one. After an error those up to the next ROLLBACK are left out. Returns the SQLSTATEs.
sub send_all
{
	my ($dbh, @statements) = @_;
	my (@errors, $failed);
	foreach my $statement (@statements)
	{
		next if $failed && $statement !~ /^ROLLBACK/;
		$failed = 0;
		next if defined $dbh->do($statement);
		push @errors, $dbh->ping ? $dbh->state : '08006';
		return @errors if $errors[-1] eq '08006';
		$failed = $statements[0] eq 'BEGIN';
	}
	$dbh->do('ROLLBACK') if $failed;
	return @errors;
}

sub write_counts
{
	my ($session) = @_;
	open(my $out, '>', "$session->{file}.new") or return;
	print $out "$session->{done} $session->{failed}\n";
	close $out;
	rename "$session->{file}.new", $session->{file};
	$session->{written} = time();
	return;
}

# For ever; ends by a signal. A connection that is lost is made anew.
sub run_session
{
	my ($session) = @_;
	my $dbh = connect_to($session);
	my $next = 0;
	while (1)
	{
		usleep(20_000) while -e $session->{pause};
		if ($session->{rate})
		{
			my $wait = $next - time();
			usleep($wait * 1_000_000) if $wait > 0;
			$next = ($wait < -1 ? time() : $next) + 1 / $session->{rate};
		}
		my @errors = $session->{work}->($dbh);
		$session->{done}++;
		$session->{failed}++ if @errors;
		$dbh = connect_to($session) if grep { $_ eq '08006' } @errors;
		$session->{errors}{$_}++ foreach @errors;
		# These are mistakes of this test: syntax, names, types
		my ($mistake) = grep { /^42/ } @errors;
		append_to_file($session->{violations}, "$session->{name}: $mistake: " . ($dbh->errstr // '') . "\n") if $mistake;
		write_counts($session) if time() > $session->{written} + 0.3;
	}
	return;
}

sub start_session
{
	my ($load, $name, $node, $seed, %opt) = @_;
	my $session = {
		name => $name, file => "$load->{dir}/count.$name", violations => "$load->{dir}/violations",
		pause => "$load->{dir}/" . ($node == $load->{pub} ? 'pause' : 'never'), done => 0, failed => 0, written => 0,
		connstr => $node->connstr('postgres'), %opt
	};
	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		# None of the END blocks: they stop the servers.
		$SIG{$_} = sub { POSIX::_exit(0) } for qw(INT TERM HUP);
		srand($seed);
		$ENV{PGAPPNAME} = "torture_$name";
		$ENV{PGOPTIONS} = $opt{options};
		eval { run_session($session); 1 } or append_to_file($session->{violations}, "$name gave up: $@");
		POSIX::_exit(1);
	}
	$running{$pid} = 1;
	$load->{pids}{$pid} = $name =~ s/\d+$//r;
	return;
}

# Errors of the clients are normal, in the log they would hide others. Deadlocks among them need not take a second.
my $client_options = '-c log_min_messages=log -c deadlock_timeout=50ms';

sub torture_load_start
{
	my (%opt) = @_;
	my $load = {%opt};
	srand(torture_derive($opt{seed}, 'load'));
	my @tables = @{ $opt{schema}{tables} };
	my $plan = {
		local => $opt{local}, events => 0, ordered_percent => pick(1, 4, 10, 30), numbered_percent => pick(3, 8, 15),
		free => [ grep { !$_->{ordered} } @tables ], ordered => [ grep { $_->{ordered} } @tables ],
		lockable => [ grep { $_->{lock} && !$_->{family} } @tables ]
	};
	my $rate = pick(20, 100, 300, 1000);
	$load->{features} = "ordered $plan->{ordered_percent} %, $rate/s per client";
	foreach my $client (0 .. torture_clients - 1)
	{
		my %own = (%$plan);
		start_session($load, "pub$client", $opt{pub}, torture_derive($opt{seed}, "client $client"),
			rate => $rate, options => $client_options, work => sub { send_all($_[0], publisher_work(\%own, $client)) });
	}
	foreach my $client (0 .. ($opt{local} ? 3 : -1))
	{
		start_session($load, "sub$client", $opt{sub}, torture_derive($opt{seed}, "local $client"),
			rate => 50, options => "$client_options -c lock_timeout=10s -c synchronous_commit=off",
			work => sub { send_all($_[0], local_work($plan)) });
	}
	return $load;
}

# A snapshot that is not one of the publisher's states goes to the file of violations at once.
sub read_snapshot
{
	my ($dbh, $file, $function) = @_;
	$dbh->do('BEGIN ISOLATION LEVEL REPEATABLE READ') or return '08006';
	foreach my $f ('torture_read', $function, 'torture_read')
	{
		my ($bad) = $dbh->selectrow_array("SELECT $f()");
		return $dbh->ping ? $dbh->state : '08006' if $dbh->err;
		append_to_file($file, "snapshot:$bad\n") if $bad ne '';
	}
	$dbh->do('COMMIT');
	return;
}

sub torture_readers_start
{
	my ($load) = @_;
	foreach my $n (0, 1)
	{
		my @functions = ('torture_read_sums', 'torture_read_sums', 'torture_read_keys');
		start_session($load, "reader$n", $load->{sub}, 1, rate => 25, options => '',
			work => sub { read_snapshot($_[0], "$load->{dir}/violations", pick(@functions)) });
	}
	return;
}

sub torture_load_pause
{
	my ($load, $on) = @_;
	if ($on) { append_to_file("$load->{dir}/pause", '') }
	else { unlink "$load->{dir}/pause" }
	return;
}

sub torture_load_stop
{
	my ($load, $kind) = @_;
	my @pids = grep { !$kind || $load->{pids}{$_} eq $kind } keys %{ $load->{pids} };
	kill 'TERM', @pids;
	foreach my $pid (@pids)
	{
		waitpid($pid, 0);
		delete $running{$pid};
		delete $load->{pids}{$pid};
	}
	return;
}

sub torture_load_counts
{
	my ($load) = @_;
	my %counts = (pub => 0, sub => 0, reader => 0, failed => 0);
	foreach my $file (glob "$load->{dir}/count.*")
	{
		my ($kind) = $file =~ /count\.([a-z]+)\d+$/ or next;
		my ($done, $failed) = split ' ', slurp_file($file);
		$counts{$kind} += $done;
		$counts{failed} += $failed if $kind eq 'pub';
	}
	return %counts;
}

sub torture_load_violations
{
	my ($load) = @_;
	my $file = "$load->{dir}/violations";
	return -e $file ? slurp_file($file) : '';
}

END
{
	# Keep the exit status.
	my $status = $?;
	kill 'TERM', $_ for keys %running;
	waitpid($_, 0) for keys %running;
	$? = $status;
}

1;
