/*-------------------------------------------------------------------------
 *
 * apply_parallel_run.c
 *	  One group: its attempts, its commit.
 *
 * The first attempt applies all of it in one local transaction, ahead of the
 * commit order.  Later ones, which the leader allows when all earlier groups
 * have committed, apply its remote transactions one by one, row by row.
 *
 * Runs in:	the apply workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/snapmgr.h"

#include "apply/apply_message.h"
#include "apply/apply_parallel_state.h"
#include "apply/apply_target.h"
#include "commit/commit_durable.h"
#include "commit/commit_origin.h"
#include "commit/commit_turn.h"
#include "server/server_compat.h"
#include "server/server_guc.h"
#include "server/server_subscription.h"

/* Between two looks for a standby's confirmation, after one that was interrupted. */
#define RETRY_DURABLE_MS 10

/* So many groups of a worker are committed before it flushes the WAL, if it has more to do. */
#define MOST_OWED_GROUPS 8

/* ---------- commit ---------- */

/* For tests: see pg_parallel_apply.debug_stop. */
static void
maybe_die(PpaProcess *p, PpaDebugStop where)
{
	if (likely(ppa_guc_debug_stop != where) || !ppa_report_first_stop(p->w->slot))
		return;
	ereport(FATAL,
			(errcode(ERRCODE_ADMIN_SHUTDOWN),
			 errmsg("apply worker stops where pg_parallel_apply.debug_stop says")));
}

/*
 * Commit what is open, with "last" as the last remote transaction in it; it is
 * our turn.  Interrupts are held afterwards.
 */
static XLogRecPtr
commit_in_turn(PpaProcess *p, const PpaMember *last, int transactions)
{
	PpaWorker  *w = p->w;
	XLogRecPtr	local_lsn;

	if (!w->in_txn)
	{
		HOLD_INTERRUPTS();
		return InvalidXLogRecPtr;
	}
	maybe_die(p, PPA_DEBUG_STOP_BEFORE_COMMIT);
	ppa_report_worker_state(p->report, PPA_WORKER_COMMITTING);
	local_lsn = ppa_local_commit(w, last, p->shared->progress);
	maybe_die(p, PPA_DEBUG_STOP_AFTER_COMMIT);
	p->shared->progress = ppa_origin_committed();
	ppa_report_group(w->slot, transactions, &w->counts);
	return local_lsn;
}

/*
 * Make a commit durable now.  Whoever cancels the wait for a standby does not
 * end it: the leader waits for the answer, and no group is left to fail.
 */
static void
make_durable(PpaProcess *p, uint64 number, XLogRecPtr local_lsn)
{
	ppa_report_worker_state(p->report, PPA_WORKER_FLUSHING);
	while (!ppa_make_durable(local_lsn))
	{
		if (ppa_place_is_stopping(p))
			return;
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
		/* there may be no standbys to wait for any more, and the server does not wait then */
		(void) ppa_turn_sleep(p->shared, &p->mine->waits_for, 0, RETRY_DURABLE_MS);
		ppa_process_reload(p);
	}
	pg_atomic_write_u64(&p->mine->durable, number);
	SetLatch(&p->shared->leader->procLatch);
}

void
ppa_run_flush_owed(PpaProcess *p)
{
	if (p->owed_groups == 0)
		return;
	ppa_report_worker_state(p->report, PPA_WORKER_FLUSHING);
	p->owed_groups = 0;
	XLogFlush(p->owed_lsn);
}

/*
 * Is it worth telling the leader of a commit before it is durable?  Somebody
 * on the publisher may wait only for it to be applied.
 */
static bool
is_slow_to_flush(void)
{
	return enableFsync && !ppa_subscription_wants_standbys();
}

/*
 * The last commit of the group has returned: let the next one go, and see to
 * its durability.  Where nobody waits for just this commit, it may wait until
 * the worker has nothing else to do: positions are reported by what is flushed.
 */
static void
publish(PpaProcess *p, PpaHeldGroup *g, const PpaMember *last, XLogRecPtr local_lsn)
{
	uint64		number = g->number;
	bool		at_once = ppa_subscription_flushes_at_once(p->shared);

	ppa_report_worker_committed(p->report);
	if (p->turn_waited && p->w->slot != NULL)
		ppa_report_add(&p->w->slot->turn_waits, 1);
	ppa_report_applied(p->w->slot, last->end_lsn);
	pg_atomic_write_u64(&p->mine->running, 0);
	ppa_turn_publish(p->shared, number, local_lsn);
	RESUME_INTERRUPTS();
	/* who asked for it has come too late */
	QueryCancelPending = false;
	if (!at_once)
		pg_atomic_write_u64(&p->mine->durable, number);
	if (!at_once || is_slow_to_flush())
		ppa_turn_tell_leader(p->shared, number);
	ppa_held_drop(p, g);
	p->current = NULL;
	ppa_local_committed(p->w);
	ppa_report_worker_group(p->report, 0);

	if (at_once)
		make_durable(p, number, local_lsn);
	else if (ppa_subscription_wants_flush() && !XLogRecPtrIsInvalid(local_lsn))
	{
		p->owed_lsn = local_lsn;
		if (++p->owed_groups >= MOST_OWED_GROUPS)
			ppa_run_flush_owed(p);
	}
}

/* ---------- one group ---------- */

static void
run_entry(PpaProcess *p, const PpaBatchEntry *entry, const char *message)
{
	PpaWorker  *w = p->w;

	CHECK_FOR_INTERRUPTS();
	ppa_place_obey_inside(p);
	if (entry->wait_for > ppa_shared_committed(p->shared))
		ppa_place_wait_dependency(p, entry->wait_for);
	if (entry->flags & PPA_ENTRY_SKIP)
		return;
	w->sync_decided = (entry->flags & PPA_ENTRY_UNDECIDED) == 0;
	ppa_apply_message(w, message, entry->len);
	pg_atomic_write_u64(&p->mine->progress, pg_atomic_read_u64(&p->mine->progress) + 1);
}

/* All earlier groups have committed and no later one is applied: what is done need not be kept. */
static void
unretain(PpaProcess *p, PpaHeldGroup *g)
{
	ppa_place_wait_dependency(p, g->number - 1);
	g->unretain_at = -1;
	g->unretained = true;
	g->alone = p->w->alone = true;
	QueryCancelPending = false;
}

static void
begin_member(PpaProcess *p, const PpaMember *member)
{
	/* the commit that clears the LSN must be the only one */
	if (!XLogRecPtrIsInvalid(MySubscription->skiplsn))
		ppa_require_alone(p->w);
	ppa_worker_begin_member(p->w, member);
	ppa_report_worker_remote(p->report, member->xid, member->final_lsn);
}

/* The messages of a member that is still arriving, or is large. */
static void
run_arriving(PpaProcess *p, PpaHeldGroup *g)
{
	PpaBatch   *batch = g->batch;
	PpaBatchEntry entry;
	const char *message;
	int			pos = 0;

	for (;;)
	{
		if (g->unretain_at >= 0 && pos >= g->unretain_at)
			unretain(p, g);
		if (ppa_batch_next(batch, &pos, batch->bytes.len, &message, &entry))
		{
			run_entry(p, &entry, message);
			continue;
		}
		if (g->unretained)
		{
			ppa_batch_drop_bytes(batch);
			pos = 0;
		}
		if (g->complete && g->unretain_at < 0)
			return;
		if (!g->complete)
			ppa_place_wait_input(p);
	}
}

static void
run_member(PpaProcess *p, PpaHeldGroup *g, int i)
{
	const PpaMember *member = &g->batch->members[i];
	PpaBatchEntry entry;
	const char *message;

	begin_member(p, member);
	if (g->batch->nmembers == 1)
	{
		run_arriving(p, g);
		return;
	}
	for (int pos = member->start; ppa_batch_next(g->batch, &pos, member->end, &message, &entry);)
		run_entry(p, &entry, message);
}

void
ppa_run_together(PpaProcess *p, PpaHeldGroup *g)
{
	PpaWorker  *w = p->w;
	PpaBatch   *batch = g->batch;
	const PpaMember *last;
	XLogRecPtr	local_lsn;

	/* also those to come: what has to be alone must not find itself among them */
	w->members = batch->nmembers;
	for (int i = 0; i < batch->nmembers; i++)
		run_member(p, g, i);
	last = &batch->members[batch->nmembers - 1];
	ppa_local_complete(w, last);
	p->turn_waited = !ppa_place_is_first(p);
	InvalidateCatalogSnapshotConditionally();
	ppa_place_wait(p, g->number - 1, PPA_WAIT_TURN);
	local_lsn = commit_in_turn(p, last, batch->nmembers);
	publish(p, g, last, local_lsn);
}

void
ppa_run_one_by_one(PpaProcess *p, PpaHeldGroup *g)
{
	PpaWorker  *w = p->w;
	PpaBatch   *batch = g->batch;

	w->members = 1;
	p->turn_waited = false;
	for (;;)
	{
		const PpaMember *member;
		XLogRecPtr	local_lsn;

		run_member(p, g, g->done);
		/* of one that has just arrived the end is known only now */
		member = &batch->members[g->done];
		ppa_local_complete(w, member);
		local_lsn = commit_in_turn(p, member, 1);
		if (!XLogRecPtrIsInvalid(local_lsn))
			g->local_lsn = local_lsn;
		if (g->done == batch->nmembers - 1)
		{
			publish(p, g, member, g->local_lsn);
			return;
		}
		g->done++;
		RESUME_INTERRUPTS();
		ppa_report_applied(w->slot, member->end_lsn);
		ppa_local_committed(w);
	}
}
