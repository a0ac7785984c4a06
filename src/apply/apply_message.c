/*-------------------------------------------------------------------------
 *
 * apply_message.c
 *	  Apply one message of a remote transaction.
 *
 * Runs in:	the process that applies changes.
 * Memory:	PpaWorker.change_cxt, reset after each message.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "apply/apply_insert.h"
#include "apply/apply_message.h"
#include "apply/apply_modify.h"
#include "apply/apply_order.h"
#include "apply/apply_target.h"
#include "apply/apply_truncate.h"
#include "server/server_errctx.h"
#include "server/server_protocol.h"

void
ppa_local_begin(PpaWorker *w)
{
	if (w->in_txn)
		return;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	w->in_txn = true;
	MemoryContextSwitchTo(w->change_cxt);
}

/* Parse a change from a copy of the message, whose values can be terminated. */
static void
read_change(PpaWorker *w, const char *message, int len)
{
	PpaChange  *change = w->change;
	PpaWireError err;

	if (len + 1 > w->scratch_size)
		ppa_worker_resize_scratch(w, len + 1 + len / 4);
	memcpy(w->scratch, message, len);
	w->message_len = len;
	if (!ppa_wire_change(w->scratch, len, change, &err))
		ppa_protocol_error(&err);
	if (change->old_kind != PPA_OLD_NONE)
		ppa_wire_terminate(&change->old_tuple);
	if (change->type != PPA_MSG_DELETE)
		ppa_wire_terminate(&change->new_tuple);
}

static void
change_by_type(PpaWorker *w, PpaTarget *target)
{
	switch (w->change->type)
	{
		case PPA_MSG_INSERT:
			ppa_apply_insert(w, target);
			break;
		case PPA_MSG_UPDATE:
			ppa_apply_update(w, target);
			break;
		case PPA_MSG_DELETE:
			ppa_apply_delete(w, target);
			break;
	}
}

static void
do_change(PpaWorker *w, const char *message, int len)
{
	PpaTarget  *target;
	PpaLocalRel *lrel;
	bool		queues_events;

	ppa_local_begin(w);
	read_change(w, message, len);
	AcceptInvalidationMessages();
	target = ppa_target_open(w, w->change->relid);
	if (target == NULL)
		return;					/* not synchronised yet */
	lrel = target->lrel;
	ppa_errctx.rel = lrel->remote;
	ppa_report_worker_change(w->report, lrel->reloid, w->change->type);
	if (unlikely(lrel->ordered))
		ppa_await_earlier(w, w->change->relid, false);

	/*
	 * Before a row is looked at, those kept back must be in the table.  What
	 * runs at a table that is not plain may look at any row of any table, and
	 * a partitioned one may share a leaf with another target.
	 */
	if (!lrel->plain || lrel->partitioned)
	{
		ppa_batches_flush(w);
		if (lrel->solo)
			ppa_targets_close_others(w, target);
		SetCurrentStatementStartTimestamp();
		ppa_refresh_snapshot();
	}
	else if (w->change->type != PPA_MSG_INSERT && target->nbatch > 0)
	{
		ppa_batch_flush(w, target);
		UpdateActiveSnapshotCommandId();
	}

	/* a leaf's triggers may turn out to fire only when a row is routed to it */
	queues_events = lrel->solo || lrel->partitioned;
	if (queues_events)
	{
		/* the trigger code takes rows of this command or later for invisible */
		target->estate->es_output_cid = GetCurrentCommandId(true);
		AfterTriggerBeginQuery();
	}
	change_by_type(w, target);
	if (queues_events)
		AfterTriggerEndQuery(target->estate);
	ResetPerTupleExprContext(target->estate);

	if (target->nbatch == 0)
	{
		CommandCounterIncrement();
		UpdateActiveSnapshotCommandId();
	}
	ppa_report_worker_rows(w->report, 1);
	ppa_errctx.rel = NULL;
}

static void
do_truncate(PpaWorker *w, const char *message, int len)
{
	PpaTruncate truncate;
	PpaWireError err;

	if (!w->alone)
		ppa_require_alone(w);
	ppa_report_worker_change(w->report, InvalidOid, PPA_MSG_TRUNCATE);
	ppa_local_begin(w);
	if (!ppa_wire_truncate(message, len, &truncate, &err))
		ppa_protocol_error(&err);
	ppa_batches_flush(w);
	ppa_targets_close(w);
	ppa_refresh_snapshot();
	ppa_apply_truncate(w, &truncate);
	CommandCounterIncrement();
	ppa_refresh_snapshot();
}

static void
do_relation(PpaWorker *w, const char *message, int len)
{
	PpaRelationMessage relation;
	PpaWireError err;

	if (!ppa_wire_relation(message, len, &relation, &err))
		ppa_protocol_error(&err);

	/*
	 * The same table may come back under another OID, so rows kept back under
	 * the old one must be in it.
	 */
	if (w->in_txn)
	{
		ppa_batches_flush(w);
		UpdateActiveSnapshotCommandId();
	}
	if (ppa_relmap_update(w->relmap, &relation))
	{
		/* the entry is void; opening the target again builds it anew */
		ppa_localrels_forget(w->lrels, relation.relid);
	}
}

static void
check_origin(const char *message, int len)
{
	PpaOriginMessage origin;
	PpaWireError err;

	/* Nobody needs it, as the built-in worker: we track one origin. */
	if (!ppa_wire_origin(message, len, &origin, &err))
		ppa_protocol_error(&err);
}

static void
check_type(const char *message, int len)
{
	PpaWireError err;

	if (!ppa_wire_type(message, len, &err))
		ppa_protocol_error(&err);
}

void
ppa_apply_message(PpaWorker *w, const char *message, int len)
{
	char		type = message[0];

	MemoryContextSwitchTo(w->change_cxt);
	ppa_errctx.message_type = type;
	switch (type)
	{
		case PPA_MSG_INSERT:
		case PPA_MSG_UPDATE:
		case PPA_MSG_DELETE:
			if (!w->skipping)
				do_change(w, message, len);
			break;
		case PPA_MSG_TRUNCATE:
			if (!w->skipping)
				do_truncate(w, message, len);
			break;
		case PPA_MSG_RELATION:
			do_relation(w, message, len);
			break;
		case PPA_MSG_TYPE:
			check_type(message, len);
			break;
		case PPA_MSG_ORIGIN:
			check_origin(message, len);
			break;
		default:
			/* PPA_MSG_MESSAGE: applications may use it, apply does not */
			break;
	}
	ppa_errctx.message_type = 0;
	MemoryContextReset(w->change_cxt);
}

void
ppa_learn_facts(PpaWorker *w, const char *message, int len, PpaTxnFacts *facts)
{
	PpaLocalRel *lrel;
	PpaWireError err;
	uint32		relid;

	switch (message[0])
	{
		case PPA_MSG_INSERT:
		case PPA_MSG_UPDATE:
		case PPA_MSG_DELETE:
			if (!ppa_wire_change_relid(message, len, &relid, &err))
				return;			/* applying it will say so */
			lrel = ppa_localrel_peek(w->lrels, relid);
			if (lrel == NULL)
				facts->unsettled = true;
			else if (lrel->solo)
				facts->solo = true;
			break;
		case PPA_MSG_TRUNCATE:
			facts->truncates = true;
			break;
		case PPA_MSG_RELATION:
			facts->unsettled = true;
			break;
		default:
			break;
	}
}
