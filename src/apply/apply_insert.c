/*-------------------------------------------------------------------------
 *
 * apply_insert.c
 *	  INSERT, one row at a time or in runs.
 *
 * Rows for a table where nothing runs that could look at other rows are kept
 * back and written several at a time: one heap WAL record per page instead of
 * per row.  Everything that might look at them flushes first: another change
 * of the same table, a change of a table that is not "plain", the end of the
 * local transaction.  Rows of several tables may be kept back at once, so
 * that interleaved changes still make runs.
 *
 * Index entries are made row by row in stream order, so a duplicate key is
 * found at the same row as if each had been inserted by itself.
 *
 * Runs in:	the process that applies changes.
 * Memory:	rows kept back live in PpaTarget.batch_cxt.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "apply/apply_insert.h"
#include "apply/apply_route.h"
#include "apply/apply_target.h"
#include "apply/apply_tuple.h"
#include "server/server_errctx.h"

/* As COPY: enough rows to fill pages, few enough to stay in the CPU cache. */
#define BATCH_MAX_ROWS 1000
#define BATCH_MAX_BYTES 65536

/* Generated columns and constraints, which the row must have before it is stored. */
static void
complete_row(PpaTarget *target, TupleTableSlot *slot)
{
	Relation	rel = target->rel;

	if (target->lrel->has_generated)
		ExecComputeStoredGenerated(target->rri, target->estate, slot, CMD_INSERT);
	if (rel->rd_att->constr)
		ExecConstraints(target->rri, slot, target->estate);
	if (rel->rd_rel->relispartition)
		ExecPartitionCheck(target->rri, slot, target->estate, true);
}

static List *
insert_index_entries(PpaTarget *target, TupleTableSlot *slot)
{
	if (target->rri->ri_NumIndices == 0)
		return NIL;
	return ExecInsertIndexTuples(target->rri, slot, target->estate, false, false, NULL, NIL);
}

void
ppa_insert_row(PpaWorker *w, PpaTarget *target, TupleTableSlot *slot)
{
	ResultRelInfo *rri = target->rri;
	List	   *recheck;

	ppa_target_check(target, CMD_INSERT);
	if (rri->ri_TrigDesc && rri->ri_TrigDesc->trig_insert_before_row &&
		!ExecBRInsertTriggers(target->estate, rri, slot))
		return;					/* a trigger said "do nothing" */
	complete_row(target, slot);
	table_tuple_insert(target->rel, slot, GetCurrentCommandId(true), 0, NULL);
	recheck = insert_index_entries(target, slot);
	ExecARInsertTriggers(target->estate, rri, slot, recheck, NULL);
	list_free(recheck);
}

/* Keep a row back.  Its values are in the target's batch context. */
static void
keep_back(PpaWorker *w, PpaTarget *target, TupleTableSlot *slot)
{
	ppa_target_check(target, CMD_INSERT);
	complete_row(target, slot);
	if (target->nbatch == 0)
		dlist_push_tail(&w->batches, &target->batch_node);
	target->nbatch++;
	w->batched = true;
}

static void
insert_batched(PpaWorker *w, PpaTarget *target)
{
	PpaLocalRel *lrel = target->lrel;
	TupleTableSlot *slot = ppa_localrel_batch_slot(w->lrels, lrel, target->nbatch);
	MemoryContext oldcxt;

	if (target->batch_cxt == NULL)
		target->batch_cxt = AllocSetContextCreate(w->txn_cxt, "pg_parallel_apply batch",
												  ALLOCSET_DEFAULT_SIZES);
	oldcxt = MemoryContextSwitchTo(target->batch_cxt);
	ppa_tuple_store(slot, lrel, &w->change->new_tuple);
	ppa_target_fill_defaults(target, slot);
	MemoryContextSwitchTo(oldcxt);
	keep_back(w, target, slot);
	target->batch_bytes += w->message_len;
	if (target->nbatch >= BATCH_MAX_ROWS || target->batch_bytes >= BATCH_MAX_BYTES)
		ppa_batch_flush(w, target);
}

void
ppa_apply_insert(PpaWorker *w, PpaTarget *target)
{
	PpaLocalRel *lrel = target->lrel;

	if (lrel->plain && !lrel->partitioned && !w->row_by_row)
		insert_batched(w, target);
	else
	{
		ppa_tuple_store(lrel->new_slot, lrel, &w->change->new_tuple);
		ppa_target_fill_defaults(target, lrel->new_slot);
		if (lrel->partitioned)
			ppa_route_insert(w, target, lrel->new_slot);
		else
			ppa_insert_row(w, target, lrel->new_slot);
	}
	w->counts.inserts++;
}

void
ppa_batch_flush(PpaWorker *w, PpaTarget *target)
{
	TupleTableSlot **slots = target->lrel->batch_slots;
	int			nslots = target->nbatch;
	char		saved_type = ppa_errctx.message_type;
	const PpaRemoteRel *saved_rel = ppa_errctx.rel;
	MemoryContext oldcxt;

	if (nslots == 0)
		return;
	/* Not to be tried again if it fails: then the local transaction is lost. */
	target->nbatch = 0;
	target->batch_bytes = 0;
	dlist_delete(&target->batch_node);

	ppa_errctx.message_type = PPA_MSG_INSERT;
	ppa_errctx.rel = target->lrel->remote;
	oldcxt = MemoryContextSwitchTo(target->batch_cxt);
	if (nslots == 1)
		table_tuple_insert(target->rel, slots[0], GetCurrentCommandId(true), 0, NULL);
	else
	{
		table_multi_insert(target->rel, slots, nslots, GetCurrentCommandId(true), 0, NULL);
		w->counts.multi_insert_rows += nslots;
	}
	for (int i = 0; i < nslots; i++)
	{
		list_free(insert_index_entries(target, slots[i]));
		ExecClearTuple(slots[i]);
		ResetPerTupleExprContext(target->estate);
	}
	CommandCounterIncrement();
	MemoryContextSwitchTo(oldcxt);
	MemoryContextReset(target->batch_cxt);
	ppa_errctx.message_type = saved_type;
	ppa_errctx.rel = saved_rel;
}

void
ppa_batches_flush(PpaWorker *w)
{
	while (!dlist_is_empty(&w->batches))
		ppa_batch_flush(w, dlist_head_element(PpaTarget, batch_node, &w->batches));
}
