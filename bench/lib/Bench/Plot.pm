# Bench::Plot: one picture, drawn by gnuplot with one of the scripts in bench/plots/.
#
# A picture is a hash:
#	name		of its file
#	kind		bars, stacked or curves
#	title, note	above and below
#	legend		[ [ text, colour ], ... ]
#	base		where bars begin (0)
#	columns		of the grid of panels; {wide}, {high}: pixels of one panel
#	panels		[ { title, xlabel, ylabel, setup (gnuplot commands), ticks => [ [ text, x ] ] (none: no text),
#			turned (1: the ticks' text is turned), series => [ ... ] } ]
# Series of a panel, by kind:
#	bars		{ bars => [ [ x, median, least, greatest, width, colour ], ... ] }
#	stacked		{ parts => [ [ x, lower, upper, half the width, colour ], ... ] } and
#			{ points => [ [ x, median, least, greatest ], ... ] }, of the sums
#	curves		{ name, colour, mark, points => [ [ x, median, least, greatest ], ... ] };
#			the same series, in the same order, in all panels
#
# It becomes NAME.dat (figures), NAME.par (the rest) and NAME.svg; the first two stay,
# so that a picture can be drawn again, differently, by hand:
#	gnuplot NAME.par bench/plots/common.gp bench/plots/KIND.gp

package Bench::Plot;

use strict;
use warnings;

use Cwd qw(abs_path);
use Exporter qw(import);
use File::Basename qw(dirname);
use List::Util qw(max);

our @EXPORT_OK = qw(draw have_gnuplot contender_colour role_colour contender_mark);

my $SCRIPTS = abs_path(dirname(__FILE__) . '/../../plots');

# The colours of Okabe and Ito, which colour-blind readers can tell apart; a contender
# has the same one in all pictures.
my %COLOUR = (
	ceiling    => '#999999',
	builtin    => '#444444',
	serial     => '#56B4E9',
	ours       => '#E69F00',
	ours4      => '#D55E00',
	ours8      => '#009E73',
	pglogical  => '#CC79A7',
	leader     => '#0072B2',
	workers    => '#E69F00',
	walwriter  => '#009E73',
	others     => '#CC79A7',
	walsender  => '#BBBBBB',
	publisher  => '#999999',
	'builtin streaming' => '#0072B2',
);
my @OTHER_COLOURS = ('#0072B2', '#B8A800', '#000000', '#7F3C8D', '#8C510A');

# Marks of points by contender: colours alone may not do.
my %MARK = (builtin => 7, serial => 5, ours => 9, ours4 => 9, ours8 => 13, pglogical => 11,
	'builtin streaming' => 6, publisher => -1);

sub have_gnuplot
{
	return qx{gnuplot --version 2>/dev/null} =~ /^gnuplot/;
}

my %given;

sub contender_colour
{
	my ($name) = @_;
	return $COLOUR{$name} // ($given{$name} //= $OTHER_COLOURS[ keys(%given) % @OTHER_COLOURS ]);
}

sub role_colour    { my ($role) = @_; return $COLOUR{$role}; }
sub contender_mark { my ($name) = @_; return $MARK{$name} // 4; }

sub quoted
{
	my ($text) = @_;
	$text =~ s/(["\\`])/\\$1/g;
	$text =~ s/\n/\\n/g;
	return qq{"$text"};
}

# gnuplot's array of these values.
sub array
{
	my ($name, @values) = @_;
	return "array $name\[" . (@values || 1) . ']' . (@values ? ' = [' . join(', ', @values) . ']' : '')
	  . "\n";
}

# Texts of the legend side by side in the middle: [ x in screen coordinates ].
sub legend_places
{
	my ($width, @texts) = @_;
	my ($letter, $gap) = (6.6 / $width, 38 / $width);
	my $sum = 0;
	my @at;
	for my $text (@texts)
	{
		push @at, $sum;
		$sum += length($text) * $letter + $gap;
	}
	my $first = max(0.01, 0.5 - ($sum - $gap / 2) / 2);
	return map { sprintf '%.4f', $first + $_ } @at;
}

# The commands that set up one panel.
sub panel_setup
{
	my ($panel) = @_;
	my @do = ('unset logscale', 'unset arrow', 'set autoscale',
		'set xtics autofreq norotate', 'set ytics autofreq',
		'set title ' . quoted($panel->{title} // '') . ' font ",12" offset 0,-0.6 noenhanced',
		'set xlabel ' . quoted($panel->{xlabel} // '') . ' offset 0,0.3 noenhanced',
		'set ylabel ' . quoted($panel->{ylabel} // '') . ' offset 1.2,0 noenhanced');
	push @do, $panel->{ticks} && !@{ $panel->{ticks} }
	  ? 'set format x ""; set xtics scale 0' : 'set format x; set xtics scale 0.6';
	if ($panel->{ticks} && @{ $panel->{ticks} })
	{
		my $ticks = join ', ', map { quoted($_->[0] =~ s{%}{%%}gr) . " $_->[1]" } @{ $panel->{ticks} };
		my $turn = $panel->{turned} ? 'rotate by -35 left ' : '';
		push @do, "set xtics $turn($ticks) noenhanced";
	}
	push @do, $panel->{setup} if $panel->{setup};
	return join '; ', @do;
}

# The numbers of one block; one without any still counts as a block.
sub block
{
	my (@lines) = @_;
	my @text = map { join "\t", map { defined ? $_ : 'NaN' } @$_ } @lines;
	return join("\n", @text ? @text : join("\t", ('NaN') x 7)) . "\n\n\n";
}

# Colours in the data are numbers.
sub number_of { my ($colour) = @_; return hex $colour =~ s/^#//r; }

sub data_of
{
	my ($picture) = @_;
	my $text = '';
	for my $panel (@{ $picture->{panels} })
	{
		for my $series (@{ $panel->{series} })
		{
			my @lines = @{ $series->{points} // $series->{bars} // $series->{parts} };
			@lines = map { [ @$_[ 0 .. $#$_ - 1 ], number_of($_->[-1]) ] } @lines unless $series->{points};
			$text .= block(@lines);
		}
	}
	return $text;
}

sub parameters_of
{
	my ($picture, $data, $svg) = @_;
	my @panels  = @{ $picture->{panels} };
	my @legend  = @{ $picture->{legend} };
	my @series  = $picture->{kind} eq 'curves' ? @{ $panels[0]{series} } : ();
	my $columns = $picture->{columns} // @panels;
	my $rows    = int((@panels + $columns - 1) / $columns);
	my ($gap_x, $gap_y) = ($picture->{gap_x} // 70, $picture->{gap_y} // 80);
	my $bottom = $picture->{bottom} // 80;
	my $width  = 95 + $columns * ($picture->{wide} // 400) + ($columns - 1) * $gap_x;
	my $height = 84 + $rows * ($picture->{high} // 280) + ($rows - 1) * $gap_y + $bottom;
	my @texts  = map { $_->[0] } @legend;
	return join '',
	  (map { my ($name, $value) = @$_; "$name = $value\n" }
		  [ data_file => quoted($data) ], [ output_file => quoted($svg) ],
		  [ width => $width ],  [ height => $height ], [ rows => $rows ], [ columns => $columns ],
		  [ gap_x => $gap_x ],  [ gap_y => $gap_y ], [ bottom => $bottom ],
		  [ picture_title => quoted($picture->{title}) ],
		  [ picture_note  => quoted($picture->{note} // '') ],
		  [ legend_count => scalar @legend ], [ panel_count => scalar @panels ],
		  [ series_count => scalar @series ],
		  [ legend_sign => qq{"\x{25A0}"} ], [ base => $picture->{base} // 0 ],
		  [ panel_end => quoted(join '; ', map { "unset label $_" } 1, 2, 3 .. 2 + 2 * @legend) ]),
	  array('legend_text',   map { quoted($_) } @texts),
	  array('legend_colour', map { quoted($_->[1]) } @legend),
	  array('legend_x',      legend_places($width, @texts)),
	  array('panel_setup',   map { quoted(panel_setup($_)) } @panels),
	  array('series_colour', map { quoted($_->{colour}) } @series),
	  array('series_mark',   map { $_->{mark} } @series),
	  array('series_dash',   map { $_->{mark} < 0 ? 2 : 1 } @series);
}

sub write_file
{
	my ($file, $text) = @_;
	open my $out, '>:encoding(UTF-8)', $file or die "$file: $!\n";
	print $out $text;
	close $out or die "$file: $!\n";
	return;
}

# Draw PICTURE into the folder DIR; returns the name of the SVG file.
sub draw
{
	my ($dir, $picture) = @_;
	my $name = $picture->{name};
	write_file("$dir/$name.dat", data_of($picture));
	write_file("$dir/$name.par", parameters_of($picture, "$name.dat", "$name.svg"));
	my $scripts = "'$SCRIPTS/common.gp' '$SCRIPTS/$picture->{kind}.gp'";
	my $output = qx{cd '$dir' && gnuplot '$name.par' $scripts 2>&1};
	die "gnuplot cannot draw $name.svg:\n$output" if $? != 0;

	# A contender without points in one of several panels is no mistake.
	my @warnings = grep { /\S/ && !/no valid points/ } split /\n/, $output;
	print STDERR "$name.svg: $_\n" for @warnings;
	return "$name.svg";
}

1;
