# Bench::PictureParts: what the pictures of several benchmarks are made of.

package Bench::PictureParts;

use strict;
use warnings;

use Exporter qw(import);
use List::Util qw(max min);

use Bench::Plot qw(contender_colour contender_mark);
use Bench::Report qw(median);
use Bench::Results qw(values_of where);

our @EXPORT_OK = qw(labels spread3 values_for values_in_order legend grouped_bars line_at curves
  x_range);

# The order of contenders, where there are several; others follow by name.
my @ORDER = ('ceiling', 'builtin', 'builtin streaming', 'serial', 'ours', 'ours4', 'ours8');

# Labels of these records in the order in which they are shown.
sub labels
{
	my (@records) = @_;
	my $n = 0;
	my %place = map { ($_ => $n++) } @ORDER;
	my %key = map { ($_ => sprintf '%02d %03d %s', $place{$_} // 99, /(\d+)/ ? $1 : 0, $_) }
	  values_of('label', @records);
	return sort { $key{$a} cmp $key{$b} } keys %key;
}

# (median, least, greatest), or nothing.
sub spread3
{
	my (@values) = @_;
	return unless @values;
	return (median(@values), min(@values), max(@values));
}

sub values_for
{
	my ($label, $field, @records) = @_;
	return values_in_order($field, where({ label => $label }, @records));
}

sub values_in_order
{
	my ($field, @records) = @_;
	return grep { defined } map { ref $field ? $field->($_) : $_->{$field} } @records;
}

sub legend { my (@labels) = @_; return [ map { [ $_, contender_colour($_) ] } @labels ]; }

# A panel of groups of bars: one group per name in GROUPS, one bar per label;
# FIGURES->(group, label) are the values of one bar.  The axis ends at LEAST_TOP or
# above.
sub grouped_bars
{
	my ($groups, $labels, $figures, $least_top) = @_;
	my (@bars, @ticks);
	my $width = 0.8 / @$labels;
	for my $g (0 .. $#$groups)
	{
		push @ticks, [ $groups->[$g], $g + 1 ];
		for my $l (0 .. $#$labels)
		{
			my @three = spread3($figures->($groups->[$g], $labels->[$l])) or next;
			my $x = $g + 1 + ($l - (@$labels - 1) / 2) * $width;
			push @bars, [ $x, @three, 0.92 * $width, contender_colour($labels->[$l]) ];
		}
	}
	my $top = 1.05 * max($least_top // 0, map { $_->[3] } @bars);
	return (ticks => \@ticks, series => [ { bars => \@bars } ],
		setup => 'set xrange [0.5:' . (@$groups + 0.5) . "]; set yrange [0:$top]");
}

# A line across the panel at Y.
sub line_at
{
	my ($y) = @_;
	return "set arrow 1 from graph 0, first $y to graph 1, first $y nohead lc rgb '#000000'";
}

# A logarithmic axis with ticks at 1, 2 and 5 of each power, so that there are some
# however narrow it is.
sub log_y
{
	my ($panel) = @_;
	my @y = grep { $_ > 0 } map { @$_[ 2, 3 ] } map { @{ $_->{points} } } @{ $panel->{series} } or return;
	my ($low, $high) = (0.8 * min(@y), 1.25 * max(@y));
	my @ticks;
	for my $power (-4 .. 8)
	{
		push @ticks, grep { $_ >= $low && $_ <= $high } map { $_ * 10**$power } 1, 2, 5;
	}
	$panel->{setup} .= "; set logscale y; set yrange [$low:$high]; set ytics ("
	  . join(', ', map { "'$_' $_" } @ticks) . ')';
	return;
}

# Curves of figures over X.  PANELS are { title, records, figure, log_y (1: its axis is
# logarithmic), and what else a panel of Bench::Plot has }.
sub curves
{
	my ($name, $title, $labels, $x, @panels) = @_;
	for my $panel (@panels)
	{
		my ($records, $figure) = delete @$panel{qw(records figure)};
		my @series;
		for my $label (@$labels)
		{
			my @points;
			for my $at (sort { $a <=> $b } values_of($x, @$records))
			{
				my @three = spread3(values_for($label, $figure, where({ $x => $at }, @$records)));
				push @points, [ $at, @three ] if @three;
			}
			push @series, { colour => contender_colour($label), mark => contender_mark($label), points => \@points };
		}
		$panel->{series} = \@series;
		log_y($panel) if delete $panel->{log_y};
	}
	@panels = grep { my $panel = $_; grep { @{ $_->{points} } } @{ $panel->{series} } } @panels or return;
	return { name => $name, kind => 'curves', title => $title, legend => legend(@$labels),
		panels => \@panels };
}

# From the least to the greatest X and a little more.
sub x_range
{
	my ($log, @x) = @_;
	return 0.87 * min(@x) . ':' . 1.15 * max(@x) if $log;
	my $edge = 0.05 * (max(@x) - min(@x)) || 1;
	return (min(@x) - $edge) . ':' . (max(@x) + $edge);
}

1;
