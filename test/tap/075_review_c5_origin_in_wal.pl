# 075_review_c5_origin_in_wal.pl: review finding C5. The subscriber is read itself, by a reader of local changes only that takes
# large transactions as they come (streaming), and by one of everything.
# Shows: no change that was applied looks local, not even before its commit, whichever process applied it, in a group or
# alone, for the first or the second time; and the reader of everything gets each row once.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Utils;
use PpaFault;
use PpaTest;
use Test::More;
my ($pub, $sub) = ppa_pair(
	pub_conf => 'synchronous_commit = off',
	sub_conf => "logical_decoding_work_mem = 64kB\ndeadlock_timeout = 10min");
fault_gate($pub, $sub);
ppa_both($pub, $sub, join '', 'CREATE TABLE fires (id int PRIMARY KEY);', map { "CREATE TABLE t_$_ (id int PRIMARY KEY, note text, v text);" } 1 .. 4);
$sub->safe_psql('postgres', <<'SQL');
CREATE TABLE audit (id int);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit VALUES (NEW.id); RETURN NULL; END $$;
CREATE TRIGGER audit AFTER INSERT ON fires FOR EACH ROW EXECUTE FUNCTION audit();
ALTER TABLE fires ENABLE ALWAYS TRIGGER audit;
CREATE UNIQUE INDEX ON t_1 (lower(v));
SELECT pg_create_logical_replication_slot(s, 'test_decoding') FROM unnest('{own,all}'::text[]) s;
SQL
ppa_subscribe($pub, $sub);
my $offset = ppa_log_pos($sub);

sub read_slot
{
	my ($slot, $local) = @_;
	return $sub->safe_psql('postgres', <<"SQL");
SELECT data FROM pg_logical_slot_get_changes('$slot', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1', 'only-local', '$local', 'stream-changes', '1')
SQL
}

# What is not streamed because it is small; transactions of about a MB; retries by a hidden unique value; a trigger.
my $expected = 0;
foreach my $guess ('table', 'none')
{
	next if !fault_setting($sub, 'debug_dependencies', $guess) && $guess ne 'table';
	fault_warm_up($pub, $sub);
	my $base = $guess eq 'table' ? 1_000_000 : 2_000_000;
	foreach my $n (1 .. 3)
	{
		my $from = $base + $n * 10_000;
		$pub->safe_psql('postgres', fault_gate_sql(0.7));
		foreach my $t (1 .. 4)
		{
			$pub->safe_psql('postgres', "INSERT INTO t_$t SELECT $from + g, repeat('x', 200) FROM generate_series(1, 3000) g; INSERT INTO fires VALUES ($from + $t)");
			$pub->safe_psql('postgres', "INSERT INTO t_$t VALUES ($from + 4000 + g, 'small', 'v$from')" =~ s/ \+ g//r);
			$pub->safe_psql('postgres', "DELETE FROM t_$t WHERE id = $from + 4000");
			$pub->safe_psql('postgres', "INSERT INTO t_$t VALUES ($from + 4001, 'small', 'V$from')");
		}
		$expected += 4 * 3002;
	}
	ppa_backlog($pub, $sub, 'sub', join '', map { my $t = 1 + $_ % 4; "INSERT INTO t_$t VALUES ($base + 100000 + $_, 'backlog');" } 1 .. 400);
	$expected += 400;
	fault_applied($pub, $sub, $offset, "dependencies: $guess");
	ppa_same_table($pub, $sub, "t_$_", "$guess: t_$_ equal") for 1 .. 4;
}
$sub->safe_psql('postgres', q{INSERT INTO fires VALUES (-1)});
my $own = read_slot('own', 'on');
is($own, join("\n", 'BEGIN', 'table public.fires: INSERT: id[integer]:-1', 'table public.audit: INSERT: id[integer]:-1', 'COMMIT'), 'only the local transaction looks local, nothing was streamed')
  or diag substr($own, 0, 500);

# Transactions that were given up may have been streamed and aborted: those rows are announced without contents.
my $all = read_slot('all', 'off');
my $count = () = $all =~ /^table public\.t_\d: INSERT|^streaming change for transaction/mg;
cmp_ok($count, '>=', $expected, 'the reader of everything gets all rows');
like($all, qr/opening a streamed block/, 'as a stream, where they are many');
fault_no_crash($pub, $sub);
done_testing();
