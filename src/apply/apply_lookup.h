/*-------------------------------------------------------------------------
 *
 * apply_lookup.h
 *	  Find the local row that an UPDATE or DELETE means.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_LOOKUP_H
#define PPA_APPLY_LOOKUP_H

#include "postgres.h"

#include "apply/apply_state.h"

/*
 * Prepare lookups in a target that is no partitioned table.  Afterwards
 * target->lookup says which columns the search slot must have: those of
 * lookup->attno if it is exact, else all.
 */
extern void ppa_lookup_prepare(PpaWorker *w, PpaTarget *target);

/*
 * Find the row that equals the target's search slot and leave it in
 * target->found.  False is a verdict: there is no such row, neither committed
 * nor by a session that was still inserting it.  May wait for that session.
 */
extern bool ppa_lookup_find(PpaWorker *w, PpaTarget *target);

/* The same once more, after somebody else has changed the row found. */
extern bool ppa_lookup_find_again(PpaWorker *w, PpaTarget *target);

/*
 * Lock the row found, looking it up again as long as others change it.
 * False: it is gone.
 */
extern bool ppa_lookup_lock(PpaWorker *w, PpaTarget *target);

/* Let go of the buffers that the last lookup has left pinned; the next one takes its own. */
extern void ppa_lookup_release(PpaWorker *w);

#endif							/* PPA_APPLY_LOOKUP_H */
