/*-------------------------------------------------------------------------
 *
 * schedule_relview.h
 *	  What the leader knows of the relations of the stream.
 *
 * A view has the publisher's description, as the message that workers are
 * sent, and facts about the local target: which keys its changes write, and
 * whether they have to wait for others.  The facts are a hint.  The worker
 * decides again under the lock.
 *
 * The leader is outside of transactions: what has to be looked up is looked up
 * in a short one of its own.  Locks on tables are taken only if they are to be
 * had at once.  No mistake of a user is reported here (no such table, no such
 * column): the worker does that where the change is applied.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SCHEDULE_RELVIEW_H
#define PPA_SCHEDULE_RELVIEW_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "nodes/bitmapset.h"

#include "schedule/schedule_keys.h"
#include "wire/wire_message.h"

typedef struct PpaRelView
{
	uint32		relid;			/* OID on the publisher; hash key */

	/* The description; the names point into the message. */
	char	   *message;		/* the RELATION message as it came */
	int			message_len;
	const char *nspname;
	const char *relname;
	char		replident;
	int			natts;
	char	  **attnames;

	/* The leader's own; learn() leaves the first alone. */
	uint64		seen_in_group;
	uint64		known[2];		/* workers that have the message, a bit each; none after learn() */

	/* Facts about the local target; after settle(). */
	Oid			reloid;			/* the last one found under that name */
	uint32		flags;			/* of row changes: PPA_CHANGE_*, see core_schedule.h */
	uint32		truncate_flags; /* of TRUNCATE */
	PpaRelationKeys keys;

	/* Private to schedule_relview.c. */
	const char *description;	/* the part of the message that may change */
	size_t		description_len;
	Bitmapset  *identity;		/* columns of the replica identity, from 0 */
	bool		settled;		/* the facts are complete and not invalidated */
	bool		evaluates;		/* see PpaTraits */
	bool		renewed;		/* described anew, and not used since */
	bool		marked;			/* see ppa_relview_mark_triggers() */
	uint64		tried;			/* number of the group in which facts were looked up */
	uint16	   *key_columns;	/* of all keys */
	Oid		   *members;		/* of the target's partition tree, ascending */
	int			nmembers;
	uint32		synced_at;		/* apply_from was looked up at this generation; 0: not */
	XLogRecPtr	apply_from;		/* transactions whose final LSN is lower are none of ours */
	struct PpaRelView *next;	/* in the order in which they were first described */
} PpaRelView;

typedef enum PpaRelViewChange
{
	PPA_RELVIEW_NEW,			/* not described before */
	PPA_RELVIEW_SAME,
	PPA_RELVIEW_CHANGED,
} PpaRelViewChange;

/* The views of one leader. */
typedef struct PpaRelViews PpaRelViews;

/* At most one per process: registers cache callbacks, which stay for ever. */
extern PpaRelViews *ppa_relviews_create(MemoryContext parent);

/* What a RELATION message would change; it changes nothing yet. */
extern PpaRelViewChange ppa_relviews_would(PpaRelViews *views, const PpaRelationMessage *msg);

/*
 * Take over a description.  "message" is the whole message that "msg" was
 * parsed from; it is copied.  If nothing has changed, nothing is done.
 * A view, once made, stays where it is.
 */
extern PpaRelView *ppa_relviews_learn(PpaRelViews *views, const char *message, int len,
									  const PpaRelationMessage *msg);

/* NULL if the publisher has not described the relation. */
extern PpaRelView *ppa_relview_find(PpaRelViews *views, uint32 relid);

/* A new group begins: what could not be looked up may be tried again. */
extern void ppa_relviews_new_group(PpaRelViews *views);

/* See ppa_relview_settle(). */
extern void ppa_relview_look(PpaRelViews *views, PpaRelView *view);

/*
 * Bring the facts up to date; once per change is cheap.  Outside of a
 * transaction.  Where they cannot be found for now, and in the first group
 * after a relation was described anew, the change is PPA_CHANGE_ORDERED; that
 * is tried again in the next group.  Invalidations are accepted by the caller,
 * at the boundaries of groups.
 */
static inline void
ppa_relview_settle(PpaRelViews *views, PpaRelView *view)
{
	if (unlikely(!view->settled))
		ppa_relview_look(views, view);
}

/* The keys that a change of the view's relation writes; after settle(). */
static inline int
ppa_change_keys(const PpaRelView *view, const PpaChange *change, uint64 *keys)
{
	return ppa_keys_of_change(&view->keys, change, keys);
}

typedef enum PpaRelViewVerdict
{
	PPA_RELVIEW_APPLY,
	PPA_RELVIEW_SKIP,			/* none of ours: the table is not synchronised yet */
	PPA_RELVIEW_UNKNOWN,		/* no table of that name: who finds one decides, or complains */
} PpaRelViewVerdict;

/*
 * Is a change ours at this point of the stream?  "final_lsn" is that of BEGIN.
 * Outside of a transaction.  May wait for ALTER SUBSCRIPTION ... REFRESH, as
 * the built-in worker does, but only while a table is not READY or the states
 * have changed.
 */
extern PpaRelViewVerdict ppa_relview_judge(PpaRelViews *views, PpaRelView *view,
										   XLogRecPtr final_lsn);

/*
 * A worker has found that changes of this relation fire triggers (of a
 * partition): expect it until something changes in its partition tree.
 * Accepts invalidations, so that those of what the worker has seen do not
 * come after.  Outside of a transaction.
 */
extern void ppa_relview_mark_triggers(PpaRelView *view);

/* All views: for (view = first(views); view != NULL; view = view->next). */
extern PpaRelView *ppa_relviews_first(PpaRelViews *views);

#endif							/* PPA_SCHEDULE_RELVIEW_H */
