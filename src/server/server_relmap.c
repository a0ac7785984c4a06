/*-------------------------------------------------------------------------
 *
 * server_relmap.c
 *	  What the publisher has told us about its relations.
 *
 * Runs in:	the process that applies changes.
 * Memory:	one small context per description, so that one can be freed when
 *			it has been replaced for good.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "server/server_relmap.h"

typedef struct RelMapEntry
{
	uint32		relid;			/* hash key */
	PpaRemoteRel *rel;			/* NULL: not described yet (after a rewind) */
} RelMapEntry;

/* A description that was replaced in the group being applied. */
typedef struct ReplacedRel
{
	struct ReplacedRel *next;
	uint32		relid;
	PpaRemoteRel *rel;			/* NULL: the relation was not known before */
} ReplacedRel;

struct PpaRelMap
{
	MemoryContext cxt;
	HTAB	   *rels;
	ReplacedRel *replaced;		/* newest first */
};

PpaRelMap *
ppa_relmap_create(MemoryContext parent)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "pg_parallel_apply relation map",
											  ALLOCSET_DEFAULT_SIZES);
	PpaRelMap  *map = MemoryContextAllocZero(cxt, sizeof(PpaRelMap));
	HASHCTL		ctl = {.keysize = sizeof(uint32), .entrysize = sizeof(RelMapEntry), .hcxt = cxt};

	map->cxt = cxt;
	map->rels = hash_create("pg_parallel_apply remote relations", 128, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return map;
}

static PpaRemoteRel *
make_remote_rel(PpaRelMap *map, const PpaRelationMessage *msg)
{
	MemoryContext cxt = AllocSetContextCreate(map->cxt, "pg_parallel_apply remote relation",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	PpaRemoteRel *rel = palloc0(sizeof(PpaRemoteRel));
	const char *pos = msg->columns;
	PpaRelationColumn column;

	rel->cxt = cxt;
	rel->relid = msg->relid;
	/* pgoutput sends an empty name for pg_catalog */
	rel->nspname = pstrdup(msg->nspname[0] == '\0' ? "pg_catalog" : msg->nspname);
	rel->relname = pstrdup(msg->relname);
	rel->replident = msg->replident;
	rel->natts = msg->natts;
	rel->attnames = palloc(sizeof(char *) * Max(msg->natts, 1));
	for (int i = 0; ppa_wire_next_column(msg, &pos, &column); i++)
	{
		rel->attnames[i] = pstrdup(column.name);
		if (column.is_key)
			rel->keys = bms_add_member(rel->keys, i);
	}
	MemoryContextSwitchTo(oldcxt);
	return rel;
}

static bool
same_remote_rel(const PpaRemoteRel *a, const PpaRemoteRel *b)
{
	if (strcmp(a->nspname, b->nspname) != 0 || strcmp(a->relname, b->relname) != 0 ||
		a->replident != b->replident || a->natts != b->natts || !bms_equal(a->keys, b->keys))
		return false;
	for (int i = 0; i < a->natts; i++)
	{
		if (strcmp(a->attnames[i], b->attnames[i]) != 0)
			return false;
	}
	return true;
}

static RelMapEntry *
enter(PpaRelMap *map, uint32 relid)
{
	RelMapEntry *entry;
	bool		found;

	entry = hash_search(map->rels, &relid, HASH_ENTER, &found);
	if (!found)
		entry->rel = NULL;
	return entry;
}

/* A new description for the entry, or NULL if it says what the old one does. */
static PpaRemoteRel *
make_if_changed(PpaRelMap *map, const RelMapEntry *entry, const PpaRelationMessage *msg)
{
	PpaRemoteRel *rel = make_remote_rel(map, msg);

	if (entry->rel == NULL || !same_remote_rel(entry->rel, rel))
		return rel;
	/* announced again, as after any relcache invalidation over there */
	MemoryContextDelete(rel->cxt);
	return NULL;
}

bool
ppa_relmap_learn(PpaRelMap *map, const PpaRelationMessage *msg)
{
	RelMapEntry *entry = enter(map, msg->relid);
	PpaRemoteRel *rel = make_if_changed(map, entry, msg);
	PpaRemoteRel *old = entry->rel;

	if (rel == NULL)
		return false;
	entry->rel = rel;
	if (old != NULL)
		MemoryContextDelete(old->cxt);
	return old != NULL;
}

bool
ppa_relmap_update(PpaRelMap *map, const PpaRelationMessage *msg)
{
	RelMapEntry *entry = enter(map, msg->relid);
	PpaRemoteRel *rel = make_if_changed(map, entry, msg);
	ReplacedRel *replaced;
	bool		known = (entry->rel != NULL);

	if (rel == NULL)
		return false;
	replaced = MemoryContextAlloc(map->cxt, sizeof(ReplacedRel));
	replaced->next = map->replaced;
	replaced->relid = rel->relid;
	replaced->rel = entry->rel;
	map->replaced = replaced;
	entry->rel = rel;
	return known;
}

PpaRemoteRel *
ppa_relmap_find(PpaRelMap *map, uint32 relid)
{
	RelMapEntry *entry = hash_search(map->rels, &relid, HASH_FIND, NULL);

	return entry == NULL ? NULL : entry->rel;
}

bool
ppa_relmap_changed(PpaRelMap *map)
{
	return map->replaced != NULL;
}

void
ppa_relmap_settle(PpaRelMap *map)
{
	while (map->replaced != NULL)
	{
		ReplacedRel *replaced = map->replaced;

		map->replaced = replaced->next;
		if (replaced->rel != NULL)
			MemoryContextDelete(replaced->rel->cxt);
		pfree(replaced);
	}
}

void
ppa_relmap_rewind(PpaRelMap *map)
{
	while (map->replaced != NULL)
	{
		ReplacedRel *replaced = map->replaced;
		RelMapEntry *entry = hash_search(map->rels, &replaced->relid, HASH_FIND, NULL);

		MemoryContextDelete(entry->rel->cxt);
		entry->rel = replaced->rel;
		map->replaced = replaced->next;
		pfree(replaced);
	}
}
