/*-------------------------------------------------------------------------
 *
 * apply_route.h
 *	  Changes of partitioned targets.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_ROUTE_H
#define PPA_APPLY_ROUTE_H

#include "postgres.h"

#include "apply/apply_state.h"

/* Insert a row, in the format of the root, into its leaf. */
extern void ppa_route_insert(PpaWorker *w, PpaTarget *root, TupleTableSlot *slot);

/* Apply the UPDATE or DELETE in w->change to the leaf that has the row. */
extern void ppa_route_update(PpaWorker *w, PpaTarget *root);
extern void ppa_route_delete(PpaWorker *w, PpaTarget *root);

#endif							/* PPA_APPLY_ROUTE_H */
