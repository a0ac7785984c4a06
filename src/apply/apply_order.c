/*-------------------------------------------------------------------------
 *
 * apply_order.c
 *	  Waiting for earlier groups in the middle of a change.
 *
 * Runs in:	the process that applies changes.
 * Locks:	none taken; those of the local transaction are held.  If an earlier
 *			group needs one of them, the leader lets this group give way.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/snapmgr.h"

#include "apply/apply_lookup.h"
#include "apply/apply_order.h"

void
ppa_order_relax(PpaWorker *w)
{
	if (!w->in_txn)
		return;
	ppa_lookup_release(w);
	PopActiveSnapshot();
	InvalidateCatalogSnapshotConditionally();
}

void
ppa_order_resume(PpaWorker *w)
{
	if (w->in_txn)
		PushActiveSnapshot(GetLatestSnapshot());
}

bool
ppa_await_earlier(PpaWorker *w, uint32 relation, bool missing)
{
	if (w->order == NULL || w->order->is_first(w->order->arg))
		return false;
	ppa_order_relax(w);
	w->order->await_first(w->order->arg, relation, missing);
	ppa_order_resume(w);
	return true;
}
