/*-------------------------------------------------------------------------
 *
 * apply_own_rows.h
 *	  Where the rows are that this local transaction has written.
 *
 * A row that is updated again and again in one group has as many versions
 * that nobody may prune yet, and a lookup by index walks over all of them.
 * So the place of the newest one is kept, in a small direct-mapped table: the
 * next lookup goes there first.  It is only a hint, checked by snapshot and
 * key; and it holds only for the local transaction, whose lock keeps the place
 * from being taken away.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_OWN_ROWS_H
#define PPA_APPLY_OWN_ROWS_H

#include "postgres.h"

#include "apply/apply_state.h"

/*
 * Look for the row of the search slot at the place that is known for its key,
 * and leave it in target->found.  For lookups by an identifying key only.
 */
extern bool ppa_own_row_find(PpaWorker *w, PpaTarget *target);

/* The row of the change being applied is now where lrel->new_slot says. */
extern void ppa_own_row_remember(PpaWorker *w, PpaTarget *target);

#endif							/* PPA_APPLY_OWN_ROWS_H */
