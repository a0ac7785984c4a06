/*-------------------------------------------------------------------------
 *
 * schedule_relview.c
 *	  What the leader knows of the relations of the stream.
 *
 * Runs in:	the leader.
 * Memory:	one context; views live as long as the process.
 * Locks:	AccessShareLock on a target, if it is to be had at once, for the
 *			time of one look-up.  Other than that only on catalogs.
 * It must not: report mistakes of users, wait for a table, run functions that
 *			users have written, keep a transaction open.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_subscription_rel.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "core/core_schedule.h"
#include "schedule/schedule_relview.h"
#include "server/server_compat.h"
#include "server/server_localrel.h"
#include "server/server_traits.h"

/* Changes come in runs of a few relations; a power of two. */
#define MEMO 16

/* apply_from of a table that has not come so far. */
#define NOT_SYNCED PG_UINT64_MAX

struct PpaRelViews
{
	MemoryContext cxt;
	HTAB	   *by_relid;		/* of PpaRelView */
	PpaRelView *first;
	PpaRelView *last;
	PpaRelView *memo[MEMO];		/* by relid */
	uint64		group;			/* counts ppa_relviews_new_group(), from 1 */
};

/* Keys of a view while they are gathered. */
typedef struct FoundKeys
{
	int			nkeys;
	Bitmapset  *columns[PPA_MAX_RELATION_KEYS];
	bool		has_nulls[PPA_MAX_RELATION_KEYS];
	bool		identified;		/* one of them is of every row, and of no other */
} FoundKeys;

/* For the cache callbacks. */
static PpaRelViews *process_views = NULL;

/* ---------- invalidation ---------- */

static int
compare_oids(const void *a, const void *b)
{
	Oid			left = *(const Oid *) a;
	Oid			right = *(const Oid *) b;

	return left < right ? -1 : left > right;
}

static bool
concerns(const PpaRelView *view, Oid reloid)
{
	return view->reloid == reloid ||
		(view->nmembers > 0 &&
		 bsearch(&reloid, view->members, view->nmembers, sizeof(Oid), compare_oids) != NULL);
}

static void
relcache_callback(Datum arg, Oid reloid)
{
	for (PpaRelView *view = process_views->first; view != NULL; view = view->next)
	{
		if (OidIsValid(reloid) && !concerns(view, reloid))
			continue;
		view->settled = false;
		view->marked = false;
		view->synced_at = 0;
	}
}

/* A function or a constraint, which may be a domain's, has changed. */
static void
expression_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	for (PpaRelView *view = process_views->first; view != NULL; view = view->next)
	{
		if (view->evaluates)
			view->settled = false;
	}
}

PpaRelViews *
ppa_relviews_create(MemoryContext parent)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "pg_parallel_apply relation views",
											  ALLOCSET_DEFAULT_SIZES);
	PpaRelViews *views = MemoryContextAllocZero(cxt, sizeof(PpaRelViews));
	HASHCTL		ctl = {.keysize = sizeof(uint32),.entrysize = sizeof(PpaRelView),.hcxt = cxt};

	Assert(process_views == NULL);
	views->cxt = cxt;
	views->group = 1;
	views->by_relid = hash_create("pg_parallel_apply relation views", 128, &ctl,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	process_views = views;
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, expression_callback, (Datum) 0);
	CacheRegisterSyscacheCallback(CONSTROID, expression_callback, (Datum) 0);
	return views;
}

/* ---------- keys ---------- */

static void
add_key(FoundKeys *found, Bitmapset *columns, bool has_nulls)
{
	if (bms_is_empty(columns))
		return;
	for (int i = 0; i < found->nkeys; i++)
	{
		if (bms_equal(found->columns[i], columns))
		{
			found->has_nulls[i] |= has_nulls;
			return;
		}
	}
	if (found->nkeys == PPA_MAX_RELATION_KEYS)
		return;
	found->columns[found->nkeys] = columns;
	found->has_nulls[found->nkeys++] = has_nulls;
}

/* Let the keys found be those of the view. */
static void
set_keys(PpaRelViews *views, PpaRelView *view, const FoundKeys *found)
{
	uint16	   *columns;
	int			count = 0;

	for (int i = 0; i < found->nkeys; i++)
		count += bms_num_members(found->columns[i]);
	columns = MemoryContextAlloc(views->cxt, sizeof(uint16) * Max(count, 1));
	if (view->key_columns != NULL)
		pfree(view->key_columns);
	view->key_columns = columns;
	view->keys.nkeys = found->nkeys;
	for (int i = 0; i < found->nkeys; i++)
	{
		PpaKey	   *key = &view->keys.key[i];
		int			column = -1;

		key->columns = columns;
		key->ncolumns = 0;
		while ((column = bms_next_member(found->columns[i], column)) >= 0)
			columns[key->ncolumns++] = column;
		columns += key->ncolumns;
		key->has_nulls = found->has_nulls[i];
		key->in_identity = bms_is_subset(found->columns[i], view->identity);
		key->seed = ppa_key_seed(view->relid, view->attnames, key->ncolumns, key->columns);
	}
}

/*
 * The remote columns of a local unique index whose entries stop a second
 * writer; NULL if it is none, or has columns that do not come from the
 * publisher as they are.
 */
static Bitmapset *
unique_columns(Form_pg_index index, const int *column)
{
	Bitmapset  *columns = NULL;

	if (!index->indisunique || !index->indisvalid || !index->indimmediate ||
		index->indisexclusion)
		return NULL;
	for (int i = 0; i < index->indnkeyatts; i++)
	{
		AttrNumber	attno = index->indkey.values[i];

		if (attno <= 0 || column[attno - 1] < 0)
			return NULL;
		columns = bms_add_member(columns, column[attno - 1]);
	}
	return columns;
}

/* Has every row an entry in this unique index that no other row may have? */
static bool
identifies(Form_pg_index index, HeapTuple tuple, TupleDesc desc)
{
	if (!heap_attisnull(tuple, Anum_pg_index_indpred, NULL))
		return false;
	for (int i = 0; !index->indnullsnotdistinct && i < index->indnkeyatts; i++)
	{
		if (!TupleDescAttr(desc, index->indkey.values[i] - 1)->attnotnull)
			return false;
	}
	return true;
}

/* The index is not opened: that would wait for a REINDEX. */
static void
add_index(FoundKeys *found, Oid indexoid, TupleDesc desc, const int *column)
{
	HeapTuple	tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexoid));
	Form_pg_index index;
	Bitmapset  *columns;

	if (!HeapTupleIsValid(tuple))
		return;
	index = (Form_pg_index) GETSTRUCT(tuple);
	columns = unique_columns(index, column);
	if (columns != NULL)
	{
		add_key(found, columns, index->indnullsnotdistinct);
		found->identified |= identifies(index, tuple, desc);
	}
	ReleaseSysCache(tuple);
}

static void
find_keys(PpaRelViews *views, PpaRelView *view, Relation rel, const int *column)
{
	FoundKeys	found = {0};
	ListCell   *lc;

	if (view->replident != REPLICA_IDENTITY_FULL)
		add_key(&found, view->identity, true);
	foreach(lc, RelationGetIndexList(rel))
		add_index(&found, lfirst_oid(lc), RelationGetDescr(rel), column);

	/* all columns only if nothing less tells rows apart */
	if (view->replident == REPLICA_IDENTITY_FULL && !found.identified)
		add_key(&found, view->identity, true);
	set_keys(views, view, &found);
}

/* ---------- facts ---------- */

/* What is assumed as long as nothing is known. */
static void
assume(PpaRelViews *views, PpaRelView *view)
{
	FoundKeys	found = {0};

	add_key(&found, view->identity, true);
	set_keys(views, view, &found);
	view->flags = PPA_CHANGE_ORDERED;
	view->truncate_flags = PPA_CHANGE_ALONE;
}

/*
 * The relation of that name, if any.  RangeVarGetRelid() would check
 * privileges on the schema, and raise an error.
 */
static Oid
resolve(PpaRelView *view)
{
	Oid			nspoid = get_namespace_oid(view->nspname, true);
	Oid			reloid = InvalidOid;

	if (OidIsValid(nspoid))
		reloid = get_relname_relid(view->relname, nspoid);
	if (OidIsValid(reloid) && reloid != view->reloid)
	{
		view->reloid = reloid;
		view->settled = false;
		view->marked = false;
		view->synced_at = 0;
		view->nmembers = 0;
	}
	return reloid;
}

static bool
is_target_kind(char relkind)
{
	return relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE;
}

/* The relations whose invalidation may concern this one. */
static void
find_members(PpaRelViews *views, PpaRelView *view, Relation rel)
{
	List	   *list = NIL;
	Oid		   *members = NULL;
	int			n = 0;
	ListCell   *lc;

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		list = find_all_inheritors(RelationGetRelid(rel), NoLock, NULL);
		members = MemoryContextAlloc(views->cxt, sizeof(Oid) * list_length(list));
	}
	foreach(lc, list)
		members[n++] = lfirst_oid(lc);
	if (n > 0)
		qsort(members, n, sizeof(Oid), compare_oids);
	view->nmembers = 0;
	if (view->members != NULL)
		pfree(view->members);
	view->members = members;
	view->nmembers = n;
}

static void
find_flags(PpaRelView *view, Relation rel, const int *column)
{
	PpaTraits	traits;

	ppa_traits_find(&traits, rel, column);
	view->evaluates = traits.evaluates;
	view->flags = 0;
	view->truncate_flags = PPA_CHANGE_ALONE;
	if (traits.ordered)
		view->flags |= PPA_CHANGE_ORDERED;
	if (traits.solo)
		view->flags |= PPA_CHANGE_TRIGGERS;
	if (traits.firing.truncate)
		view->truncate_flags |= PPA_CHANGE_TRIGGERS;
}

static bool
find_facts(PpaRelViews *views, PpaRelView *view)
{
	Oid			reloid = resolve(view);
	Relation	rel;
	int		   *column;

	if (!OidIsValid(reloid) || !ConditionalLockRelationOid(reloid, AccessShareLock))
		return false;

	/* With the lock came what others have committed before. */
	if (resolve(view) != reloid || !is_target_kind(get_rel_relkind(reloid)))
		return false;

	/* Invalidations that arrive while we read the catalogs undo this. */
	view->settled = true;
	rel = table_open(reloid, NoLock);
	column = palloc(sizeof(int) * RelationGetNumberOfAttributes(rel));
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
		column[i] = ppa_remote_column(view->attnames, view->natts,
									  TupleDescAttr(RelationGetDescr(rel), i));
	find_members(views, view, rel);
	find_flags(view, rel, column);
	find_keys(views, view, rel, column);
	table_close(rel, NoLock);
	return true;
}

void
ppa_relview_look(PpaRelViews *views, PpaRelView *view)
{
	MemoryContext oldcxt = CurrentMemoryContext;

	if (view->tried == views->group)
		return;
	view->tried = views->group;
	StartTransactionCommand();
	if (!find_facts(views, view))
		assume(views, view);
	CommitTransactionCommand();
	MemoryContextSwitchTo(oldcxt);

	if (view->marked)
	{
		view->flags |= PPA_CHANGE_TRIGGERS;
		view->truncate_flags |= PPA_CHANGE_TRIGGERS;
	}
	if (view->renewed)
	{
		/* keys of before need not be equal to keys of now */
		view->flags |= PPA_CHANGE_ORDERED;
		view->settled = false;
		view->renewed = false;
	}
}

void
ppa_relview_mark_triggers(PpaRelView *view)
{
	AcceptInvalidationMessages();
	view->marked = true;
	view->flags |= PPA_CHANGE_TRIGGERS;
	view->truncate_flags |= PPA_CHANGE_TRIGGERS;
}

/* ---------- table synchronisation ---------- */

static bool
is_table(Oid reloid)
{
	char		relkind = get_rel_relkind(reloid);

	return relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE;
}

static void
find_sync_state(PpaRelView *view)
{
	MemoryContext oldcxt = CurrentMemoryContext;
	XLogRecPtr	statelsn;
	char		state;
	Oid			reloid;

	StartTransactionCommand();
	reloid = resolve(view);
	if (OidIsValid(reloid) && is_table(reloid))
	{
		/* changes that arrive meanwhile undo this */
		view->synced_at = ppa_sync_generation;
		state = GetSubscriptionRelState(MySubscription->oid, reloid, &statelsn);
		view->apply_from = state == SUBREL_STATE_READY ? 0 :
			state == SUBREL_STATE_SYNCDONE ? statelsn : NOT_SYNCED;
	}
	else
	{
		/* the worker reports that there is no such table, or a view in its place */
		view->synced_at = 0;
		view->apply_from = 0;
	}
	CommitTransactionCommand();
	MemoryContextSwitchTo(oldcxt);
}

PpaRelViewVerdict
ppa_relview_judge(PpaRelViews *views, PpaRelView *view, XLogRecPtr final_lsn)
{
	if (likely(view->synced_at == ppa_sync_generation && view->apply_from == 0))
		return PPA_RELVIEW_APPLY;

	/* Other states pass, and a change skipped too long is lost. */
	AcceptInvalidationMessages();
	if (view->synced_at != ppa_sync_generation)
		find_sync_state(view);
	if (final_lsn < view->apply_from)
		return PPA_RELVIEW_SKIP;
	return view->synced_at == 0 ? PPA_RELVIEW_UNKNOWN : PPA_RELVIEW_APPLY;
}

/* ---------- descriptions ---------- */

/* From the first name to the end; what is before is the relation's OID. */
static bool
same_description(const PpaRelView *view, const PpaRelationMessage *msg)
{
	size_t		len = msg->end - msg->nspname;

	return len == view->description_len && memcmp(view->description, msg->nspname, len) == 0;
}

PpaRelViewChange
ppa_relviews_would(PpaRelViews *views, const PpaRelationMessage *msg)
{
	PpaRelView *view = ppa_relview_find(views, msg->relid);

	if (view == NULL)
		return PPA_RELVIEW_NEW;
	return same_description(view, msg) ? PPA_RELVIEW_SAME : PPA_RELVIEW_CHANGED;
}

static PpaRelView *
find_or_enter(PpaRelViews *views, uint32 relid)
{
	bool		found;
	PpaRelView *view = hash_search(views->by_relid, &relid, HASH_ENTER, &found);

	if (found)
		return view;
	memset(view, 0, sizeof(*view));
	view->relid = relid;
	if (views->last == NULL)
		views->first = view;
	else
		views->last->next = view;
	views->last = view;
	return view;
}

/* Take over the description from the view's own copy of the message. */
static void
describe(PpaRelViews *views, PpaRelView *view)
{
	MemoryContext oldcxt = MemoryContextSwitchTo(views->cxt);
	PpaRelationMessage msg;
	PpaRelationColumn column;
	PpaWireError err;
	const char *pos;

	if (!ppa_wire_relation(view->message, view->message_len, &msg, &err))
		elog(ERROR, "RELATION message cannot be parsed a second time");
	view->description = msg.nspname;
	view->description_len = msg.end - msg.nspname;
	/* pgoutput sends an empty name for pg_catalog */
	view->nspname = msg.nspname[0] == '\0' ? "pg_catalog" : msg.nspname;
	view->relname = msg.relname;
	view->replident = msg.replident;
	view->natts = msg.natts;
	view->attnames = palloc(sizeof(char *) * Max(msg.natts, 1));
	pos = msg.columns;
	for (int i = 0; ppa_wire_next_column(&msg, &pos, &column); i++)
	{
		view->attnames[i] = unconstify(char *, column.name);
		if (column.is_key || msg.replident == REPLICA_IDENTITY_FULL)
			view->identity = bms_add_member(view->identity, i);
	}
	MemoryContextSwitchTo(oldcxt);
}

PpaRelView *
ppa_relviews_learn(PpaRelViews *views, const char *message, int len,
				   const PpaRelationMessage *msg)
{
	PpaRelViewChange change = ppa_relviews_would(views, msg);
	PpaRelView *view = find_or_enter(views, msg->relid);

	if (change == PPA_RELVIEW_SAME)
		return view;
	if (change == PPA_RELVIEW_CHANGED)
	{
		pfree(view->message);
		pfree(view->attnames);
		bms_free(view->identity);
		view->identity = NULL;
		view->renewed = true;
	}
	view->message = MemoryContextAlloc(views->cxt, len);
	view->message_len = len;
	memcpy(view->message, message, len);
	memset(view->known, 0, sizeof(view->known));
	describe(views, view);

	view->settled = false;
	view->tried = 0;
	view->synced_at = 0;
	assume(views, view);
	return view;
}

PpaRelView *
ppa_relview_find(PpaRelViews *views, uint32 relid)
{
	PpaRelView **memo = &views->memo[relid % MEMO];

	if (*memo == NULL || (*memo)->relid != relid)
	{
		PpaRelView *view = hash_search(views->by_relid, &relid, HASH_FIND, NULL);

		if (view == NULL)
			return NULL;
		*memo = view;
	}
	return *memo;
}

void
ppa_relviews_new_group(PpaRelViews *views)
{
	views->group++;
}

PpaRelView *
ppa_relviews_first(PpaRelViews *views)
{
	return views->first;
}
