/*-------------------------------------------------------------------------
 *
 * apply_lookup_plan.c
 *	  Choose how the rows of a target are found.
 *
 * Runs in:	the process that applies changes.
 * Locks:	RowExclusiveLock on the index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_statistic.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "apply/apply_lookup_plan.h"

/*
 * What the planner assumes of a column without statistics
 * (DEFAULT_NUM_DISTINCT in utils/selfuncs.h).
 */
#define DISTINCT_UNKNOWN 200.0

/*
 * A row fetched through an index costs about as much as this many rows of a
 * scan: measured with the index on a column of equal values of WORKLOADS.md
 * W4, where the index takes three times as long as the scan.
 */
#define INDEX_ROW_COST 3.0

/* Equality operator of an index column, or invalid. */
static Oid
index_equality(Relation index, int i)
{
	Oid			opfamily = index->rd_opfamily[i];
	Oid			type = index->rd_opcintype[i];

	return get_opfamily_member(opfamily, type, type, BTEqualStrategyNumber);
}

/*
 * Can rows be found by this index?  It must hold every row, in columns that
 * the publisher sends, and agree with rows_equal() on what is equal.
 */
static bool
index_is_usable(const PpaTarget *target, Relation index)
{
	Form_pg_index form = index->rd_index;

	if (!form->indisvalid || index->rd_rel->relam != BTREE_AM_OID ||
		RelationGetIndexPredicate(index) != NIL)
		return false;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		AttrNumber	attno = form->indkey.values[i];
		Form_pg_attribute att;
		TypeCacheEntry *type;

		if (attno <= 0 || target->lrel->column[attno - 1] < 0)
			return false;
		att = TupleDescAttr(RelationGetDescr(target->rel), attno - 1);
		type = lookup_type_cache(att->atttypid, TYPECACHE_EQ_OPR);
		if (index_equality(index, i) != type->eq_opr ||
			index->rd_indcollation[i] != att->attcollation)
			return false;
	}
	return true;
}

/* Distinct values of a column among "rows" rows. */
static double
distinct_values(Oid relid, AttrNumber attno, double rows)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(relid),
										Int16GetDatum(attno), BoolGetDatum(false));
	double		distinct = DISTINCT_UNKNOWN;

	if (HeapTupleIsValid(tuple))
	{
		float4		stadistinct = ((Form_pg_statistic) GETSTRUCT(tuple))->stadistinct;

		/* negative: a fraction of the rows; 0: unknown */
		if (stadistinct > 0)
			distinct = stadistinct;
		else if (stadistinct < 0)
			distinct = -stadistinct * rows;
		ReleaseSysCache(tuple);
	}
	return Max(distinct, 1.0);
}

/* Rows that have one and the same key, on average. */
static double
rows_per_key(const PpaTarget *target, Relation index, double rows)
{
	double		keys = 1.0;

	if (index->rd_index->indisunique && index->rd_index->indimmediate)
		return 1.0;
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		keys *= distinct_values(RelationGetRelid(target->rel),
								index->rd_index->indkey.values[i], rows);
	return Max(rows / Min(keys, Max(rows, 1.0)), 1.0);
}

/* The index to use for whole rows, or invalid: scan. */
static Oid
choose_index(const PpaTarget *target)
{
	double		rows = target->rel->rd_rel->reltuples;
	List	   *indexes = RelationGetIndexList(target->rel);
	Oid			best = InvalidOid;
	double		best_cost;
	ListCell   *lc;

	/* Never vacuumed or analysed: assume that it is worth an index. */
	if (rows < 0)
		rows = 1e6;
	/* on average the scan stops half way */
	best_cost = rows / 2;
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (index_is_usable(target, index))
		{
			double		cost = rows_per_key(target, index, rows) * INDEX_ROW_COST;

			if (cost < best_cost)
			{
				best = lfirst_oid(lc);
				best_cost = cost;
			}
		}
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	return best;
}

static void
init_index_keys(PpaLookup *lookup, Relation index)
{
	lookup->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	for (int i = 0; i < lookup->nkeys; i++)
	{
		Oid			equality = index_equality(index, i);

		if (!OidIsValid(equality))
			elog(ERROR, "missing operator %d(%u,%u) in opfamily %u", BTEqualStrategyNumber,
				 index->rd_opcintype[i], index->rd_opcintype[i], index->rd_opfamily[i]);
		ScanKeyEntryInitialize(&lookup->key[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
							   index->rd_indcollation[i], get_opcode(equality), (Datum) 0);
		lookup->attno[i] = index->rd_index->indkey.values[i];
	}
}

PpaLookup *
ppa_lookup_plan(PpaTarget *target)
{
	PpaLookup  *lookup = palloc0(sizeof(PpaLookup));
	PpaLocalRel *lrel = target->lrel;
	Oid			index = lrel->identity_index;

	lookup->exact = OidIsValid(index);
	if (!lookup->exact)
	{
		if (!lrel->lookup_planned)
		{
			lrel->lookup_index = choose_index(target);
			lrel->lookup_planned = true;
		}
		index = lrel->lookup_index;
		lookup->eq = palloc0(sizeof(TypeCacheEntry *) * lrel->natts);
	}
	if (OidIsValid(index))
	{
		lookup->index = index_open(index, RowExclusiveLock);
		init_index_keys(lookup, lookup->index);
	}
	return lookup;
}
