# Bench::Stage: what bench/stream, bench/copy and bench/full share.
#
# Each contender has a database of its own, and for each run a new subscription
# that is dropped after the comparison: nobody finds what another one left.  The
# publisher makes the changes anew for each run.  Where the clock must not start
# before the subscription is up, a first marker shows that it is.

package Bench::Stage;

use strict;
use warnings;

use Exporter qw(import);
use Time::HiRes qw(time);

use Bench::Cluster qw(progress long_do);
use Bench::Contender;
use Bench::Contest;
use Bench::Publisher qw(elsewhere);
use Bench::Setup qw(choice);

our @EXPORT_OK = qw(stage_contenders word_list begin_run next_marker transaction_run
  finish_run);

# Markers, unique over all runs of a command.
my $marker = 0;

# The contenders that a command of this kind measures, and "name (reason)" of
# those it leaves out.  EXCEPT: {name => why it cannot take part}.
sub stage_contenders
{
	my ($arguments, $except) = @_;
	die "PUBLISHER: this benchmark starts a publisher of its own\n" if elsewhere();
	local $ENV{CONTENDERS} = $ENV{CONTENDERS} // 'builtin ours4';
	my (undef, $names) = choice($arguments, 1);
	my @left_out = grep { $except->{$_} } @$names;
	progress("contender $_ is left out: $except->{$_}") for @left_out;
	my @contenders = map { Bench::Contender->new($_) } grep { !$except->{$_} } @$names;
	die "none of the contenders can take part\n" unless @contenders;
	return (\@contenders, map { "$_ ($except->{$_})" } @left_out);
}

# A list of words from the environment, each one of KNOWN.
sub word_list
{
	my ($name, $default, @known) = @_;
	my %known = map { ($_ => 1) } @known;
	my %seen;
	my @words = grep { !$seen{$_}++ } split ' ', $ENV{$name} // $default;
	die "$name must be of: @known; not \"@words\"\n" if !@words || grep { !$known{$_} } @words;
	return @words;
}

# The start of one run: tables of the publisher and of the contender are emptied; it
# has no subscription now.  In a new session, because the extension pglogical comes and
# goes with its subscription, and its functions remember what is no more.
sub begin_run
{
	my ($contest, $c, @tables) = @_;
	$c->{dbh}->disconnect;
	$c->{dbh} = $contest->{cluster}->connect_to('subscriber', $c->{database});
	long_do($_, 'TRUNCATE ' . join ', ', 'marker', @tables) for $contest->{publisher}, $c->{dbh};
	return;
}

sub next_marker { return ++$marker; }

# One transaction, applied by a contender whose subscription exists, disabled.
# SQL runs on the publisher; the clock starts FROM its "begin" or when "commit" has
# returned, and stops when a marker that is committed right behind is visible.  CPU
# and WAL are counted from ENABLE on.  Returns the record.
sub transaction_run
{
	my ($contest, $c, %arg) = @_;
	my $publisher = $contest->{publisher};
	my ($ready, $end) = (next_marker(), next_marker());
	my %time;
	my $run = $contest->run_drain($c, $end, work => sub {
		$contest->commit_marker($ready);
		Bench::Contest::wait_for_marker($c, $ready, time);
		$time{begin} = time;
		$publisher->begin_work;
		long_do($publisher, $arg{sql});
		$publisher->commit;
		$time{commit} = time;
		$contest->commit_marker($end);
		return $time{ $arg{from} };
	});
	$run->{publisher_seconds} = $time{commit} - $time{begin};
	delete $run->{start_seconds};
	return $run;
}

# The end of one run: compare, drop the subscription, write the record.  WHERE: what
# of the publisher's tables the subscriber must have, if not all (Contest::contents).
sub finish_run
{
	my ($contest, $c, $run, $results, $where) = @_;
	$contest->check_equal($c, $contest->contents($contest->{publisher}, $where));
	$c->drop_subscription;
	$run->{data_compared} = 1;
	$run->{contender}     = $c->{name};
	$run->{engine}        = $c->engine;
	$results->{write}->($contest->about, %$run);
	return;
}

1;
