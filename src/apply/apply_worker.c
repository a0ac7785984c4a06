/*-------------------------------------------------------------------------
 *
 * apply_worker.c
 *	  The process that applies changes: remote and local transactions.
 *
 * Owns:	the local transaction.  This is the only place where it commits, and
 *			where it is rolled back.
 * Runs in:	the leader (serial mode), the apply workers.
 * Memory:	cxt (process) > txn_cxt (local transaction) > change_cxt (change).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "apply/apply_insert.h"
#include "apply/apply_message.h"
#include "apply/apply_target.h"
#include "apply/apply_worker.h"
#include "commit/commit_origin.h"
#include "server/server_compat.h"
#include "server/server_errctx.h"
#include "server/server_protocol.h"
#include "server/server_subscription.h"

volatile sig_atomic_t ppa_tick_due = false;

/* The copy of a message: as large as it must be, but kept only to this. */
#define SCRATCH_BYTES 65536

PpaWorker *
ppa_worker_create(MemoryContext parent, PpaSubSlot *slot, const PpaWorkerHooks *hooks)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "pg_parallel_apply worker",
											  ALLOCSET_DEFAULT_SIZES);
	PpaWorker  *w = MemoryContextAllocZero(cxt, sizeof(PpaWorker));

	w->cxt = cxt;
	w->txn_cxt = AllocSetContextCreate(cxt, "pg_parallel_apply local transaction",
									   ALLOCSET_DEFAULT_SIZES);
	w->change_cxt = AllocSetContextCreate(cxt, "pg_parallel_apply change",
										  ALLOCSET_DEFAULT_SIZES);
	w->relmap = ppa_relmap_create(cxt);
	w->lrels = ppa_localrels_create(cxt);
	w->change = MemoryContextAlloc(cxt, sizeof(PpaChange));
	ppa_worker_resize_scratch(w, SCRATCH_BYTES);
	dlist_init(&w->targets);
	dlist_init(&w->batches);
	w->slot = slot;
	w->hooks = hooks;
	w->alone = w->may_fire = true;
	return w;
}

void
ppa_worker_resize_scratch(PpaWorker *w, int size)
{
	if (w->scratch != NULL)
		pfree(w->scratch);
	w->scratch = MemoryContextAllocHuge(w->cxt, size);
	w->scratch_size = size;
}

void
ppa_worker_call_tick(PpaWorker *w)
{
	ppa_tick_due = false;
	w->hooks->tick(w->hooks->arg);
}

void
ppa_worker_learn_relation(PpaWorker *w, const char *message, int len)
{
	PpaRelationMessage relation;
	PpaWireError err;

	if (!ppa_wire_relation(message, len, &relation, &err))
		ppa_protocol_error(&err);
	if (ppa_relmap_learn(w->relmap, &relation))
		ppa_localrels_forget(w->lrels, relation.relid);
}

void
ppa_worker_begin_member(PpaWorker *w, const PpaMember *member)
{
	ppa_errctx_set_transaction(member->xid, member->final_lsn);
	ppa_errctx.message_type = PPA_MSG_BEGIN;
	w->final_lsn = member->final_lsn;
	w->solo = false;
	w->skipping = !XLogRecPtrIsInvalid(MySubscription->skiplsn) &&
		MySubscription->skiplsn == member->final_lsn;
	if (w->skipping)
		ereport(LOG,
				errmsg("logical replication starts skipping transaction at LSN " PPA_LSN_FMT,
					   LSN_FORMAT_ARGS(member->final_lsn)));
	ppa_errctx.message_type = 0;
}

/* The local transaction is over, one way or the other. */
static void
forget_local(PpaWorker *w)
{
	ppa_targets_forget(w);
	MemoryContextReset(w->txn_cxt);
	MemoryContextReset(w->change_cxt);
	memset(&w->counts, 0, sizeof(w->counts));
	w->in_txn = false;
	w->batched = false;
	if (w->scratch_size > SCRATCH_BYTES)
		ppa_worker_resize_scratch(w, SCRATCH_BYTES);
}

void
ppa_local_complete(PpaWorker *w, const PpaMember *last)
{
	ppa_errctx.message_type = PPA_MSG_COMMIT;
	if (w->skipping)
	{
		ereport(LOG,
				(errmsg("logical replication completed skipping transaction at LSN " PPA_LSN_FMT,
						LSN_FORMAT_ARGS(last->final_lsn))));
		w->skipping = false;
		ppa_local_begin(w);
	}
	if (!w->in_txn)
		return;
	ppa_batches_flush(w);
	ppa_targets_close(w);
	PopActiveSnapshot();
}

XLogRecPtr
ppa_local_commit(PpaWorker *w, const PpaMember *last, XLogRecPtr expected)
{
	Assert(w->in_txn);
	ppa_subscription_clear_skip(last->final_lsn);
	ppa_origin_arm(last->end_lsn, last->commit_time, expected);
	/* who writes nothing leaves it as it is: it would be that of an earlier commit of ours */
	XactLastCommitEnd = InvalidXLogRecPtr;
	CommitTransactionCommand();
	return XactLastCommitEnd;
}

void
ppa_local_committed(PpaWorker *w)
{
	if (w->in_txn)
	{
		forget_local(w);
		pgstat_report_stat(false);
	}
	ppa_relmap_settle(w->relmap);
	ppa_errctx_reset();
	if (!XLogRecPtrIsInvalid(MySubscription->skiplsn))
	{
		/* cleared by this commit: it must not be taken for set any more */
		AcceptInvalidationMessages();
		ppa_subscription_reread();
	}
	MemoryContextSwitchTo(w->cxt);
}

void
ppa_local_rollback(PpaWorker *w)
{
	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(w->cxt);
	ppa_origin_drop();
	AbortOutOfAnyTransaction();
	ppa_origin_resume();
	forget_local(w);
	if (ppa_relmap_changed(w->relmap))
	{
		ppa_localrels_forget_all(w->lrels);
		ppa_relmap_rewind(w->relmap);
	}
	ppa_errctx_reset();
	w->skipping = false;
	RESUME_INTERRUPTS();
}
