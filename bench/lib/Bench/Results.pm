# Bench::Results: reading back what the benchmark commands have written.
#
# A record is one run.  Those of old files, and of commands that name things
# differently, are brought to one form: {benchmark}, {round} (the same in all
# records that are ratios of each other, and in no others) and {label} (the
# contender, with what else tells two of its runs apart).

package Bench::Results;

use strict;
use warnings;

use Exporter qw(import);
use File::Basename qw(basename);
use JSON::PP;
use List::Util qw(uniq max);

our @EXPORT_OK = qw(read_results of_benchmark values_of where file_names about);

# Rounds of the second file of a benchmark are counted from here, and so on.
my $NEXT_FILE = 1000;

# The result files that PATHS (files and folders) name.
sub file_names
{
	my (@paths) = @_;
	my @files;
	for my $path (@paths)
	{
		die "no such file or folder: $path\n" unless -e $path;
		my @found = -d $path ? sort glob("\Q$path\E/*.jsonl") : ($path);
		die "no result files (*.jsonl) in $path\n" unless @found;
		push @files, @found;
	}
	return uniq @files;
}

# The records of one file.  A last line that is cut off (the command was killed) is
# left out.
sub read_file
{
	my ($file) = @_;
	open my $in, '<', $file or die "$file: $!\n";
	my @lines = <$in>;
	close $in;
	my @records;
	while (defined(my $line = shift @lines))
	{
		next unless $line =~ /\S/;
		my $record = eval { decode_json($line) };
		if (ref $record eq 'HASH' && defined $record->{contender}) { push @records, $record; }
		elsif (@lines || $line =~ /\n\z/) { die "$file: not a record of a benchmark: $line"; }
		else { print STDERR "$file: the last line is cut off and left out\n"; }
	}
	return @records;
}

sub label
{
	my ($record) = @_;
	my $label = $record->{contender};
	$label .= ' streaming' if ($record->{streaming} // 'off') !~ /^(?:off|0|false)$/;
	return $label;
}

# All records of PATHS, in the order in which they were made.
sub read_results
{
	my (@paths) = @_;
	my (@records, %files);
	for my $file (file_names(@paths))
	{
		my ($kind) = basename($file) =~ /^([a-z]+)-/;
		my %offset;
		for my $record (read_file($file))
		{
			my $benchmark = $record->{benchmark} //= $kind
			  // die "$file: a record does not say of which benchmark it is\n";
			$offset{$benchmark} //= $NEXT_FILE * $files{$benchmark}++;
			$record->{round} = ($record->{round} // $record->{turn} // 1) + $offset{$benchmark};
			$record->{label} = label($record);
			$record->{file}  = basename($file);
			push @records, $record;
		}
	}
	die "no records in @paths\n" unless @records;
	return @records;
}

sub of_benchmark { my ($name, @records) = @_; return grep { $_->{benchmark} eq $name } @records; }

# The different values of a field, in the order of the records.
sub values_of
{
	my ($field, @records) = @_;
	return uniq grep { defined } map { $_->{$field} } @records;
}

# The records in which all these fields have these values.
sub where
{
	my ($wanted, @records) = @_;
	return grep {
		my $record = $_;
		!grep { ($record->{$_} // '') ne $wanted->{$_} } keys %$wanted;
	} @records;
}

# What was measured where, as lines of text.
sub about
{
	my (@records) = @_;
	my %names = (
		commit       => 'commit',
		postgresql   => 'server',
		machine      => 'machine',
		cores        => 'cores',
		library_md5  => 'library (md5)',
		publisher_on => 'publisher on',
		subscriber_on => 'subscriber on',
	);
	my @times = sort grep { defined } map { $_->{time} } @records;
	my @lines = ([ 'made', @times ? "$times[0] to $times[-1]" : 'unknown' ]);
	for my $field (qw(commit library_md5 postgresql machine cores publisher_on subscriber_on))
	{
		my @values = values_of($field, @records) or next;
		push @lines, [ $names{$field}, join '; ', @values ];
	}
	my @load = values_of('load_at_start', @records);
	push @lines, [ 'load at the start', sprintf '%.2f%s', max(@load),
		max(@load) > 1 ? ' (the machine was busy: do not quote these figures)' : '' ] if @load;
	return @lines;
}

1;
