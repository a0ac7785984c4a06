/*-------------------------------------------------------------------------
 *
 * apply_order.h
 *	  Waiting for earlier groups in the middle of a change.
 *
 * Parallel apply runs ahead of the commit order.  Two things must not happen
 * ahead of it: the verdict that a row is missing, and the evaluation of what
 * may look at rows of others (see PpaTraits.ordered).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_ORDER_H
#define PPA_APPLY_ORDER_H

#include "postgres.h"

#include "apply/apply_state.h"

/*
 * How a group is told of its place among the others; NULL in PpaWorker where
 * there are none (serial mode).
 */
typedef struct PpaOrder
{
	void	   *arg;

	/* Have all earlier groups committed? */
	bool		(*is_first) (void *arg);

	/*
	 * Wait until they have.  "relation": the publisher's OID, "missing": for a
	 * row that was not found.  Throws if the group has to give way.
	 */
	void		(*await_first) (void *arg, uint32 relation, bool missing);

	/* Does a later group write under this transaction id?  Asked by the first one. */
	bool		(*is_later) (void *arg, TransactionId xid);
} PpaOrder;

/*
 * Wait until all earlier groups have committed; with a new active snapshot
 * then.  Returns whether there was something to wait for.
 */
extern bool ppa_await_earlier(PpaWorker *w, uint32 relation, bool missing);

/*
 * Around any wait for other groups or for input in a local transaction: hold
 * no buffer pin and no snapshot, so that nobody who waits for these waits for
 * us; and go on with a new snapshot.
 */
extern void ppa_order_relax(PpaWorker *w);
extern void ppa_order_resume(PpaWorker *w);

#endif							/* PPA_APPLY_ORDER_H */
