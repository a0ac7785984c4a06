/*-------------------------------------------------------------------------
 *
 * apply_parallel.h
 *	  The main function of an apply worker of parallel apply.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_PARALLEL_H
#define PPA_APPLY_PARALLEL_H

#include "postgres.h"

/* For the server's background worker machinery, which finds it by name. */
extern PGDLLEXPORT void ppa_apply_worker_main(Datum main_arg);

#endif							/* PPA_APPLY_PARALLEL_H */
