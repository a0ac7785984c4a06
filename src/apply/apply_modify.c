/*-------------------------------------------------------------------------
 *
 * apply_modify.c
 *	  UPDATE and DELETE.
 *
 * The row is looked up, merged with what the message changes and written; if
 * somebody else has changed it in between, all of that is done again, with
 * the row as it is then: columns that only the subscriber has are kept.
 *
 * Where a BEFORE ROW trigger fires, the row is locked first, as the trigger
 * code of the server expects: it would follow a concurrent update with a
 * query plan that apply does not have, and crash.
 *
 * Runs in:	the process that applies changes.
 * Memory:	PpaWorker.change_cxt.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "utils/rel.h"

#include "apply/apply_lookup.h"
#include "apply/apply_modify.h"
#include "apply/apply_own_rows.h"
#include "apply/apply_route.h"
#include "apply/apply_target.h"
#include "apply/apply_tuple.h"

static void
report_missing(PpaWorker *w, PpaTarget *target, CmdType cmd)
{
	w->counts.missing_rows++;
	elog(DEBUG1, "logical replication did not find row to be %s in replication target relation%s \"%s\"",
		 cmd == CMD_UPDATE ? "updated" : "deleted",
		 cmd == CMD_UPDATE && target->root != NULL ? "'s partition" : "",
		 RelationGetRelationName(target->rel));
}

/*
 * Will a BEFORE ROW trigger look at the row?  An UPDATE of a partitioned
 * table may turn into a DELETE from the leaf.
 */
static bool
must_lock(const PpaTarget *target, CmdType cmd)
{
	const PpaFiring *firing = &target->lrel->firing;

	if (cmd == CMD_UPDATE)
		return firing->before_update || (target->root != NULL && firing->before_delete);
	return firing->before_delete;
}

bool
ppa_find_for_change(PpaWorker *w, PpaTarget *target, CmdType cmd, bool again)
{
	bool		found;

	ppa_target_check(target, CMD_SELECT);
	found = again ? ppa_lookup_find_again(w, target) : ppa_lookup_find(w, target);
	if (found && must_lock(target, cmd))
		found = ppa_lookup_lock(w, target);
	if (!found)
		report_missing(w, target, cmd);
	return found;
}

/* Was the change made?  False: concurrently updated or deleted. */
static bool
check_result(TM_Result result, const char *verb)
{
	switch (result)
	{
		case TM_Ok:
			return true;
		case TM_Updated:
		case TM_Deleted:
			return false;
		case TM_SelfModified:
			/* a BEFORE trigger has changed the row under us */
			elog(ERROR, "tuple already %s by self", verb);
			break;
		default:
			elog(ERROR, "unexpected status %u of a tuple to be %s", result, verb);
			break;
	}
	return false;
}

/* Tell the executor which columns change: triggers may ask. */
static void
set_updated_columns(PpaWorker *w, PpaTarget *target)
{
	PpaLocalRel *lrel = target->root ? target->root->lrel : target->lrel;
	Bitmapset  *all = target->root ? target->root->all_updated : target->all_updated;
	RangeTblEntry *rte = exec_rt_fetch(1, target->estate);
	const PpaWireTuple *tuple = &w->change->new_tuple;

	rte->updatedCols = all;
	for (int att = 0; att < lrel->natts; att++)
	{
		int			column = lrel->column[att];

		if (column < 0 || column >= tuple->ncols || tuple->kind[column] != PPA_COLUMN_UNCHANGED)
			continue;
		if (rte->updatedCols == all)
			rte->updatedCols = bms_copy(all);
		rte->updatedCols = bms_del_member(rte->updatedCols,
										  att + 1 - FirstLowInvalidHeapAttributeNumber);
	}
}

bool
ppa_update_row(PpaWorker *w, PpaTarget *target)
{
	ResultRelInfo *rri = target->rri;
	Relation	rel = target->rel;
	TupleTableSlot *slot = target->lrel->new_slot;
	ItemPointer tid = &target->found->tts_tid;
	EState	   *estate = target->estate;
	List	   *recheck = NIL;
	TM_FailureData failure;
	LockTupleMode lockmode;
	bool		update_indexes;

	Assert(ItemPointerIsValid(tid));
	ppa_target_check(target, CMD_UPDATE);
	set_updated_columns(w, target);
	if (target->lrel->firing.before_update)
	{
		EPQState	epqstate;
		bool		go_on;

		EvalPlanQualInit(&epqstate, estate, NULL, NIL, -1);
		EvalPlanQualSetSlot(&epqstate, slot);
		go_on = ExecBRUpdateTriggers(estate, &epqstate, rri, tid, NULL, slot, NULL);
		EvalPlanQualEnd(&epqstate);
		if (!go_on)
			return true;		/* a trigger said "do nothing" */
	}

	if (target->lrel->has_generated)
		ExecComputeStoredGenerated(rri, estate, slot, CMD_UPDATE);
	if (rel->rd_att->constr)
		ExecConstraints(rri, slot, estate);
	if (rel->rd_rel->relispartition)
		ExecPartitionCheck(rri, slot, estate, true);

	if (!check_result(table_tuple_update(rel, tid, slot, GetCurrentCommandId(true),
										 estate->es_snapshot, InvalidSnapshot, true,
										 &failure, &lockmode, &update_indexes), "updated"))
		return false;
	ppa_own_row_remember(w, target);
	if (rri->ri_NumIndices > 0 && update_indexes)
		recheck = ExecInsertIndexTuples(rri, slot, estate, true, false, NULL, NIL);
	ExecARUpdateTriggers(estate, rri, NULL, NULL, tid, NULL, slot, recheck, NULL, false);
	list_free(recheck);
	return true;
}

bool
ppa_delete_row(PpaWorker *w, PpaTarget *target)
{
	ResultRelInfo *rri = target->rri;
	ItemPointer tid = &target->found->tts_tid;
	EState	   *estate = target->estate;
	TM_FailureData failure;

	Assert(ItemPointerIsValid(tid));
	ppa_target_check(target, CMD_DELETE);
	if (target->lrel->firing.before_delete)
	{
		EPQState	epqstate;
		bool		go_on;

		EvalPlanQualInit(&epqstate, estate, NULL, NIL, -1);
		EvalPlanQualSetSlot(&epqstate, target->found);
		go_on = ExecBRDeleteTriggers(estate, &epqstate, rri, tid, NULL, NULL);
		EvalPlanQualEnd(&epqstate);
		if (!go_on)
			return true;
	}

	if (!check_result(table_tuple_delete(target->rel, tid, GetCurrentCommandId(true),
										 estate->es_snapshot, InvalidSnapshot, true,
										 &failure, false), "deleted"))
		return false;
	ExecARDeleteTriggers(estate, rri, tid, NULL, NULL, false);
	return true;
}

/* Fill the search slot with what the lookup needs. */
static void
store_search_slot(PpaWorker *w, PpaTarget *target)
{
	PpaLocalRel *lrel = target->lrel;
	PpaLookup  *lookup = target->lookup;
	const PpaWireTuple *tuple = ppa_identity_tuple(w->change);

	if (lookup->exact)
		ppa_tuple_store_key(lrel->search_slot, lrel, tuple, lookup->attno, lookup->nkeys);
	else
		ppa_tuple_store(lrel->search_slot, lrel, tuple);
}

void
ppa_apply_update(PpaWorker *w, PpaTarget *target)
{
	PpaLocalRel *lrel = target->lrel;
	bool		again = false;

	ppa_target_check_updatable(target);
	if (lrel->partitioned)
		ppa_route_update(w, target);
	else
	{
		ppa_lookup_prepare(w, target);
		store_search_slot(w, target);
		for (; ppa_find_for_change(w, target, CMD_UPDATE, again); again = true)
		{
			ppa_tuple_merge(lrel->new_slot, target->found, lrel, &w->change->new_tuple);
			if (ppa_update_row(w, target))
				break;
		}
	}
	w->counts.updates++;
}

void
ppa_apply_delete(PpaWorker *w, PpaTarget *target)
{
	bool		again = false;

	ppa_target_check_updatable(target);
	if (target->lrel->partitioned)
		ppa_route_delete(w, target);
	else
	{
		ppa_lookup_prepare(w, target);
		store_search_slot(w, target);
		for (; ppa_find_for_change(w, target, CMD_DELETE, again); again = true)
		{
			if (ppa_delete_row(w, target))
				break;
		}
	}
	w->counts.deletes++;
}
