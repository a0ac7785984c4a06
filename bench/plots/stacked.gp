# bench/plots/stacked.gp: bars of parts that add up, with the spread of the sum.
#
# Two blocks of the data file per panel.  Parts: x, lower end, upper end, half the
# width, colour.  Sums: x, median, least, greatest.

do for [p = 1:panel_count] {
	eval panel_setup[p]
	plot data_file index 2 * p - 2 using 1:(($2 + $3) / 2.0):($1 - $4):($1 + $4):2:3:5 \
			with boxxyerror linecolor rgb variable, \
		data_file index 2 * p - 1 using 1:3:(0):($4 - $3) \
			with vectors heads size screen 4.0 / width, 90 fixed linewidth 1.2 linecolor rgb "#000000"
	eval panel_end
}
unset multiplot
