/*-------------------------------------------------------------------------
 *
 * apply_worker.c
 *	  The process that applies changes: groups, local transactions, errors.
 *
 * Owns:	the local transaction.  This is the only place where it commits, and
 *			where an error in it is caught.
 * Runs in:	the leader (serial mode).
 * Memory:	cxt (process) > txn_cxt (local transaction) > change_cxt (change).
 *
 * Error isolation: an error in a local transaction that holds one remote
 * transaction, applied row by row, is thrown as it is; the subscription stops
 * there.  Any other error may be due to the company or to the run: the local
 * transaction is rolled back and its members are applied again one by one,
 * row by row, without a net.  So the good ones before the bad one are
 * committed, and the bad one stops the subscription where, and with what, the
 * built-in worker would have stopped.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/commit_ts.h"
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
#include "core/core_group.h"
#include "server/server_compat.h"
#include "server/server_errctx.h"
#include "server/server_guc.h"
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

/* The rules for groups now: settings and subscription may have changed. */
static PpaGroupRules
current_rules(void)
{
	PpaGroupRules rules = {
		.max_transactions = ppa_guc_group_transactions,
		.max_bytes = (size_t) ppa_guc_group_bytes * 1024
	};

	/*
	 * While a transaction is to be skipped, each commit may be the one that
	 * clears the LSN.  Above READ COMMITTED, what runs in a local transaction
	 * would see all members with the snapshot of the first.
	 */
	rules.grouping = XLogRecPtrIsInvalid(MySubscription->skiplsn) &&
		DefaultXactIsoLevel <= XACT_READ_COMMITTED &&
		(ppa_guc_group_commit == PPA_GROUP_COMMIT_ON ||
		 (ppa_guc_group_commit == PPA_GROUP_COMMIT_AUTO && !track_commit_timestamp));
	return rules;
}

/* A remote transaction begins: is it the one to skip? */
static void
begin_member(PpaWorker *w, const PpaMember *member)
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

/*
 * Commit the local transaction, if there is one, with "last" as the last
 * remote transaction in it.
 */
static void
commit_local(PpaWorker *w, const PpaMember *last, int transactions)
{
	XLogRecPtr	local_lsn = InvalidXLogRecPtr;

	ppa_errctx.message_type = PPA_MSG_COMMIT;
	if (w->skipping)
	{
		ereport(LOG,
				(errmsg("logical replication completed skipping transaction at LSN " PPA_LSN_FMT,
						LSN_FORMAT_ARGS(last->final_lsn))));
		w->skipping = false;
		ppa_local_begin(w);
	}
	if (w->in_txn)
	{
		ppa_batches_flush(w);
		ppa_targets_close(w);
		PopActiveSnapshot();
		ppa_subscription_clear_skip(last->final_lsn);
		ppa_origin_arm(last->end_lsn, last->commit_time);
		CommitTransactionCommand();
		local_lsn = XactLastCommitEnd;
		ppa_report_group(w->slot, transactions, &w->counts);
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
	w->hooks->applied(w->hooks->arg, last->end_lsn, local_lsn);
}

static PpaTxnFacts
learn_member(PpaWorker *w, const PpaBatch *batch, const PpaMember *member)
{
	PpaTxnFacts facts = {.bytes = member->end - member->start};
	const char *message;
	int			len;

	for (int pos = member->start; ppa_batch_next(batch, &pos, member->end, &message, &len);)
		ppa_learn_facts(w, message, len, &facts);
	return facts;
}

static void
run_member(PpaWorker *w, const PpaBatch *batch, const PpaMember *member)
{
	const char *message;
	int			len;

	begin_member(w, member);
	for (int pos = member->start; ppa_batch_next(batch, &pos, member->end, &message, &len);)
	{
		CHECK_FOR_INTERRUPTS();
		ppa_worker_tick(w);
		ppa_apply_message(w, message, len);
	}
}

/*
 * Apply members [*done, end) without catching errors.  *done moves on with
 * every commit.
 */
static void
run_members(PpaWorker *w, const PpaBatch *batch, volatile int *done, int end)
{
	PpaGroup	group = {0};

	for (int i = *done; i < end; i++)
	{
		const PpaMember *member = &batch->members[i];
		PpaGroupRules rules = current_rules();
		PpaTxnFacts facts = learn_member(w, batch, member);

		if (!ppa_group_admits(&rules, &group, &facts))
		{
			commit_local(w, member - 1, group.transactions);
			*done = i;
			group = (PpaGroup) {0};
		}
		w->members = group.transactions + 1;
		run_member(w, batch, member);
		facts.solo |= w->solo;
		ppa_group_add(&rules, &group, &facts);
		if (ppa_group_is_full(&rules, &group) || i == end - 1)
		{
			commit_local(w, member, group.transactions);
			*done = i + 1;
			group = (PpaGroup) {0};
		}
	}
}

/*
 * In PG_CATCH: is the error that of one remote transaction, as the built-in
 * worker would have it?
 */
static bool
is_verdict(PpaWorker *w)
{
	if (w->row_by_row || geterrcode() == ERRCODE_QUERY_CANCELED)
		return true;
	return w->members == 1 && !w->batched && geterrcode() != PPA_ERRCODE_REGROUP;
}

/* In PG_CATCH: undo the local transaction and go on. */
static void
rollback_local(PpaWorker *w)
{
	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(w->cxt);
	FlushErrorState();
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
	if (w->slot != NULL)
		ppa_report_add(&w->slot->group_replays, 1);
	RESUME_INTERRUPTS();
}

void
ppa_worker_apply_batch(PpaWorker *w, const PpaBatch *batch)
{
	volatile int done = 0;
	volatile bool failed = false;

	PG_TRY();
	{
		run_members(w, batch, &done, batch->nmembers);
	}
	PG_CATCH();
	{
		if (is_verdict(w))
			PG_RE_THROW();
		rollback_local(w);
		failed = true;
	}
	PG_END_TRY();

	if (!failed)
		return;
	w->row_by_row = true;
	while (done < batch->nmembers)
		run_members(w, batch, &done, done + 1);
	w->row_by_row = false;
}

void
ppa_worker_begin(PpaWorker *w, const PpaMember *txn)
{
	Assert(!w->in_txn);
	w->members = 1;
	begin_member(w, txn);
}

void
ppa_worker_message(PpaWorker *w, const char *message, int len)
{
	ppa_worker_tick(w);
	ppa_apply_message(w, message, len);
}

void
ppa_worker_commit(PpaWorker *w, const PpaMember *txn)
{
	commit_local(w, txn, 1);
}
