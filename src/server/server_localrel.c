/*-------------------------------------------------------------------------
 *
 * server_localrel.c
 *	  A local table as the target of a relation of the publisher.
 *
 * Runs in:	the process that applies changes.
 * Memory:	the hash entries live as long as the process; what is derived from
 *			the catalogs lives in one context per entry.
 * Locks:	none but those that the caller asks for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "server/server_localrel.h"

struct PpaLocalRels
{
	MemoryContext cxt;
	HTAB	   *rels;			/* of PpaLocalRel */
	HTAB	   *roots;			/* of RootEntry */
	int			batch_slots;	/* of all relations together */
};

#define MIN_BATCH_SLOTS 2

/* Enough for the runs of a few busy tables, a few hundred kB. */
#define KEPT_BATCH_SLOTS 4096

/* Which local relation is the target of a remote one. */
typedef struct RootEntry
{
	uint32		remote_relid;	/* hash key */
	Oid			reloid;
} RootEntry;

uint32		ppa_sync_generation = 1;

/* For the relcache callback, which can be registered only once per process. */
static PpaLocalRels *process_rels = NULL;

static void
invalidate_all(PpaLocalRels *rels, bool (*wanted) (PpaLocalRel *lrel, Oid oid), Oid oid)
{
	HASH_SEQ_STATUS status;
	PpaLocalRel *lrel;

	hash_seq_init(&status, rels->rels);
	while ((lrel = hash_seq_search(&status)) != NULL)
	{
		if (wanted == NULL || wanted(lrel, oid))
			lrel->valid = false;
	}
}

static bool
has_local_oid(PpaLocalRel *lrel, Oid oid)
{
	return lrel->reloid == oid || lrel->solo_for_leaf;
}

static bool
has_remote_relid(PpaLocalRel *lrel, Oid oid)
{
	return lrel->remote_relid == oid;
}

static bool
evaluates(PpaLocalRel *lrel, Oid oid)
{
	return lrel->evaluates;
}

static void
relcache_callback(Datum arg, Oid reloid)
{
	invalidate_all(process_rels, OidIsValid(reloid) ? has_local_oid : NULL, reloid);
}

/* A function or a constraint, which may be a domain's, has changed. */
static void
expression_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	invalidate_all(process_rels, evaluates, InvalidOid);
}

static void
subscription_rel_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	/* skips 0, which means "not READY" */
	if (++ppa_sync_generation == 0)
		ppa_sync_generation = 1;
}

PpaLocalRels *
ppa_localrels_create(MemoryContext parent)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "pg_parallel_apply local relations",
											  ALLOCSET_DEFAULT_SIZES);
	PpaLocalRels *rels = MemoryContextAllocZero(cxt, sizeof(PpaLocalRels));
	HASHCTL		rels_ctl = {.keysize = offsetof(PpaLocalRel, valid),
		.entrysize = sizeof(PpaLocalRel),.hcxt = cxt};
	HASHCTL		roots_ctl = {.keysize = sizeof(uint32),.entrysize = sizeof(RootEntry),.hcxt = cxt};

	Assert(process_rels == NULL);
	rels->cxt = cxt;
	rels->rels = hash_create("pg_parallel_apply local relations", 128, &rels_ctl,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	rels->roots = hash_create("pg_parallel_apply targets", 128, &roots_ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	process_rels = rels;
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, expression_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(CONSTROID, expression_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(SUBSCRIPTIONRELMAP, subscription_rel_callback, (Datum) 0);
	return rels;
}

static PpaLocalRel *
find_or_enter(PpaLocalRels *rels, uint32 remote_relid, Oid reloid)
{
	PpaLocalRel key = {.remote_relid = remote_relid,.reloid = reloid};
	PpaLocalRel *lrel;
	bool		found;

	lrel = hash_search(rels->rels, &key, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) lrel + offsetof(PpaLocalRel, valid), 0,
			   sizeof(PpaLocalRel) - offsetof(PpaLocalRel, valid));
		lrel->cxt = AllocSetContextCreate(rels->cxt, "pg_parallel_apply local relation",
										  ALLOCSET_SMALL_SIZES);
	}
	return lrel;
}

/* Map local columns to remote ones; complain of remote columns without a home. */
static void
map_columns(PpaLocalRel *lrel, Relation rel)
{
	const PpaRemoteRel *remote = lrel->remote;
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *missing = bms_add_range(NULL, 0, remote->natts - 1);

	lrel->natts = desc->natts;
	lrel->column = MemoryContextAlloc(lrel->cxt, sizeof(int) * desc->natts);
	lrel->input = MemoryContextAllocZero(lrel->cxt, sizeof(PpaColumnInput) * desc->natts);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		lrel->column[i] = -1;
		lrel->input[i].type = att->atttypid;
		lrel->input[i].typmod = att->atttypmod;
		if (att->attisdropped || att->attgenerated)
			continue;
		lrel->column[i] = ppa_remote_column(remote->attnames, remote->natts, att);
		if (lrel->column[i] < 0)
			lrel->has_missing = true;
		else
			missing = bms_del_member(missing, lrel->column[i]);
	}

	if (!bms_is_empty(missing))
	{
		StringInfoData names;
		int			count = 0;
		int			j = -1;

		initStringInfo(&names);
		while ((j = bms_next_member(missing, j)) >= 0)
			appendStringInfo(&names, count++ == 0 ? _("\"%s\"") : _(", \"%s\""),
							 remote->attnames[j]);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg_plural("logical replication target relation \"%s.%s\" is missing replicated column: %s",
							   "logical replication target relation \"%s.%s\" is missing replicated columns: %s",
							   count, remote->nspname, remote->relname, names.data)));
	}
}

/*
 * The subscriber's replica identity may have fewer columns than the
 * publisher's, as that still identifies one row; more would not do.  INSERTs
 * need none: whoever updates or deletes complains.
 */
static void
find_identity(PpaLocalRel *lrel, Relation rel)
{
	const PpaRemoteRel *remote = lrel->remote;
	Bitmapset  *keys = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	int			i = -1;

	lrel->identity_index = RelationGetReplicaIndex(rel);
	if (!OidIsValid(lrel->identity_index))
		lrel->identity_index = RelationGetPrimaryKeyIndex(rel);

	lrel->updatable = true;
	if (keys == NULL)
	{
		keys = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_PRIMARY_KEY);
		if (keys == NULL && remote->replident != REPLICA_IDENTITY_FULL)
			lrel->updatable = false;
	}
	while ((i = bms_next_member(keys, i)) >= 0)
	{
		AttrNumber	attno = i + FirstLowInvalidHeapAttributeNumber;
		int			column;

		if (!AttrNumberIsForUserDefinedAttr(attno))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("logical replication target relation \"%s.%s\" uses "
							"system columns in REPLICA IDENTITY index",
							remote->nspname, remote->relname)));
		column = lrel->column[AttrNumberGetAttrOffset(attno)];
		if (column < 0 || !bms_is_member(column, remote->keys))
		{
			lrel->updatable = false;
			break;
		}
	}
}

/* Build all that is derived from the catalogs.  The relation is locked. */
static void
build(PpaLocalRels *rels, PpaLocalRel *lrel, const PpaRemoteRel *remote, Relation rel)
{
	PpaTraits	traits;
	MemoryContext oldcxt;

	/*
	 * Invalidations that arrive while we read the catalogs may mark the entry
	 * again, so it becomes valid first: the mark then stays.
	 */
	rels->batch_slots -= lrel->nbatch_slots;
	MemoryContextReset(lrel->cxt);
	memset(&lrel->remote, 0, sizeof(PpaLocalRel) - offsetof(PpaLocalRel, remote));
	lrel->valid = true;
	PG_TRY();
	{
		lrel->remote = remote;
		lrel->partitioned = (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE);
		map_columns(lrel, rel);
		find_identity(lrel, rel);
		ppa_traits_find(&traits, rel, lrel->column);
		lrel->firing = traits.firing;
		lrel->solo = traits.solo;
		lrel->plain = traits.plain;
		lrel->ordered = traits.ordered;
		lrel->evaluates = traits.evaluates;
		lrel->has_generated = rel->rd_att->constr != NULL &&
			rel->rd_att->constr->has_generated_stored;

		oldcxt = MemoryContextSwitchTo(lrel->cxt);
		lrel->desc = CreateTupleDescCopy(RelationGetDescr(rel));
		lrel->search_slot = MakeSingleTupleTableSlot(lrel->desc, &TTSOpsVirtual);
		lrel->new_slot = MakeSingleTupleTableSlot(lrel->desc, &TTSOpsVirtual);
		MemoryContextSwitchTo(oldcxt);
	}
	PG_CATCH();
	{
		lrel->valid = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
}

PpaLocalRel *
ppa_localrel_peek(PpaLocalRels *rels, uint32 remote_relid)
{
	RootEntry  *root = hash_search(rels->roots, &remote_relid, HASH_FIND, NULL);
	PpaLocalRel key = {.remote_relid = remote_relid};
	PpaLocalRel *lrel;

	if (root == NULL)
		return NULL;
	key.reloid = root->reloid;
	lrel = hash_search(rels->rels, &key, HASH_FIND, NULL);
	return lrel != NULL && lrel->valid ? lrel : NULL;
}

PpaLocalRel *
ppa_localrel_open(PpaLocalRels *rels, const PpaRemoteRel *remote, int lockmode, Relation *rel)
{
	PpaLocalRel *lrel = ppa_localrel_peek(rels, remote->relid);
	RootEntry  *root;
	Oid			reloid;
	bool		found;

	/* Taking the lock accepts invalidations, which may concern this entry. */
	if (lrel != NULL)
	{
		*rel = try_table_open(lrel->reloid, lockmode);
		if (*rel != NULL && lrel->valid)
			return lrel;
		if (*rel != NULL)
			table_close(*rel, lockmode);
	}

	reloid = RangeVarGetRelid(makeRangeVar(remote->nspname, remote->relname, -1), lockmode, true);
	if (!OidIsValid(reloid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("logical replication target relation \"%s.%s\" does not exist",
						remote->nspname, remote->relname)));
	*rel = table_open(reloid, NoLock);
	CheckSubscriptionRelkind((*rel)->rd_rel->relkind, remote->nspname, remote->relname);

	root = hash_search(rels->roots, &remote->relid, HASH_ENTER, &found);
	root->reloid = reloid;
	lrel = find_or_enter(rels, remote->relid, reloid);
	if (!lrel->valid)
		build(rels, lrel, remote, *rel);
	return lrel;
}

PpaLocalRel *
ppa_localrel_leaf(PpaLocalRels *rels, const PpaRemoteRel *remote, Relation leaf)
{
	PpaLocalRel *lrel = find_or_enter(rels, remote->relid, RelationGetRelid(leaf));

	if (!lrel->valid)
		build(rels, lrel, remote, leaf);
	return lrel;
}

void
ppa_localrels_forget(PpaLocalRels *rels, uint32 remote_relid)
{
	invalidate_all(rels, has_remote_relid, remote_relid);
}

void
ppa_localrels_forget_all(PpaLocalRels *rels)
{
	invalidate_all(rels, NULL, InvalidOid);
}

TupleTableSlot *
ppa_localrel_batch_slot(PpaLocalRels *rels, PpaLocalRel *lrel, int i)
{
	MemoryContext oldcxt;
	int			want = (i == 0) ? MIN_BATCH_SLOTS : i * 2;

	Assert(i <= lrel->nbatch_slots);
	if (likely(i < lrel->nbatch_slots))
		return lrel->batch_slots[i];

	/* double: a relation that gets few rows at a time needs few slots */
	if (lrel->batch_slots_cxt == NULL)
		lrel->batch_slots_cxt = AllocSetContextCreate(lrel->cxt, "pg_parallel_apply slots",
													  ALLOCSET_SMALL_SIZES);
	oldcxt = MemoryContextSwitchTo(lrel->batch_slots_cxt);
	if (lrel->batch_slots == NULL)
		lrel->batch_slots = palloc(sizeof(TupleTableSlot *) * want);
	else
		lrel->batch_slots = repalloc(lrel->batch_slots, sizeof(TupleTableSlot *) * want);
	for (int j = lrel->nbatch_slots; j < want; j++)
		lrel->batch_slots[j] = MakeSingleTupleTableSlot(lrel->desc, &TTSOpsVirtual);
	MemoryContextSwitchTo(oldcxt);
	rels->batch_slots += want - lrel->nbatch_slots;
	lrel->nbatch_slots = want;
	return lrel->batch_slots[i];
}

void
ppa_localrel_trim(PpaLocalRels *rels, PpaLocalRel *lrel)
{
	if (rels->batch_slots <= KEPT_BATCH_SLOTS || lrel->batch_slots_cxt == NULL)
		return;
	/* the slots hold no pins and no references: their memory is all there is */
	MemoryContextDelete(lrel->batch_slots_cxt);
	rels->batch_slots -= lrel->nbatch_slots;
	lrel->batch_slots_cxt = NULL;
	lrel->batch_slots = NULL;
	lrel->nbatch_slots = 0;
}
