/*-------------------------------------------------------------------------
 *
 * apply_modify.h
 *	  UPDATE and DELETE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_MODIFY_H
#define PPA_APPLY_MODIFY_H

#include "postgres.h"

#include "nodes/nodes.h"

#include "apply/apply_state.h"

/* Apply the UPDATE or DELETE in w->change. */
extern void ppa_apply_update(PpaWorker *w, PpaTarget *target);
extern void ppa_apply_delete(PpaWorker *w, PpaTarget *target);

/*
 * For targets that are no partitioned tables.
 *
 * Find the row that equals the target's search slot, and lock it if a BEFORE
 * ROW trigger is going to look at it.  "again": somebody else has changed it
 * since the last look.  False: it is missing, which has been counted and
 * logged.
 */
extern bool ppa_find_for_change(PpaWorker *w, PpaTarget *target, CmdType cmd, bool again);

/*
 * Write target->found as lrel->new_slot, or delete it.  False: somebody else
 * has changed it meanwhile, so look it up again and begin anew.
 */
extern bool ppa_update_row(PpaWorker *w, PpaTarget *target);
extern bool ppa_delete_row(PpaWorker *w, PpaTarget *target);

/* The tuple of the message that identifies the row. */
static inline const PpaWireTuple *
ppa_identity_tuple(const PpaChange *change)
{
	return change->old_kind != PPA_OLD_NONE ? &change->old_tuple : &change->new_tuple;
}

#endif							/* PPA_APPLY_MODIFY_H */
