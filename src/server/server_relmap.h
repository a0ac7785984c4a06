/*-------------------------------------------------------------------------
 *
 * server_relmap.h
 *	  What the publisher has told us about its relations.
 *
 * pgoutput sends a RELATION message before the first change of a relation and
 * again after the relation has changed.  A change must be read with the
 * description that was valid at its position in the stream, also when a group
 * is applied a second time after an error.  So a new description replaces the
 * old one where its message stands in the stream, and the old one is kept
 * until the group is committed: ppa_relmap_rewind() brings it back.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_RELMAP_H
#define PPA_SERVER_RELMAP_H

#include "postgres.h"

#include "nodes/bitmapset.h"

#include "wire/wire_message.h"

/* A relation of the publisher; never changes once made. */
typedef struct PpaRemoteRel
{
	MemoryContext cxt;			/* holds this struct and all it points to */
	uint32		relid;			/* OID on the publisher */
	char	   *nspname;
	char	   *relname;
	char		replident;		/* REPLICA_IDENTITY_* */
	int			natts;
	char	  **attnames;
	Bitmapset  *keys;			/* columns of the replica identity, from 0 */
} PpaRemoteRel;

/* The descriptions of one apply process. */
typedef struct PpaRelMap PpaRelMap;

/* An empty map, in a context of its own under "parent". */
extern PpaRelMap *ppa_relmap_create(MemoryContext parent);

/*
 * Take over a RELATION message.  Returns whether it changed the description
 * of a relation that was known: then all that was derived from the old one is
 * void.
 */
extern bool ppa_relmap_update(PpaRelMap *map, const PpaRelationMessage *msg);

/*
 * The same for a description that comes from outside of the stream of changes
 * and stays, whatever becomes of the group being applied.  No change that
 * needs an older one is being applied, or will be.
 */
extern bool ppa_relmap_learn(PpaRelMap *map, const PpaRelationMessage *msg);

/* NULL if the publisher has not described the relation. */
extern PpaRemoteRel *ppa_relmap_find(PpaRelMap *map, uint32 relid);

/* Has a description been replaced since the last commit or rewind? */
extern bool ppa_relmap_changed(PpaRelMap *map);

/* The group is committed: forget the descriptions that were replaced. */
extern void ppa_relmap_settle(PpaRelMap *map);

/* The group will be applied again: back to the descriptions at its start. */
extern void ppa_relmap_rewind(PpaRelMap *map);

#endif							/* PPA_SERVER_RELMAP_H */
