/*-------------------------------------------------------------------------
 *
 * apply_target.c
 *	  The tables that the running local transaction writes.
 *
 * Runs in:	the process that applies changes.
 * Memory:	PpaWorker.txn_cxt.
 * Locks:	RowExclusiveLock on the table and, by the executor, on its leaves,
 *			until the end of the local transaction.  With it held, no trigger,
 *			column or constraint of the table can change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_subscription_rel.h"
#include "executor/executor.h"
#include "executor/nodeModifyTable.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

#include "apply/apply_insert.h"
#include "apply/apply_order.h"
#include "apply/apply_target.h"
#include "server/server_compat.h"
#include "server/server_errctx.h"

/*
 * Each holds executor state, and pins while its rows are looked up: one remote
 * transaction may write thousands of tables.
 */
#define MAX_OPEN_TARGETS 64

static void close_target(PpaWorker *w, PpaTarget *target);

uint64
ppa_refresh_snapshot(void)
{
	Snapshot	latest;

	PopActiveSnapshot();
	latest = GetLatestSnapshot();
	/* pushes a copy, which does not have the count */
	PushActiveSnapshot(latest);
	return latest->snapXactCompletionCount;
}

bool
ppa_target_is_synced(PpaWorker *w, PpaLocalRel *lrel)
{
	uint32		generation = ppa_sync_generation;
	XLogRecPtr	statelsn;
	char		state;

	if (likely(lrel->ready_at == generation))
		return true;
	state = GetSubscriptionRelState(MySubscription->oid, lrel->reloid, &statelsn);
	lrel->ready_at = (state == SUBREL_STATE_READY) ? generation : 0;
	return state == SUBREL_STATE_READY ||
		(state == SUBREL_STATE_SYNCDONE && statelsn <= w->final_lsn);
}

/*
 * The executor's view of the table.  The trigger descriptor is dropped where
 * no row trigger fires: then the executor queues no events for it.
 */
static void
init_executor(PpaTarget *target)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	target->estate = CreateExecutorState();
	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(target->rel);
	rte->relkind = target->rel->rd_rel->relkind;
	rte->rellockmode = AccessShareLock;
	ExecInitRangeTable(target->estate, list_make1(rte));

	target->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(target->rri, target->rel, 1, NULL, 0);
	/* where the trigger code looks for the table of an event */
	target->estate->es_opened_result_relations =
		lappend(target->estate->es_opened_result_relations, target->rri);
	target->estate->es_output_cid = GetCurrentCommandId(true);
}

/* Columns updated if the publisher sent all of them. */
static void
init_updated_columns(PpaTarget *target)
{
	PpaLocalRel *lrel = target->lrel;

	for (int att = 0; att < lrel->natts; att++)
	{
		if (lrel->column[att] >= 0)
			target->all_updated = bms_add_member(target->all_updated,
												 att + 1 - FirstLowInvalidHeapAttributeNumber);
	}
}

/* What a table that rows are written to needs, be it a leaf or not. */
static void
init_storage(PpaTarget *target)
{
	PpaLocalRel *lrel = target->lrel;

	if (target->rri->ri_IndexRelationDescs == NULL)
		ExecOpenIndices(target->rri, false);
	if (!lrel->solo)
		target->rri->ri_TrigDesc = NULL;

	/*
	 * The executor would choose the generated columns to compute by the
	 * columns that its first row updates, and keep that choice for all rows.
	 * As for an INSERT it computes all.
	 */
	if (lrel->has_generated && target->rri->ri_GeneratedExprs == NULL)
		ExecInitStoredGenerated(target->rri, target->estate, CMD_INSERT);
}

static void
init_routing(PpaTarget *target)
{
	ModifyTableState *mtstate = makeNode(ModifyTableState);

	mtstate->ps.plan = NULL;
	mtstate->ps.state = target->estate;
	mtstate->operation = CMD_INSERT;
	mtstate->resultRelInfo = target->rri;
	target->mtstate = mtstate;
	target->proute = ExecSetupPartitionTupleRouting(target->estate, target->rel);
}

static void
regroup(void)
{
	ereport(ERROR,
			(errcode(PPA_ERRCODE_REGROUP),
			 errmsg_internal("remote transaction needs a local transaction of its own")));
}

void
ppa_require_alone(PpaWorker *w)
{
	w->solo = true;
	if (w->members > 1 || !w->alone)
		regroup();
}

void
ppa_require_solo(PpaWorker *w)
{
	ppa_require_alone(w);
	if (!w->may_fire)
		regroup();
}

static PpaTarget *
make_target(PpaWorker *w, PpaLocalRel *lrel, Relation rel)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(w->txn_cxt);
	PpaTarget  *target = palloc0(sizeof(PpaTarget));

	target->lrel = lrel;
	target->rel = rel;
	dlist_init(&target->leaves);
	init_executor(target);
	if (lrel->partitioned)
		init_routing(target);
	else
		init_storage(target);
	init_updated_columns(target);
	dlist_push_tail(&w->targets, &target->node);
	w->ntargets++;
	MemoryContextSwitchTo(oldcxt);
	return target;
}

static PpaTarget *
open_target(PpaWorker *w, uint32 relid)
{
	PpaRemoteRel *remote = ppa_relmap_find(w->relmap, relid);
	PpaLocalRel *lrel;
	PpaTarget  *target;
	Relation	rel;

	if (remote == NULL)
		elog(ERROR, "no relation map entry for remote relation ID %u", relid);
	lrel = ppa_localrel_open(w->lrels, remote, RowExclusiveLock, &rel);
	if (!w->sync_decided && !ppa_target_is_synced(w, lrel))
	{
		/* it cannot become ours before this transaction ends */
		table_close(rel, RowExclusiveLock);
		return NULL;
	}
	if (lrel->solo)
	{
		ppa_errctx.rel = remote;
		ppa_require_solo(w);
	}
	if (w->ntargets >= MAX_OPEN_TARGETS)
	{
		ppa_batches_flush(w);
		close_target(w, dlist_head_element(PpaTarget, node, &w->targets));
	}
	target = make_target(w, lrel, rel);

	/* The lock may have been long in coming, and a rewrite be committed meanwhile. */
	ppa_refresh_snapshot();
	return target;
}

static PpaTarget *
find_target(PpaWorker *w, uint32 relid)
{
	dlist_iter	iter;

	dlist_foreach(iter, &w->targets)
	{
		PpaTarget  *target = dlist_container(PpaTarget, node, iter.cur);

		if (target->lrel->remote_relid == relid)
			return target;
	}
	return NULL;
}

PpaTarget *
ppa_target_open(PpaWorker *w, uint32 relid)
{
	PpaTarget **memo = &w->memo[relid % PPA_TARGET_MEMO];
	PpaTarget  *target = *memo;

	if (target == NULL || target->lrel->remote_relid != relid)
	{
		target = find_target(w, relid);
		*memo = target;
	}
	if (target != NULL)
	{
		if (likely(target->lrel->valid))
		{
			/* A target is open because a transaction before this one may write it. */
			if (unlikely(target->lrel->solo))
			{
				ppa_errctx.rel = target->lrel->remote;
				ppa_require_solo(w);
			}
			return target;
		}

		/* Something changed that our lock allows, a new partition say. */
		ppa_batches_flush(w);
		close_target(w, target);
	}
	target = open_target(w, relid);
	*memo = target;
	return target;
}

PpaTarget *
ppa_target_leaf(PpaWorker *w, PpaTarget *root, ResultRelInfo *rri)
{
	const PpaRemoteRel *remote = root->lrel->remote;
	MemoryContext oldcxt;
	PpaTarget  *leaf;
	dlist_iter	iter;

	dlist_foreach(iter, &root->leaves)
	{
		leaf = dlist_container(PpaTarget, node, iter.cur);
		if (leaf->rri == rri)
		{
			leaf->lrel = ppa_localrel_leaf(w->lrels, remote, leaf->rel);
			if (unlikely(leaf->lrel->ordered))
				ppa_await_earlier(w, remote->relid, false);
			return leaf;
		}
	}

	CheckSubscriptionRelkind(rri->ri_RelationDesc->rd_rel->relkind,
							 get_namespace_name(RelationGetNamespace(rri->ri_RelationDesc)),
							 RelationGetRelationName(rri->ri_RelationDesc));

	oldcxt = MemoryContextSwitchTo(w->txn_cxt);
	leaf = palloc0(sizeof(PpaTarget));
	leaf->root = root;
	leaf->rel = rri->ri_RelationDesc;
	leaf->rri = rri;
	leaf->estate = root->estate;
	leaf->lrel = ppa_localrel_leaf(w->lrels, remote, leaf->rel);
	if (leaf->lrel->solo)
	{
		/* Known from now on before the next transaction joins a group. */
		root->lrel->solo = root->lrel->solo_for_leaf = true;
		ppa_require_solo(w);
		ppa_targets_close_others(w, root);
	}
	if (leaf->lrel->ordered)
		ppa_await_earlier(w, remote->relid, false);
	init_storage(leaf);
	init_updated_columns(leaf);
	dlist_init(&leaf->leaves);
	dlist_push_tail(&root->leaves, &leaf->node);
	MemoryContextSwitchTo(oldcxt);

	ppa_refresh_snapshot();
	return leaf;
}

void
ppa_check_privileges(Relation rel, AclMode mode)
{
	Oid			relid = RelationGetRelid(rel);
	AclResult	result = pg_class_aclcheck(relid, GetUserId(), mode);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, get_relkind_objtype(rel->rd_rel->relkind), get_rel_name(relid));
	if (check_enable_rls(relid, InvalidOid, false) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("user \"%s\" cannot replicate into relation with row-level security enabled: \"%s\"",
						GetUserNameFromId(GetUserId(), true),
						RelationGetRelationName(rel))));
}

static inline void
check_once(PpaTarget *target, bool *done, AclMode mode, CmdType cmd)
{
	if (*done)
		return;
	ppa_check_privileges(target->rel, mode);
	if (cmd != CMD_SELECT)
		CheckCmdReplicaIdentity(target->rel, cmd);
	*done = true;
}

void
ppa_target_check(PpaTarget *target, CmdType cmd)
{
	switch (cmd)
	{
		case CMD_SELECT:
			check_once(target, &target->may_select, ACL_SELECT, cmd);
			break;
		case CMD_INSERT:
			check_once(target, &target->may_insert, ACL_INSERT, cmd);
			break;
		case CMD_UPDATE:
			check_once(target, &target->may_update, ACL_UPDATE, cmd);
			break;
		case CMD_DELETE:
			check_once(target, &target->may_delete, ACL_DELETE, cmd);
			break;
		default:
			Assert(false);
	}
}

void
ppa_target_check_updatable(const PpaTarget *target)
{
	const PpaRemoteRel *remote = target->lrel->remote;

	/* of a partitioned table, only the leaf that has the row matters */
	if (likely(target->lrel->updatable) || target->lrel->partitioned)
		return;
	if (OidIsValid(target->lrel->identity_index))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("publisher did not send replica identity column "
						"expected by the logical replication target relation \"%s.%s\"",
						remote->nspname, remote->relname)));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("logical replication target relation \"%s.%s\" has "
					"neither REPLICA IDENTITY index nor PRIMARY "
					"KEY and published relation does not have "
					"REPLICA IDENTITY FULL",
					remote->nspname, remote->relname)));
}

static void
init_defaults(PpaTarget *target)
{
	PpaLocalRel *lrel = target->lrel;
	TupleDesc	desc = RelationGetDescr(target->rel);
	MemoryContext oldcxt = MemoryContextSwitchTo(target->estate->es_query_cxt);

	target->default_att = palloc(sizeof(int) * lrel->natts);
	target->default_expr = palloc(sizeof(ExprState *) * lrel->natts);
	for (int att = 0; att < lrel->natts; att++)
	{
		Form_pg_attribute form = TupleDescAttr(desc, att);
		Expr	   *expr;

		if (form->attisdropped || form->attgenerated || lrel->column[att] >= 0)
			continue;
		expr = (Expr *) build_column_default(target->rel, att + 1);
		if (expr == NULL)
			continue;
		target->default_att[target->ndefaults] = att;
		target->default_expr[target->ndefaults++] = ExecInitExpr(expression_planner(expr), NULL);
	}
	MemoryContextSwitchTo(oldcxt);
}

void
ppa_target_fill_defaults(PpaTarget *target, TupleTableSlot *slot)
{
	ExprContext *econtext;

	if (!target->lrel->has_missing)
		return;
	if (target->default_att == NULL)
		init_defaults(target);
	econtext = GetPerTupleExprContext(target->estate);
	for (int i = 0; i < target->ndefaults; i++)
	{
		int			att = target->default_att[i];

		slot->tts_values[att] = ExecEvalExpr(target->default_expr[i], econtext,
											 &slot->tts_isnull[att]);
	}
}

static void
close_lookup(PpaTarget *target)
{
	if (target->found != NULL)
		ExecDropSingleTupleTableSlot(target->found);
	target->found = NULL;
	if (target->lookup == NULL)
		return;
	if (target->lookup->scan != NULL)
		index_endscan(target->lookup->scan);
	if (target->lookup->index != NULL)
		index_close(target->lookup->index, NoLock);
	target->lookup = NULL;
}

static void
clear_slots(PpaLocalRel *lrel)
{
	ExecClearTuple(lrel->search_slot);
	ExecClearTuple(lrel->new_slot);
}

/* Close one target; its rows kept back must have been written. */
static void
close_target(PpaWorker *w, PpaTarget *target)
{
	PpaTarget **memo = &w->memo[target->lrel->remote_relid % PPA_TARGET_MEMO];
	dlist_iter	iter;

	Assert(target->nbatch == 0 && target->root == NULL);
	if (*memo == target)
		*memo = NULL;
	dlist_delete(&target->node);
	w->ntargets--;
	if (w->looked_up == target || (w->looked_up != NULL && w->looked_up->root == target))
		w->looked_up = NULL;

	dlist_foreach(iter, &target->leaves)
	{
		PpaTarget  *leaf = dlist_container(PpaTarget, node, iter.cur);

		close_lookup(leaf);
		clear_slots(leaf->lrel);
	}
	close_lookup(target);
	clear_slots(target->lrel);
	if (target->proute != NULL)
		ExecCleanupTupleRouting(target->mtstate, target->proute);
	/* indexes, and what the trigger code has opened for itself */
	ExecCloseResultRelations(target->estate);
	ExecResetTupleTable(target->estate->es_tupleTable, false);
	FreeExecutorState(target->estate);
	table_close(target->rel, NoLock);
	ppa_localrel_trim(w->lrels, target->lrel);
}

void
ppa_targets_close(PpaWorker *w)
{
	while (!dlist_is_empty(&w->targets))
		close_target(w, dlist_head_element(PpaTarget, node, &w->targets));
}

void
ppa_targets_close_others(PpaWorker *w, PpaTarget *keep)
{
	dlist_mutable_iter iter;

	dlist_foreach_modify(iter, &w->targets)
	{
		PpaTarget  *target = dlist_container(PpaTarget, node, iter.cur);

		if (target != keep)
			close_target(w, target);
	}
}

void
ppa_targets_forget(PpaWorker *w)
{
	w->ntargets = 0;
	w->looked_up = NULL;
	dlist_init(&w->targets);
	dlist_init(&w->batches);
	memset(w->memo, 0, sizeof(w->memo));
}
