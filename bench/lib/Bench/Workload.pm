# Bench::Workload: the drain workloads of WORKLOADS.md, section W1, short sizes.
#
# A workload names its tables, how many transactions a backlog has at size 1
# (chosen for a drain of 2 to 6 s), the row changes per transaction, and the
# pgbench scripts that make it.  In the scripts :i counts the transactions of
# one client from 1; the K workloads use it to visit disjoint blocks of rows, one
# after the other, as the clients of a table with a growing key do.  S1 is K1
# with the rows in scattered order: apply then waits for memory at every row.

package Bench::Workload;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(workload workload_names default_workloads CLIENTS);

use constant CLIENTS => 8;

my $ROWS          = 400_000;
my $COUNTERS      = 10_000;
my $PGBENCH_SCALE = 4;

my @DEFAULT = qw(K1 H10 indep ins1 pgbench K1000);

my %TABLE = (
	rows => "CREATE TABLE rows (id bigint PRIMARY KEY, version bigint NOT NULL);
		INSERT INTO rows SELECT i, 0 FROM generate_series(1, $ROWS) i",
	counters => "CREATE TABLE counters (id int PRIMARY KEY, version bigint NOT NULL);
		INSERT INTO counters SELECT i, 0 FROM generate_series(1, $COUNTERS) i",
	events => 'CREATE TABLE events (id bigserial PRIMARY KEY, c int)',
	wide   => "CREATE TABLE wide (id int PRIMARY KEY, branch int, a int, b int, c int, d int,
			balance int, filler char(84));
		INSERT INTO wide SELECT i, i % 10, i, i * 7 % $ROWS, i * 11 % $ROWS, i % 1000, 0, ''
			FROM generate_series(1, $ROWS) i;
		CREATE INDEX ON wide (branch); CREATE INDEX ON wide (a); CREATE INDEX ON wide (b);
		CREATE INDEX ON wide (c); CREATE INDEX ON wide (d)",
);

my $COUNT  = "\\set i :i + 1\n";
my $INSERT = "\\set c random(1, 1000000)\nINSERT INTO events (c) VALUES (:c);\n";

# K adjacent rows per transaction, each block once per round.
sub block_script
{
	my ($k, $scattered) = @_;
	my $blocks = $ROWS / $k;
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

# K1000 updates each of the rows once, so 400 transactions are its limit.
my %K_TRANSACTIONS = (1 => 100_000, 10 => 30_000, 100 => 3_200, 1000 => 400);

my %WORKLOAD = (
	indep => {
		tables       => [qw(rows events)],
		transactions => 100_000,
		changes      => 1,
		scripts      => [ point_update('rows', $ROWS), $INSERT ],
	},
	ins1 => {
		tables       => [qw(events)],
		transactions => 100_000,
		changes      => 1,
		scripts      => [$INSERT],
	},
	ins100 => {
		tables       => [qw(events)],
		transactions => 4_000,
		changes      => 100,
		scripts      => ["INSERT INTO events (c) SELECT generate_series(1, 100);\n"],
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
		scripts      => [ block_script(1, 1) ],
	},
	wide => {
		tables       => [qw(wide)],
		transactions => 50_000,
		changes      => 1,
		scripts      => [
				"\\set id random(1, $ROWS)\n\\set b random(1, $ROWS)\n\\set d random(0, 999)\n"
			  . "UPDATE wide SET b = :b, d = :d WHERE id = :id;\n"
		],
	},
	(   map {
			("K$_" => {
				tables       => [qw(rows)],
				transactions => $K_TRANSACTIONS{$_},
				changes      => $_,
				scripts      => [ block_script($_) ],
			})
		} keys %K_TRANSACTIONS
	),
	(   map {
			("H$_" => {
				tables       => [qw(counters events)],
				transactions => 100_000,
				changes      => 1,
				scripts      => [ point_update('counters', $_), $INSERT ],
			})
		} qw(1 10 100 10000)
	),
);

sub workload_names    { return sort keys %WORKLOAD; }
sub default_workloads { return @DEFAULT; }

# One workload with its number of transactions scaled by SIZE.
sub workload
{
	my ($name, $size) = @_;
	my $w = $WORKLOAD{$name}
	  or die "unknown workload \"$name\"; there are: @{[workload_names()]}\n";
	my $per_client = int($w->{transactions} * $size / CLIENTS) || 1;
	return bless { %$w, name => $name, per_client => $per_client,
		transactions => $per_client * CLIENTS }, __PACKAGE__;
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
		$dbh->do($TABLE{$_}) for @{ $self->{tables} };
	}
	$dbh->do('CREATE TABLE marker (id int PRIMARY KEY)');
	return;
}

sub drop_tables
{
	my ($self, $dbh) = @_;
	$dbh->do('DROP TABLE ' . join ', ', @{ $self->{tables} }, 'marker');
	return;
}

# Run the transactions of one backlog on the publisher.
sub make_backlog
{
	my ($self, $cluster, $node, $database, $seed) = @_;
	my @what = $self->{builtin} ? ('-b', $self->{builtin}, '-s', $self->{scale}) : ();
	my $n = 0;
	for my $text (@{ $self->{scripts} // [] })
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
