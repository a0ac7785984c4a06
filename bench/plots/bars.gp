# bench/plots/bars.gp: bars with their spread.
#
# One block of the data file per panel: x, median, least, greatest, width, colour.
# Bars begin at "base".

low(y) = y < base ? y : base
high(y) = y < base ? base : y

do for [p = 1:panel_count] {
	eval panel_setup[p]
	plot data_file index p - 1 using 1:2:($1 - $5 / 2):($1 + $5 / 2):(low($2)):(high($2)):6 \
			with boxxyerror linecolor rgb variable, \
		data_file index p - 1 using 1:3:(0):($4 - $3) \
			with vectors heads size screen 4.0 / width, 90 fixed linewidth 1.2 linecolor rgb "#000000"
	eval panel_end
}
unset multiplot
