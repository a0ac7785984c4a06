# bench/plots/common.gp: what all pictures share.  Read after NAME.par, before one of
# bars.gp, stacked.gp, curves.gp; see lib/Bench/Plot.pm for how and with which names.
#
# The legend is text above the panels, each behind a square in the colour of the series:
# it can never lie over data.  It and the title are labels of the first panel, in screen coordinates.

set terminal svg size width, height dynamic font "DejaVu Sans,Arial,sans-serif,11" background "white"
set output output_file
set datafile missing "NaN"

set border 3 linecolor rgb "#444444"
set tics nomirror out scale 0.6 textcolor rgb "#222222"
set grid ytics linetype 1 linecolor rgb "#dddddd" linewidth 0.7
set style fill solid 1.0 noborder
set errorbars 1.5
set key off

# Pixels, from the top, into screen coordinates.
down(y) = 1.0 - y / (height * 1.0)

set label 1 picture_title at screen 0.5, down(20) center font ",15" noenhanced
set label 2 picture_note at screen 0.5, down(height - 12) center font ",9" \
	textcolor rgb "#666666" noenhanced
do for [i = 1:legend_count] {
	set label 2 * i + 1 legend_sign at screen legend_x[i], down(46) left font ",14" \
		textcolor rgb legend_colour[i] noenhanced
	set label 2 * i + 2 legend_text[i] at screen legend_x[i] + 15.0 / width, down(46) left \
		font ",11" textcolor rgb "#222222" noenhanced
}

# Sides of the field of panels, and what lies between them, in pixels.
LEFT = 75.0
RIGHT = 20.0
set multiplot layout rows, columns margins screen LEFT / width, 1.0 - RIGHT / width, \
	bottom / (height * 1.0), down(84) spacing screen gap_x / (width * 1.0), gap_y / (height * 1.0)
