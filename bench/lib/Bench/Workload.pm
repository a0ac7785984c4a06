# Bench::Workload: the drain workloads of WORKLOADS.md, section W1.
#
# A workload names its tables, how many transactions a backlog has at size 1
# (chosen for a drain of 2 to 6 s), the row changes per transaction, the pgbench
# scripts that make it, and its profile: where the nodes live and with which
# settings.  In the scripts :i counts the transactions of one client from 1; the K
# workloads use it to visit disjoint blocks of rows, one after the other, as the
# clients of a table with a growing key do.  S1 is K1 with the rows in scattered
# order: apply then waits for memory at every row.  "cold" is "wide" with a table
# many times larger than shared_buffers, on disk.  syncK1 and syncK1g are K1 with
# every commit flushed to disk, without and with group commit.

package Bench::Workload;

use strict;
use warnings;

use Exporter qw(import);

use Bench::Cluster qw(long_do);

our @EXPORT_OK = qw(workload is_workload workload_names default_workloads expand_alias profile CLIENTS);

use constant CLIENTS => 8;

# Rows at scale 1.  The cold table is larger than any cache that is not dropped.
my $ROWS          = 400_000;
my $COLD_ROWS     = 2_000_000;
my $COUNTERS      = 10_000;
my $PGBENCH_SCALE = 4;

my @W1      = qw(K1 K10 K100 K1000 H1 H10 H100 H10000 indep ins1 ins100 pgbench wide cold);
my @SYNC    = qw(syncK1 syncK1g);
my @DEFAULT = qw(K1 H10 indep ins1 pgbench K1000);
my %ALIAS   = (all => [ @W1, 'S1', @SYNC ], sync => \@SYNC, W1 => \@W1);

# Where the nodes live.  The publisher is always in memory: its speed is the
# yardstick, not what is measured.
my %PROFILE = (
	memory => { publisher => 'memory', subscriber => 'memory' },
	cold   => {
		publisher           => 'memory',
		subscriber          => 'disk',
		subscriber_settings => { shared_buffers => '32MB' },
	},
	sync => {
		publisher            => 'memory',
		subscriber           => 'disk',
		subscriber_settings  => { fsync => 'on' },
		subscription_options => { synchronous_commit => 'on' },
	},
);

# SQL for each table; :rows is the number of rows.
my %TABLE = (
	rows => 'CREATE TABLE rows (id bigint PRIMARY KEY, version bigint NOT NULL);
		INSERT INTO rows SELECT i, 0 FROM generate_series(1, :rows) i',
	counters => "CREATE TABLE counters (id int PRIMARY KEY, version bigint NOT NULL);
		INSERT INTO counters SELECT i, 0 FROM generate_series(1, $COUNTERS) i",
	events => 'CREATE TABLE events (id bigserial PRIMARY KEY, c int)',
	wide   => q{CREATE TABLE wide (id int PRIMARY KEY, branch int, a int, b int, c int, d int,
			balance int, filler char(84));
		INSERT INTO wide SELECT i, i % 10, i, i * 7::bigint % :rows, i * 11::bigint % :rows, i % 1000, 0, ''
			FROM generate_series(1, :rows) i;
		CREATE INDEX ON wide (branch); CREATE INDEX ON wide (a); CREATE INDEX ON wide (b);
		CREATE INDEX ON wide (c); CREATE INDEX ON wide (d)},
);

# Bytes per row on disk, indexes included, for the check of free space.
my %ROW_BYTES = (rows => 80, wide => 300);

my $COUNT  = "\\set i :i + 1\n";
my $INSERT = "\\set c random(1, 1000000)\nINSERT INTO events (c) VALUES (:c);\n";

# K adjacent rows per transaction, each block once per round.
sub block_script
{
	my ($k, $rows, $scattered) = @_;
	my $blocks = $rows / $k;
	my $turn   = ":client_id + @{[CLIENTS]} * (:i - 1)";
	return
		$COUNT
	  . "\\set block " . ($scattered ? "permute($turn, $blocks)" : "($turn) % $blocks") . "\n"
	  . "UPDATE rows SET version = version + 1"
	  . " WHERE id BETWEEN :block * $k + 1 AND :block * $k + $k;\n";
}

sub point_update
{
	my ($table, $limit) = @_;
	return "\\set id random(1, $limit)\n"
	  . "UPDATE $table SET version = version + 1 WHERE id = :id;\n";
}

sub wide_update
{
	my ($rows) = @_;
	return "\\set id random(1, $rows)\n\\set b random(1, $rows)\n\\set d random(0, 999)\n"
	  . "UPDATE wide SET b = :b, d = :d WHERE id = :id;\n";
}

# K1000 updates each of the rows once, so 400 transactions are its limit.
my %K_TRANSACTIONS = (1 => 100_000, 10 => 30_000, 100 => 3_200, 1000 => 400);

sub k_workload
{
	my ($k, %more) = @_;
	return {
		tables       => [qw(rows)],
		transactions => $K_TRANSACTIONS{$k},
		changes      => $k,
		scripts      => sub { return block_script($k, $_[0]); },
		%more,
	};
}

# The scripts are called with the number of rows.  {settings} are for ours only.
my %WORKLOAD = (
	indep => {
		tables       => [qw(rows events)],
		transactions => 100_000,
		changes      => 1,
		scripts      => sub { return (point_update('rows', $_[0]), $INSERT); },
	},
	ins1 => {
		tables       => [qw(events)],
		transactions => 100_000,
		changes      => 1,
		scripts      => sub { return $INSERT; },
	},
	ins100 => {
		tables       => [qw(events)],
		transactions => 4_000,
		changes      => 100,
		scripts      => sub { return "INSERT INTO events (c) SELECT generate_series(1, 100);\n"; },
	},
	pgbench => {
		tables       => [qw(pgbench_accounts pgbench_branches pgbench_tellers pgbench_history)],
		transactions => 60_000,
		changes      => 2,
		builtin      => 'simple-update',
		scale        => $PGBENCH_SCALE,
	},
	S1 => {
		tables       => [qw(rows)],
		transactions => 100_000,
		changes      => 1,
		scripts      => sub { return block_script(1, $_[0], 1); },
	},
	wide => {
		tables       => [qw(wide)],
		transactions => 50_000,
		changes      => 1,
		scripts      => sub { return wide_update($_[0]); },
	},
	cold => {
		tables       => [qw(wide)],
		rows         => $COLD_ROWS,
		transactions => 10_000,
		changes      => 1,
		profile      => 'cold',
		cold         => 1,
		scripts      => sub { return wide_update($_[0]); },
	},
	syncK1 => k_workload(1,
		transactions => 20_000,
		profile      => 'sync',
		settings     => { 'pg_parallel_apply.group_commit' => 'off' }),
	syncK1g => k_workload(1,
		transactions => 20_000,
		profile      => 'sync',
		settings     => { 'pg_parallel_apply.group_commit' => 'on' }),
	(map { ("K$_" => k_workload($_)) } keys %K_TRANSACTIONS),
	(   map {
			my $hot = $_;
			("H$hot" => {
				tables       => [qw(counters events)],
				transactions => 100_000,
				changes      => 1,
				scripts      => sub { return (point_update('counters', $hot), $INSERT); },
			})
		} qw(1 10 100 10000)
	),
);

sub is_workload       { my ($name) = @_; return exists $WORKLOAD{$name}; }
sub default_workloads { return @DEFAULT; }

sub workload_names
{
	return join(' ', @W1, 'S1', @SYNC) . '; or ' . join ', ', sort keys %ALIAS;
}

# The workloads that a name stands for: itself, or those of an alias.
sub expand_alias { my ($name) = @_; return @{ $ALIAS{$name} // [$name] }; }

# Where the nodes of a workload live: places, settings and options, by name.
sub profile
{
	my ($name) = @_;
	return { name => $name, %{ $PROFILE{$name} } };
}

# One workload with its number of transactions scaled by SIZE and its number of
# rows by SCALE.
sub workload
{
	my ($name, $size, $scale) = @_;
	my $w = $WORKLOAD{$name}
	  or die "unknown workload \"$name\"; there are: @{[workload_names()]}\n";
	my $per_client = int($w->{transactions} * $size / CLIENTS) || 1;

	# Whole blocks for each K.
	my $rows = int(($w->{rows} // $ROWS) * $scale / 1000) * 1000 || 1000;
	return bless { profile => 'memory', %$w, name => $name, rows => $rows,
		per_client => $per_client, transactions => $per_client * CLIENTS }, __PACKAGE__;
}

# Megabytes that the tables take once, and that the WAL of a backlog takes (an
# update of the wide table rewrites seven pages, and all of them whole at first).
sub table_megabytes
{
	my ($self) = @_;
	return 20 * $self->{scale} if $self->{scale};
	my $bytes = 10e6;
	$bytes += $self->{rows} * ($ROW_BYTES{$_} // 0) for @{ $self->{tables} };
	return int($bytes * 1.3 / 1e6);
}

sub wal_megabytes
{
	my ($self) = @_;
	my $first = $self->{tables}[0] eq 'wide' ? 50_000 : 1000;
	my $bytes = $self->{transactions} * ($self->{changes} * 500 + $first);
	return 200 + int($bytes / 1e6);
}

# Create and fill the tables in one database of one node.
sub create_tables
{
	my ($self, $cluster, $node, $database, $dbh) = @_;
	if ($self->{builtin})
	{
		$cluster->run_client($cluster->program('pgbench'), '-i', '-q', '-I', 'dtGp',
			'-s', $self->{scale}, $cluster->client_options($node, $database));
	}
	else
	{
		long_do($dbh, $TABLE{$_} =~ s/:rows\b/$self->{rows}/gr) for @{ $self->{tables} };
	}
	$dbh->do('CREATE TABLE marker (id int PRIMARY KEY)');
	return;
}

sub all_tables { my ($self) = @_; return (@{ $self->{tables} }, 'marker'); }

# Run the transactions of one backlog on the publisher.
sub make_backlog
{
	my ($self, $cluster, $node, $database, $seed) = @_;
	my @what = $self->{builtin} ? ('-b', $self->{builtin}, '-s', $self->{scale}) : ();
	my $n = 0;
	for my $text ($self->{scripts} ? $self->{scripts}->($self->{rows}) : ())
	{
		my $file = "$cluster->{dir}/script" . ++$n;
		open my $out, '>', $file or die "$file: $!\n";
		print $out $text;
		close $out or die "$file: $!\n";
		push @what, '-f', $file;
	}
	my $output = $cluster->run_client($cluster->program('pgbench'), '-n', '-M', 'prepared',
		'-c', CLIENTS, '-j', 2, '-t', $self->{per_client}, '-D', 'i=0', "--random-seed=$seed",
		@what, $cluster->client_options($node, $database));
	my ($done) = $output =~ /number of transactions actually processed: (\d+)/;
	die "pgbench did not do all of the backlog:\n$output"
	  unless defined $done && $done == $self->{transactions};
	return;
}

1;
