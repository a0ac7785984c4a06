# PpaTest.pm: what the TAP tests share: a publisher and a subscriber, backlogs, catch-up, comparison of tables, reading
# the server log.
#
# Parity: the built-in apply worker defines what is right. With PPA_BUILTIN=1 in the environment our library is not
# loaded and every test runs against stock PostgreSQL; only checks of our own views and log lines are skipped then.
#
# Nodes are PostgreSQL::Test::Cluster objects ($pub, $sub), so all of its methods (safe_psql, psql, poll_query_until,
# background_psql, stop, restart, wait_for_log ...) work on them. They are torn down at exit by that module.
# All waits are bounded by PG_TEST_TIMEOUT_DEFAULT (seconds) and die when it passes. The database is always 'postgres'
# unless db => NAME is given.
#
#   ppa_builtin()                        true when the built-in worker is tested
#   ppa_pair(%opt)                       -> ($pub, $sub), started. pub_conf, sub_conf: lines for postgresql.conf;
#                                        both => 1: our library on the publisher too
#   ppa_node($name, %opt)                -> one started node. conf => lines; load => 0: without our library
#   ppa_both($pub, $sub, $sql)           runs SQL on both nodes
#   ppa_subscribe($pub, $sub, %opt)      creates publication and subscription, waits until all tables are ready and (not
#                                        built in) until our log line says that we apply it. name => 'sub',
#                                        publication => 'pub', tables => 'ALL TABLES' (what CREATE PUBLICATION ... FOR
#                                        takes; undef: the publication exists), with => options of CREATE SUBSCRIPTION,
#                                        pubwith => options of CREATE PUBLICATION, pass_through => 1: expect that we
#                                        leave it to the built-in worker
#   ppa_wait_ready($sub, $name)          every table of the subscription in state 'r'
#   ppa_wait_passed($sub, $name)         our view says "passed through" (not when built in)
#   ppa_catchup($pub, $sub, $name)       all that is committed on the publisher now is applied
#   ppa_flush($node)                     flushes the commits of sessions with synchronous_commit off, which are not sent before
#                                        that (ppa_catchup does it)
#   ppa_disable / ppa_enable($sub, $name)   disable waits until the worker has gone
#   ppa_backlog($pub, $sub, $name, $work)   disable, do $work (SQL for the publisher, or code), enable: the
#                                        transactions arrive as one backlog, so that groups form. Does not wait.
#   ppa_wait_for($node, $sql, $what)     polls until the query returns 't', dies naming $what
#   ppa_worker_pid($sub, $name)          pid of the apply worker (waits for one). In parallel mode that is the leader
#   ppa_parallel($sub)                   how many apply workers beside the leader may be started: 0 in serial mode, in a build
#                                        that has no others, and when the built-in worker is tested
#   ppa_apply_pids_sql($pid)             a query (as text) for the processes that apply for the leader $pid: itself and its
#                                        workers. If more than one subscription is applied, the workers of all of them
#   ppa_set($node, $name, $value)        ALTER SYSTEM SET and reload; value undef: RESET
#   ppa_same($pub, $sub, $query, $test)  TAP: the query gives the same on both nodes
#   ppa_same_table($pub, $sub, $table, $test, %opt)  TAP: same rows. cols => 'a, b', where => condition. Compared by
#                                        count and hash; on a difference the first rows that differ are shown
#   ppa_error_count($sub, $name)         apply_error_count of pg_stat_subscription_stats
#   ppa_log_pos($node)                   size of the log now: an offset for the functions below
#   ppa_log($node, $offset)              the log from there on
#   ppa_log_match($node, $regex, $offset)    waits for a match -> its captures (or 1)
#   ppa_log_count($node, $regex, $offset)    how often it matches now
#   ppa_worker_starts($sub, $name, $offset)  how often the apply worker of the subscription has started
#   ppa_log_entries($node, $offset)      -> hashes: pid, sqlstate, backend, level, text, detail, hint, context,
#                                        statement, next (offset behind the entry)
#   ppa_apply_error($sub, $offset, $regex)   waits for the next ERROR of a logical replication worker whose text
#                                        matches -> its entry with the parts of the context line: origin, command,
#                                        relation, column, xid, lsn
#   ppa_load_start($pub, %opt)           pgbench in the background -> handle. script => SQL (one or an array of
#                                        scripts), clients => 4, seconds => N or transactions => N per client,
#                                        rate => N transactions per second, args => [more]
#   ppa_load_finish($handle)             waits for it and dies if it failed -> its output
#   ppa_load_stop($pub, $handle)         interrupts it and waits until its sessions have gone: load "until we are done"
#   ppa_views($sub)                      false when built in; else creates our extension if needed, true
#   ppa_stat($sub, $name, $column)       a column of parallel_apply.stat_subscription
package PpaTest;

use strict;
use warnings;
use Carp qw(croak);
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils qw(slurp_file append_to_file);
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  ppa_builtin ppa_pair ppa_node ppa_both ppa_subscribe ppa_wait_ready ppa_wait_passed ppa_flush ppa_catchup ppa_disable ppa_enable ppa_backlog
  ppa_wait_for ppa_worker_pid ppa_parallel ppa_apply_pids_sql ppa_set ppa_same ppa_same_table ppa_error_count ppa_log_pos ppa_log ppa_log_match
  ppa_log_count ppa_worker_starts ppa_log_entries ppa_apply_error ppa_load_start ppa_load_finish ppa_load_stop
  ppa_views ppa_stat
);

my @loads;    # pgbench runs that must not outlive a test that dies

# Runs $code until it returns a list that is not empty; dies after the bound.
sub poll
{
	my ($what, $code) = @_;
	my $end = time() + $PostgreSQL::Test::Utils::timeout_default;
	while (1)
	{
		my @result = $code->();
		return @result if @result;
		croak "timed out waiting for $what" if time() > $end;
		usleep(50_000);
	}
}

sub ppa_builtin
{
	return ($ENV{PPA_BUILTIN} // '') =~ /^(?:1|yes|on)$/;
}

sub ppa_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 'logical');

	# log_statement = all would fill the log under load; the prefix carries what ppa_log_entries() reads. A failed
	# worker comes back soon; tests that count attempts set wal_retrieve_retry_interval higher.
	$node->append_conf('postgresql.conf', <<'CONF');
shared_buffers = 64MB
max_connections = 60
max_worker_processes = 20
max_logical_replication_workers = 12
log_statement = none
log_replication_commands = off
log_line_prefix = '%m [%p] %e [%b] '
wal_retrieve_retry_interval = 200ms
max_wal_size = 1GB
CONF
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_parallel_apply'")
	  if ($opt{load} // 1) && !ppa_builtin();
	$node->append_conf('postgresql.conf', $opt{conf}) if defined $opt{conf};
	$node->start;
	return $node;
}

sub ppa_pair
{
	my (%opt) = @_;
	my $pub = ppa_node('publisher', conf => $opt{pub_conf}, load => $opt{both} // 0);
	my $sub = ppa_node('subscriber', conf => $opt{sub_conf});
	return ($pub, $sub);
}

sub ppa_both
{
	my ($pub, $sub, $sql) = @_;
	$_->safe_psql('postgres', $sql) for ($pub, $sub);
	return;
}

sub ppa_subscribe
{
	my ($pub, $sub, %opt) = @_;
	my $name = $opt{name} // 'sub';
	my $publication = $opt{publication} // 'pub';
	my $tables = exists $opt{tables} ? $opt{tables} : 'ALL TABLES';
	my $db = $opt{db} // 'postgres';
	my $offset = ppa_log_pos($sub);

	$pub->safe_psql('postgres',
		"CREATE PUBLICATION $publication FOR $tables" . ($opt{pubwith} ? " WITH ($opt{pubwith})" : ''))
	  if defined $tables;
	my $connstr = $pub->connstr . ' dbname=postgres';
	$sub->safe_psql($db,
		"CREATE SUBSCRIPTION \"$name\" CONNECTION '$connstr' PUBLICATION $publication"
		  . ($opt{with} ? " WITH ($opt{with})" : ''));
	ppa_wait_ready($sub, $name, db => $db);
	unless (ppa_builtin())
	{
		ppa_log_match($sub, qr/pg_parallel_apply applies subscription "\Q$name\E"/, $offset) unless $opt{pass_through};
		ppa_wait_passed($sub, $name) if $opt{pass_through};
	}
	ppa_catchup($pub, $sub, $name);
	return;
}

sub ppa_wait_passed
{
	my ($sub, $name) = @_;
	ppa_views($sub);
	ppa_wait_for($sub,
		"SELECT state = 'passed through' AND pid IS NOT NULL FROM parallel_apply.stat_subscription WHERE subname = '$name'",
		"subscription $name in the hands of the built-in worker");
	return;
}

sub ppa_wait_ready
{
	my ($sub, $name, %opt) = @_;
	$sub->poll_query_until($opt{db} // 'postgres', <<"SQL") or croak "tables of subscription $name not ready";
SELECT count(*) = 0 FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
WHERE s.subname = '$name' AND r.srsubstate <> 'r'
SQL
	return;
}

sub ppa_flush
{
	my ($node) = @_;

	# A commit that has written WAL. A row lock is the least of that, and no reader of the stream sees it.
	$node->safe_psql('postgres',
		q{SET synchronous_commit = local; SELECT FROM pg_catalog.pg_database WHERE datname = 'template1' FOR KEY SHARE});
	return;
}

sub ppa_catchup
{
	my ($pub, $sub, $name) = @_;
	ppa_flush($pub);
	$pub->wait_for_catchup($name // 'sub');
	return;
}

sub ppa_disable
{
	my ($sub, $name) = @_;
	$name //= 'sub';
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION \"$name\" DISABLE");
	ppa_wait_for($sub, "SELECT count(*) = 0 FROM pg_stat_subscription WHERE subname = '$name' AND pid IS NOT NULL",
		"the end of the worker of disabled subscription $name");
	return;
}

sub ppa_enable
{
	my ($sub, $name) = @_;
	$name //= 'sub';
	$sub->safe_psql('postgres', "ALTER SUBSCRIPTION \"$name\" ENABLE");
	return;
}

sub ppa_backlog
{
	my ($pub, $sub, $name, $work) = @_;
	ppa_disable($sub, $name);
	if (ref $work) { $work->() }
	else { $pub->safe_psql('postgres', $work) }
	ppa_enable($sub, $name);
	return;
}

sub ppa_wait_for
{
	my ($node, $sql, $what, %opt) = @_;
	$node->poll_query_until($opt{db} // 'postgres', $sql) or croak 'timed out waiting for ' . ($what // $sql);
	return;
}

sub ppa_worker_pid
{
	my ($sub, $name) = @_;
	$name //= 'sub';
	my ($pid) = poll(
		"an apply worker of subscription $name",
		sub {
			my $p = $sub->safe_psql('postgres',
				"SELECT pid FROM pg_stat_subscription WHERE subname = '$name' AND relid IS NULL AND pid IS NOT NULL");
			return $p eq '' ? () : ($p);
		});
	return $pid;
}

sub ppa_parallel
{
	my ($sub) = @_;
	return 0 if ppa_builtin();
	return $sub->safe_psql('postgres', q{SELECT coalesce(current_setting('pg_parallel_apply.workers', true), '0')});
}

sub ppa_apply_pids_sql
{
	my ($pid) = @_;
	return "SELECT $pid AS pid UNION SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_parallel_apply worker'";
}

sub ppa_set
{
	my ($node, $name, $value) = @_;
	$node->safe_psql('postgres',
		defined $value ? "ALTER SYSTEM SET $name = $value" : "ALTER SYSTEM RESET $name");
	$node->reload;
	return;
}

sub ppa_same
{
	my ($pub, $sub, $query, $test, %opt) = @_;
	my $db = $opt{db} // 'postgres';
	return is($sub->safe_psql($db, $query), $pub->safe_psql('postgres', $query), $test);
}

sub ppa_same_table
{
	my ($pub, $sub, $table, $test, %opt) = @_;
	my $db = $opt{db} // 'postgres';
	my $rows = 'SELECT ' . ($opt{cols} // '*') . " FROM $table" . ($opt{where} ? " WHERE $opt{where}" : '');
	my $sum = "SELECT count(*), coalesce(sum(hashtextextended(r::text, 0)), 0) FROM ($rows) r";
	my ($want, $got) = ($pub->safe_psql('postgres', $sum), $sub->safe_psql($db, $sum));
	return 1 if is($got, $want, $test);

	my $sorted = "SELECT r::text FROM ($rows) r ORDER BY 1";
	my %rest;
	$rest{$_}++ for split /\n/, $pub->safe_psql('postgres', $sorted);
	$rest{$_}-- for split /\n/, $sub->safe_psql($db, $sorted);
	my @missing = grep { $rest{$_} > 0 } sort keys %rest;
	my @extra = grep { $rest{$_} < 0 } sort keys %rest;
	diag "on the publisher only: $_" for @missing > 10 ? @missing[ 0 .. 9 ] : @missing;
	diag "on the subscriber only: $_" for @extra > 10 ? @extra[ 0 .. 9 ] : @extra;
	return 0;
}

sub ppa_error_count
{
	my ($sub, $name) = @_;
	$name //= 'sub';
	return $sub->safe_psql('postgres',
		"SELECT apply_error_count FROM pg_stat_subscription_stats WHERE subname = '$name'");
}

sub ppa_log_pos
{
	my ($node) = @_;
	return -s $node->logfile;
}

sub ppa_log
{
	my ($node, $offset) = @_;
	return slurp_file($node->logfile, $offset // 0);
}

sub ppa_log_match
{
	my ($node, $regex, $offset) = @_;
	return poll("a log line that matches $regex", sub { ppa_log($node, $offset) =~ $regex });
}

sub ppa_log_count
{
	my ($node, $regex, $offset) = @_;
	my $log = ppa_log($node, $offset);
	my $count = 0;
	$count++ while $log =~ /$regex/g;
	return $count;
}

sub ppa_worker_starts
{
	my ($sub, $name, $offset) = @_;
	return ppa_log_count($sub, qr/logical replication apply worker for subscription "\Q$name\E" has started/, $offset);
}

sub ppa_log_entries
{
	my ($node, $offset) = @_;
	$offset //= 0;
	my (@entries, %last);
	my $part;    # where lines that begin with a tab belong
	my $pos = $offset;
	foreach my $line (split /^/, ppa_log($node, $offset))
	{
		$pos += length $line;
		chomp $line;
		if ($line =~ /^\S+ \S+ \S+ \[(\d+)\] (\w{5}) \[([^\]]*)\] (\w+): +(.*)$/)
		{
			my ($pid, $sqlstate, $backend, $level, $text) = ($1, $2, $3, $4, $5);
			if ($level =~ /^(?:DETAIL|HINT|CONTEXT|STATEMENT|QUERY|LOCATION)$/)
			{
				my $entry = $last{$pid} or next;
				$entry->{ lc $level } = $text;
				$part = \$entry->{ lc $level };
			}
			else
			{
				$last{$pid} = {
					pid => $pid, sqlstate => $sqlstate, backend => $backend,
					level => $level, text => $text, context => ''
				};
				push @entries, $last{$pid};
				$part = \$last{$pid}{text};
			}
			$last{$pid}{next} = $pos;
		}
		elsif ($part && $line =~ /^\t(.*)$/)
		{
			$$part .= "\n$1";
		}
	}
	return @entries;
}

sub ppa_apply_error
{
	my ($sub, $offset, $regex) = @_;
	my ($entry) = poll(
		'an error of an apply worker' . ($regex ? " that matches $regex" : ''),
		sub {
			my ($e) = grep {
				     $_->{level} eq 'ERROR'
				  && $_->{backend} =~ /logical replication/
				  && (!$regex || $_->{text} =~ $regex)
			} ppa_log_entries($sub, $offset);
			return $e ? ($e) : ();
		});
	my $name = qr/"((?:[^"]|"")*)"/;
	my $target = qr/ for replication target relation $name(?: column $name)?/;
	my $place = qr/ in transaction (\d+)(?:, finished at ([[:xdigit:]]+\/[[:xdigit:]]+))?/;
	if ($entry->{context} =~
		/processing remote data for replication origin $name during message type $name(?:$target)?(?:$place)?$/m)
	{
		@{$entry}{qw(origin command relation column xid lsn)} = ($1, $2, $3, $4, $5, $6);
	}
	return $entry;
}

sub ppa_load_start
{
	my ($pub, %opt) = @_;
	my $scripts = ref $opt{script} ? $opt{script} : [ $opt{script} ];
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my @cmd = ('pgbench', '-n', '-c', $opt{clients} // 4, '-j', 1);
	push @cmd, '-T', $opt{seconds} if $opt{seconds};
	push @cmd, '-t', $opt{transactions} if $opt{transactions};
	push @cmd, '-R', $opt{rate} if $opt{rate};
	push @cmd, @{ $opt{args} // [] };
	my $n = 0;
	foreach my $sql (@$scripts)
	{
		my $file = "$dir/script" . $n++;
		append_to_file($file, $sql);
		push @cmd, '-f', $file;
	}
	push @cmd, $pub->connstr('postgres');
	my $load = { output => '' };
	my $output = \$load->{output};
	# whoever runs the tests in the background may have us ignore the signal that ppa_load_stop() sends
	local $SIG{INT} = 'DEFAULT';
	$load->{run} = IPC::Run::start(\@cmd, '<', \undef, '>&', $output);
	push @loads, $load;
	return $load;
}

sub ppa_load_finish
{
	my ($load) = @_;
	my $ok = $load->{run}->finish;
	@loads = grep { $_ != $load } @loads;
	croak "pgbench failed: $load->{output}" unless $ok;
	return $load->{output};
}

sub ppa_load_stop
{
	my ($pub, $load) = @_;
	croak "pgbench ended early: $load->{output}" unless $load->{run}->pumpable;
	$load->{run}->signal('INT');
	$load->{run}->finish;
	@loads = grep { $_ != $load } @loads;
	ppa_wait_for($pub, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'pgbench'",
		'the end of the sessions of pgbench');
	return;
}

sub ppa_views
{
	my ($sub, %opt) = @_;
	return 0 if ppa_builtin();
	$sub->safe_psql($opt{db} // 'postgres',
		'SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS pg_parallel_apply');
	return 1;
}

sub ppa_stat
{
	my ($sub, $name, $column) = @_;
	ppa_views($sub);
	return $sub->safe_psql('postgres', "SELECT $column FROM parallel_apply.stat_subscription WHERE subname = '$name'");
}

END
{
	# Keep the exit status of the test: kill_kill runs commands.
	my $status = $?;
	$_->{run}->kill_kill for @loads;
	$? = $status;
}

1;
