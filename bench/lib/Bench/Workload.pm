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
#
# Three kinds have a number: K<n> updates n rows per transaction, H<n> has n hot
# counters, wide<n> has n secondary indexes ("wide" is wide5).  The number of
# transactions follows from n so that a drain takes about as long whatever n is.

package Bench::Workload;

use strict;
use warnings;

use Exporter qw(import);

use Bench::Cluster qw(long_do);

our @EXPORT_OK = qw(workload is_workload workload_names default_workloads expand_alias profile
  CLIENTS);

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
			FROM generate_series(1, :rows) i},
);

# The secondary indexes of the wide table, in the order in which wide<n> has them; the
# first two are on the columns that are updated.
my @INDEXES      = ('b', 'd', 'a', 'c', 'branch', 'c, a', 'a, c', 'branch, c');
my $WIDE_INDEXES = 5;

# Bytes per row on disk, for the check of free space: with the primary key, and with
# each secondary index of the wide table.
my %ROW_BYTES   = (rows => 80, wide => 170);
my $INDEX_BYTES = 30;

my $COUNT  = "\\set i :i + 1\n";
my $INSERT = "\\set c random(1, 1000000)\nINSERT INTO events (c) VALUES (:c);\n";

# K adjacent rows per transaction, each block once per round.
sub block_script
{
	my ($k, $rows, $scattered) = @_;
	my $blocks = int($rows / $k);
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

# The kinds of workload that have a number: its limits, and what it stands for.
# What the constants say of the time of a transaction was seen with the built-in
# worker: 740 parts and 260 for each row; 1000 and 200 for each index.  No block of
# rows is updated twice at size 1.
my %KIND = (
	K    => [ 1, 10_000, sub { return k_workload($_[0]); } ],
	H    => [ 1, $COUNTERS, sub { return h_workload($_[0]); } ],
	wide => [ 0, scalar @INDEXES, sub { return wide_workload($_[0]); } ],
);

sub k_workload
{
	my ($k, %more) = @_;
	return {
		tables       => [qw(rows)],
		transactions => int(1e8 / (740 + 260 * $k)),
		changes      => $k,
		least_rows   => CLIENTS * $k,
		scripts      => sub { return block_script($k, $_[0]); },
		%more,
	};
}

sub h_workload
{
	my ($hot) = @_;
	return {
		tables       => [qw(counters events)],
		transactions => 100_000,
		changes      => 1,
		scripts      => sub { return (point_update('counters', $hot), $INSERT); },
	};
}

sub wide_workload
{
	my ($indexes, %more) = @_;
	return {
		tables       => [qw(wide)],
		indexes      => $indexes,
		transactions => int(1e8 / (1000 + 200 * $indexes)),
		changes      => 1,
		scripts      => sub { return wide_update($_[0]); },
		%more,
	};
}

# Those without a number.  The scripts are called with the number of rows.  {settings}
# are for ours only.
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
	wide => wide_workload($WIDE_INDEXES),
	cold => wide_workload($WIDE_INDEXES,
		rows         => $COLD_ROWS,
		transactions => 10_000,
		profile      => 'cold',
		cold         => 1),
	syncK1 => k_workload(1,
		transactions => 20_000,
		profile      => 'sync',
		settings     => { 'pg_parallel_apply.group_commit' => 'off' }),
	syncK1g => k_workload(1,
		transactions => 20_000,
		profile      => 'sync',
		settings     => { 'pg_parallel_apply.group_commit' => 'on' }),
);

# What NAME stands for, or nothing.
sub definition
{
	my ($name) = @_;
	return $WORKLOAD{$name} if $WORKLOAD{$name};
	my ($kind, $n) = $name =~ /^([A-Za-z]+)(0|[1-9]\d{0,8})$/ or return;
	my ($min, $max, $make) = @{ $KIND{$kind} // return };
	return $n < $min || $n > $max ? undef : $make->($n);
}

# (least, greatest) number of a kind
sub limits { my ($kind) = @_; return @{ $KIND{$kind} }[ 0, 1 ]; }

sub is_workload       { my ($name) = @_; return defined definition($name); }
sub default_workloads { return @DEFAULT; }

sub workload_names
{
	return join(' ', @W1, 'S1', @SYNC)
	  . join('', map { sprintf ' %s<%d..%d>', $_, limits($_) } sort keys %KIND)
	  . '; or ' . join ', ', sort keys %ALIAS;
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
	my $w = definition($name)
	  // die "unknown workload \"$name\"; there are: @{[workload_names()]}\n";
	my $per_client = int($w->{transactions} * $size / CLIENTS) || 1;

	# Whole blocks for the K of WORKLOADS.md.
	my $rows = int(($w->{rows} // $ROWS) * $scale / 1000) * 1000 || 1000;
	die "$name needs $w->{least_rows} rows, SCALE=$scale makes $rows\n"
	  if $rows < ($w->{least_rows} // 0);
	return bless { profile => 'memory', %$w, name => $name, rows => $rows,
		per_client => $per_client, transactions => $per_client * CLIENTS }, __PACKAGE__;
}

# Megabytes that the tables take once.
sub table_megabytes
{
	my ($self) = @_;
	return 20 * $self->{scale} if $self->{scale};
	my $bytes = 10e6;
	$bytes += $self->{rows} * (($ROW_BYTES{$_} // 0) + $INDEX_BYTES * ($self->{indexes} // 0))
	  for @{ $self->{tables} };
	return int($bytes * 1.3 / 1e6);
}

# Megabytes of WAL that a backlog takes: the rows and index entries, and each page that
# is changed, whole at the first time; a transaction changes few pages, but one for
# each index.
sub wal_megabytes
{
	my ($self) = @_;
	my $indexes = $self->{indexes} // 0;
	my $whole   = $self->{transactions} * (1000 + 8192 * $indexes);
	my $tables  = 1.5e6 * $self->table_megabytes;
	$whole = $tables if $whole > $tables;
	my $changes = $self->{transactions} * $self->{changes};
	return 200 + int(($changes * (500 + 100 * $indexes) + $whole) / 1e6);
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
		long_do($dbh, "CREATE INDEX ON wide ($_)") for @INDEXES[ 0 .. ($self->{indexes} // 0) - 1 ];
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
