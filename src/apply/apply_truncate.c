/*-------------------------------------------------------------------------
 *
 * apply_truncate.c
 *	  TRUNCATE.
 *
 * As the built-in worker: the tables named by the message and the leaves of
 * partitioned ones, never a table that only the subscriber would cascade to.
 *
 * Runs in:	the process that applies changes.
 * Locks:	AccessExclusiveLock on every table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "utils/acl.h"
#include "utils/rel.h"

#include "apply/apply_target.h"
#include "apply/apply_truncate.h"

typedef struct TruncateLists
{
	List	   *rels;
	List	   *relids;
	List	   *logged;			/* relids to be decoded by our own publications */
} TruncateLists;

static bool
has_truncate_trigger(Relation rel)
{
	return rel->trigdesc != NULL && (rel->trigdesc->trig_truncate_before_statement ||
									 rel->trigdesc->trig_truncate_after_statement);
}

/* Takes over the open relation. */
static void
add_relation(PpaWorker *w, TruncateLists *lists, Relation rel)
{
	if (has_truncate_trigger(rel))
		ppa_require_solo(w);
	ppa_check_privileges(rel, ACL_TRUNCATE);
	lists->rels = lappend(lists->rels, rel);
	lists->relids = lappend_oid(lists->relids, RelationGetRelid(rel));
	if (RelationIsLogicallyLogged(rel))
		lists->logged = lappend_oid(lists->logged, RelationGetRelid(rel));
}

static void
add_leaves(PpaWorker *w, TruncateLists *lists, Oid root)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(root, AccessExclusiveLock, NULL))
	{
		Oid			relid = lfirst_oid(lc);
		Relation	rel;

		if (list_member_oid(lists->relids, relid))
			continue;
		rel = table_open(relid, NoLock);
		if (RELATION_IS_OTHER_TEMP(rel))
			table_close(rel, AccessExclusiveLock);
		else
			add_relation(w, lists, rel);
	}
}

void
ppa_apply_truncate(PpaWorker *w, const PpaTruncate *msg)
{
	TruncateLists lists = {NIL, NIL, NIL};
	ListCell   *lc;

	Assert(dlist_is_empty(&w->targets));
	for (int i = 0; i < msg->nrelids; i++)
	{
		uint32		remote_relid = ppa_wire_truncate_relid(msg, i);
		PpaRemoteRel *remote = ppa_relmap_find(w->relmap, remote_relid);
		PpaLocalRel *lrel;
		Relation	rel;

		if (remote == NULL)
			elog(ERROR, "no relation map entry for remote relation ID %u", remote_relid);
		lrel = ppa_localrel_open(w->lrels, remote, AccessExclusiveLock, &rel);
		if (!ppa_target_is_synced(w, lrel))
		{
			table_close(rel, AccessExclusiveLock);
			continue;
		}
		/* a leaf that its root has brought already */
		if (list_member_oid(lists.relids, RelationGetRelid(rel)))
		{
			table_close(rel, NoLock);
			continue;
		}
		add_relation(w, &lists, rel);
		if (lrel->partitioned)
			add_leaves(w, &lists, RelationGetRelid(rel));
	}

	ExecuteTruncateGuts(lists.rels, lists.relids, lists.logged, DROP_RESTRICT,
						msg->restart_identity);
	foreach(lc, lists.rels)
		table_close((Relation) lfirst(lc), NoLock);
	w->counts.truncates++;
}
