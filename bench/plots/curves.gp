# bench/plots/curves.gp: lines with the spread at each point.
#
# series_count blocks of the data file per panel: x, median, least, greatest.  Colours
# and marks by series: a mark of -1 makes a dashed line.

do for [p = 1:panel_count] {
	eval panel_setup[p]
	plot for [s = 1:series_count] data_file index (p - 1) * series_count + s - 1 using 1:2 \
			with lines linewidth 2 dashtype series_dash[s] linecolor rgb series_colour[s], \
		for [s = 1:series_count] data_file index (p - 1) * series_count + s - 1 using 1:2:3:4 \
			with yerrorbars linewidth 1.2 pointtype series_mark[s] < 0 ? 0 : series_mark[s] \
			pointsize 0.8 linecolor rgb series_colour[s]
	eval panel_end
}
unset multiplot
