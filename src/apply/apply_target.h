/*-------------------------------------------------------------------------
 *
 * apply_target.h
 *	  The tables that the running local transaction writes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_TARGET_H
#define PPA_APPLY_TARGET_H

#include "postgres.h"

#include "nodes/nodes.h"

#include "apply/apply_state.h"

/*
 * The target of a change of "relid", opened and locked on first use in the
 * local transaction.  NULL: its table is not synchronised yet, so that the
 * change is none of ours.
 */
extern PpaTarget *ppa_target_open(PpaWorker *w, uint32 relid);

/* A leaf partition of a target that a row was routed to. */
extern PpaTarget *ppa_target_leaf(PpaWorker *w, PpaTarget *root, ResultRelInfo *rri);

/* Does the subscription apply changes of this table at this point of the stream? */
extern bool ppa_target_is_synced(PpaWorker *w, PpaLocalRel *lrel);

/*
 * The remote transaction needs a local transaction of its own, and nobody
 * beside it: ERROR with PPA_ERRCODE_REGROUP unless it has them.  "solo" is for
 * what fires triggers: in the one process that does so.
 */
extern void ppa_require_alone(PpaWorker *w);
extern void ppa_require_solo(PpaWorker *w);

/*
 * Check privileges of the subscription's owner, RLS and the publication of
 * the table by ourselves, as the built-in worker does for each row; once per
 * target.  "cmd" CMD_SELECT is for looking up rows.
 */
extern void ppa_target_check(PpaTarget *target, CmdType cmd);

/* The same for one privilege of any relation (TRUNCATE). */
extern void ppa_check_privileges(Relation rel, AclMode mode);

/* ERROR unless rows of the target can be identified. */
extern void ppa_target_check_updatable(const PpaTarget *target);

/* Evaluate the defaults of columns that the publisher does not send. */
extern void ppa_target_fill_defaults(PpaTarget *target, TupleTableSlot *slot);

/*
 * Close all targets, or all but one; rows kept back must have been written.
 * A trigger may do to a table what cannot be done while it is open.
 */
extern void ppa_targets_close(PpaWorker *w);
extern void ppa_targets_close_others(PpaWorker *w, PpaTarget *keep);

/* After an abort: the server has released what they held. */
extern void ppa_targets_forget(PpaWorker *w);

/*
 * Let a new snapshot be the active one.  Returns how many writing transactions
 * had been completed when it was taken.
 */
extern uint64 ppa_refresh_snapshot(void);

#endif							/* PPA_APPLY_TARGET_H */
