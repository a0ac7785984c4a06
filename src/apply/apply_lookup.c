/*-------------------------------------------------------------------------
 *
 * apply_lookup.c
 *	  Find the local row that an UPDATE or DELETE means.
 *
 * A row is looked up with an MVCC snapshot and then changed without locking
 * it first: whoever changes it in between makes the change fail, and then it
 * is looked up anew.  So the snapshot may be as old as the local transaction:
 * what it shows wrongly is found out.  Only "no such row" needs more, once all
 * earlier transactions of the stream have committed:
 *
 *	1. a look with a new snapshot; if it knows of no other writer, that is all;
 *	2. a look with a dirty snapshot, which shows a row that another session
 *	   is inserting: wait for that session and begin again;
 *	3. a last look with a new snapshot, unless nobody has finished since the
 *	   first: the dirty one can miss a row that a local writer moves to another
 *	   page while it scans (all stock versions lose changes this way), a new
 *	   MVCC snapshot cannot.
 *
 * Runs in:	the process that applies changes.
 * Memory:	scans live in PpaWorker.txn_cxt, and must be rescanned there (the
 *			index access method allocates in the current context).
 * Locks:	waits for transactions, holding no buffer pin.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "apply/apply_heap_fetch.h"
#include "apply/apply_lookup.h"
#include "apply/apply_lookup_plan.h"
#include "apply/apply_order.h"
#include "apply/apply_own_rows.h"
#include "apply/apply_target.h"

/* Let go of the buffers that the last lookup in a target has left pinned. */
static void
release_pins(PpaTarget *target)
{
	PpaLookup  *lookup = target->lookup;

	ExecClearTuple(target->found);
	if (lookup->scan != NULL)
		index_rescan(lookup->scan, lookup->key, lookup->nkeys, NULL, 0);
}

void
ppa_lookup_release(PpaWorker *w)
{
	if (w->looked_up != NULL && w->looked_up->lookup != NULL)
		release_pins(w->looked_up);
}

void
ppa_lookup_prepare(PpaWorker *w, PpaTarget *target)
{
	MemoryContext oldcxt;

	if (w->looked_up != target)
	{
		if (w->looked_up != NULL)
			release_pins(w->looked_up);
		w->looked_up = target;
	}
	if (likely(target->lookup != NULL))
		return;
	oldcxt = MemoryContextSwitchTo(w->txn_cxt);
	target->lookup = ppa_lookup_plan(target);
	target->found = table_slot_create(target->rel, NULL);
	MemoryContextSwitchTo(oldcxt);
}

/* Do the rows agree in all columns that the publisher sends? */
static bool
rows_equal(PpaTarget *target, TupleTableSlot *row)
{
	PpaLocalRel *lrel = target->lrel;
	PpaLookup  *lookup = target->lookup;
	TupleTableSlot *search = lrel->search_slot;
	TupleDesc	desc = RelationGetDescr(target->rel);

	slot_getallattrs(row);
	slot_getallattrs(search);
	for (int att = 0; att < lrel->natts; att++)
	{
		Form_pg_attribute form = TupleDescAttr(desc, att);

		if (lrel->column[att] < 0)
			continue;
		if (row->tts_isnull[att] != search->tts_isnull[att])
			return false;
		if (row->tts_isnull[att])
			continue;
		if (lookup->eq[att] == NULL)
		{
			TypeCacheEntry *type = lookup_type_cache(form->atttypid, TYPECACHE_EQ_OPR_FINFO);

			if (!OidIsValid(type->eq_opr_finfo.fn_oid))
				ereport(ERROR,
						(errcode(ERRCODE_UNDEFINED_FUNCTION),
						 errmsg("could not identify an equality operator for type %s",
								format_type_be(form->atttypid))));
			lookup->eq[att] = type;
		}
		if (!DatumGetBool(FunctionCall2Coll(&lookup->eq[att]->eq_opr_finfo, form->attcollation,
											row->tts_values[att], search->tts_values[att])))
			return false;
	}
	return true;
}

/*
 * Is a row that a dirty snapshot shows one that a later transaction of the
 * stream is inserting?  Then it does not exist yet, from where we are.
 */
static inline bool
is_from_later(PpaWorker *w, Snapshot snapshot)
{
	return snapshot->snapshot_type == SNAPSHOT_DIRTY && w->order != NULL &&
		TransactionIdIsValid(snapshot->xmin) &&
		w->order->is_later(w->order->arg, snapshot->xmin);
}

static bool
find_by_index(PpaWorker *w, PpaTarget *target, Snapshot snapshot)
{
	PpaLookup  *lookup = target->lookup;
	TupleTableSlot *search = target->lrel->search_slot;
	MemoryContext oldcxt = MemoryContextSwitchTo(w->txn_cxt);
	bool		found = false;

	for (int i = 0; i < lookup->nkeys; i++)
	{
		int			att = lookup->attno[i] - 1;

		lookup->key[i].sk_argument = search->tts_values[att];
		lookup->key[i].sk_flags = search->tts_isnull[att] ? SK_ISNULL | SK_SEARCHNULL : 0;
	}
	if (lookup->scan == NULL)
		lookup->scan = index_beginscan(target->rel, lookup->index, snapshot, lookup->nkeys, 0);
	lookup->scan->xs_snapshot = snapshot;
	index_rescan(lookup->scan, lookup->key, lookup->nkeys, NULL, 0);

	while (!found && ppa_index_next(target))
	{
		MemoryContextSwitchTo(oldcxt);
		found = (lookup->exact || rows_equal(target, target->found)) &&
			!is_from_later(w, snapshot);
		ppa_worker_tick(w);
		MemoryContextSwitchTo(w->txn_cxt);
	}
	MemoryContextSwitchTo(oldcxt);
	return found;
}

static bool
find_by_scan(PpaWorker *w, PpaTarget *target, Snapshot snapshot)
{
	TableScanDesc scan = ppa_scan_begin(target, snapshot);
	bool		found = false;

	while (!found && table_scan_getnextslot(scan, ForwardScanDirection, target->found))
	{
		found = rows_equal(target, target->found) && !is_from_later(w, snapshot);
		ppa_worker_tick(w);
	}
	if (found)
		ppa_scan_found(target);
	/* the slot keeps its own pin on the row's page */
	table_endscan(scan);
	return found;
}

static inline bool
look(PpaWorker *w, PpaTarget *target, Snapshot snapshot)
{
	bool		found = target->lookup->index != NULL ?
		find_by_index(w, target, snapshot) : find_by_scan(w, target, snapshot);

	if (!found)
		ExecClearTuple(target->found);
	return found;
}

/*
 * Was no other transaction writing when the snapshot was taken?  Then what it
 * does not show did not exist at that moment, not even uncommitted.
 *
 * The snapshot lists only those below its xmax that were running; above it all
 * that have an id are, and there may be our own.
 */
static bool
nobody_else_writes(Snapshot snapshot)
{
	TransactionId own = GetTopTransactionIdIfAny();
	uint32		above = ReadNextTransactionId() - snapshot->xmax;

	if (TransactionIdIsValid(own) && TransactionIdFollowsOrEquals(own, snapshot->xmax))
		above--;
	return above == 0 && snapshot->xcnt == 0 && snapshot->subxcnt == 0 &&
		!snapshot->suboverflowed;
}

bool
ppa_lookup_find_again(PpaWorker *w, PpaTarget *target)
{
	uint64		completed;

	for (;;)
	{
		SnapshotData dirty;
		TransactionId inserter;

		completed = ppa_refresh_snapshot();
		if (look(w, target, GetActiveSnapshot()))
			return true;
		if (ppa_await_earlier(w, target->lrel->remote_relid, true))
			continue;
		if (nobody_else_writes(GetActiveSnapshot()))
			return false;

		InitDirtySnapshot(dirty);
		if (!look(w, target, &dirty))
			break;
		inserter = TransactionIdIsValid(dirty.xmin) ? dirty.xmin : dirty.xmax;
		release_pins(target);
		if (TransactionIdIsValid(inserter))
			XactLockTableWait(inserter, NULL, NULL, XLTW_None);
		CHECK_FOR_INTERRUPTS();
	}
	/* If nobody has finished meanwhile, a new snapshot shows what the first did. */
	return ppa_refresh_snapshot() != completed &&
		look(w, target, GetActiveSnapshot());
}

bool
ppa_lookup_find(PpaWorker *w, PpaTarget *target)
{
	if (target->lookup->exact && ppa_own_row_find(w, target))
		return true;
	/* a scan is too dear to be made with a snapshot that may be too old */
	if (target->lookup->index == NULL)
		return ppa_lookup_find_again(w, target);
	return look(w, target, GetActiveSnapshot()) || ppa_lookup_find_again(w, target);
}

bool
ppa_lookup_lock(PpaWorker *w, PpaTarget *target)
{
	for (;;)
	{
		TM_FailureData failure;
		TM_Result	result;

		result = table_tuple_lock(target->rel, &target->found->tts_tid, GetActiveSnapshot(),
								  target->found, GetCurrentCommandId(false),
								  LockTupleExclusive, LockWaitBlock, 0, &failure);
		switch (result)
		{
			case TM_Ok:
				return true;
			case TM_Updated:
			case TM_Deleted:
				break;
			case TM_Invisible:
				elog(ERROR, "attempted to lock invisible tuple");
				break;
			default:
				elog(ERROR, "unexpected table_tuple_lock status: %u", result);
				break;
		}
		if (!ppa_lookup_find_again(w, target))
			return false;
	}
}
