/*-------------------------------------------------------------------------
 *
 * sim_whatif.h
 *	  Speed-up from measured costs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_WHATIF_H
#define SIM_WHATIF_H

/* The arguments after "whatif"; the exit status. */
extern int	whatif_main(int argc, char **argv);

#endif							/* SIM_WHATIF_H */
