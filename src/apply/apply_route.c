/*-------------------------------------------------------------------------
 *
 * apply_route.c
 *	  Changes of partitioned targets.
 *
 * The executor's tuple routing is set up once per local transaction and
 * target, and kept with its leaves.
 *
 * Runs in:	the process that applies changes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tupconvert.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "utils/rel.h"

#include "apply/apply_insert.h"
#include "apply/apply_lookup.h"
#include "apply/apply_modify.h"
#include "apply/apply_route.h"
#include "apply/apply_target.h"
#include "apply/apply_tuple.h"

/* The leaf that a row in the format of the root belongs to. */
static PpaTarget *
find_leaf(PpaWorker *w, PpaTarget *root, TupleTableSlot *slot)
{
	ResultRelInfo *rri = ExecFindPartition(root->mtstate, root->rri, root->proute, slot,
										   root->estate);

	return ppa_target_leaf(w, root, rri);
}

/* Let "to" be "from" with other columns, or the same; values are shared. */
static void
convert_row(AttrMap *map, TupleTableSlot *from, TupleTableSlot *to)
{
	if (map != NULL)
	{
		execute_attr_map_slot(map, from, to);
		return;
	}
	ExecClearTuple(to);
	slot_getallattrs(from);
	memcpy(to->tts_values, from->tts_values,
		   sizeof(Datum) * from->tts_tupleDescriptor->natts);
	memcpy(to->tts_isnull, from->tts_isnull,
		   sizeof(bool) * from->tts_tupleDescriptor->natts);
	ExecStoreVirtualTuple(to);
}

static void
row_to_leaf(PpaTarget *leaf, TupleTableSlot *from, TupleTableSlot *to)
{
	TupleConversionMap *map = leaf->rri->ri_RootToPartitionMap;

	convert_row(map ? map->attrMap : NULL, from, to);
}

/* The new row of a leaf, in the format of the root. */
static void
row_to_root(PpaTarget *leaf)
{
	PpaTarget  *root = leaf->root;
	AttrMap    *map = NULL;

	if (leaf->rri->ri_RootToPartitionMap != NULL)
		map = build_attrmap_by_name(RelationGetDescr(leaf->rel), RelationGetDescr(root->rel));
	convert_row(map, leaf->lrel->new_slot, root->lrel->new_slot);
}

void
ppa_route_insert(PpaWorker *w, PpaTarget *root, TupleTableSlot *slot)
{
	PpaTarget  *leaf = find_leaf(w, root, slot);

	row_to_leaf(leaf, slot, leaf->lrel->new_slot);
	ppa_insert_row(w, leaf, leaf->lrel->new_slot);
}

/* The leaf that the row of an UPDATE or DELETE is in, ready for the lookup. */
static PpaTarget *
prepare_leaf(PpaWorker *w, PpaTarget *root)
{
	PpaLocalRel *lrel = root->lrel;
	PpaTarget  *leaf;

	ppa_tuple_store(lrel->search_slot, lrel, ppa_identity_tuple(w->change));
	leaf = find_leaf(w, root, lrel->search_slot);
	row_to_leaf(leaf, lrel->search_slot, leaf->lrel->search_slot);
	ppa_target_check_updatable(leaf);
	ppa_lookup_prepare(w, leaf);
	return leaf;
}

static bool
row_stays(PpaTarget *leaf)
{
	return !leaf->rel->rd_rel->relispartition ||
		ExecPartitionCheck(leaf->rri, leaf->lrel->new_slot, leaf->estate, false);
}

/* The row leaves its leaf.  False: concurrently changed. */
static bool
move_row(PpaWorker *w, PpaTarget *leaf)
{
	PpaTarget  *root = leaf->root;
	PpaTarget  *destination;

	row_to_root(leaf);
	destination = find_leaf(w, root, root->lrel->new_slot);
	/* it may have had to wait for earlier transactions, and let go of the row */
	if (TTS_EMPTY(leaf->found))
		return false;
	if (!ppa_delete_row(w, leaf))
		return false;
	row_to_leaf(destination, root->lrel->new_slot, destination->lrel->new_slot);
	ppa_insert_row(w, destination, destination->lrel->new_slot);
	return true;
}

void
ppa_route_update(PpaWorker *w, PpaTarget *root)
{
	PpaTarget  *leaf = prepare_leaf(w, root);

	for (bool again = false; ppa_find_for_change(w, leaf, CMD_UPDATE, again); again = true)
	{
		ppa_tuple_merge(leaf->lrel->new_slot, leaf->found, leaf->lrel, &w->change->new_tuple);
		if (row_stays(leaf) ? ppa_update_row(w, leaf) : move_row(w, leaf))
			break;
	}
}

void
ppa_route_delete(PpaWorker *w, PpaTarget *root)
{
	PpaTarget  *leaf = prepare_leaf(w, root);

	for (bool again = false; ppa_find_for_change(w, leaf, CMD_DELETE, again); again = true)
	{
		if (ppa_delete_row(w, leaf))
			break;
	}
}
