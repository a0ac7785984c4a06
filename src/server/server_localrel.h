/*-------------------------------------------------------------------------
 *
 * server_localrel.h
 *	  A local table as the target of a relation of the publisher.
 *
 * What can be kept from one local transaction to the next: column mapping,
 * input functions, replica identity, what fires or is evaluated there, and
 * slots.  A relcache invalidation makes it invalid; it is then built anew
 * under the lock of the next change.
 *
 * A partitioned target has one entry for the root and one for each leaf that
 * rows were routed to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_LOCALREL_H
#define PPA_SERVER_LOCALREL_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "fmgr.h"
#include "storage/block.h"
#include "utils/relcache.h"

#include "server/server_relmap.h"
#include "server/server_traits.h"

/* How to read the values of one local column. */
typedef struct PpaColumnInput
{
	bool		text_ready;		/* the text fields below are set */
	bool		binary_ready;
	FmgrInfo	text;
	FmgrInfo	binary;
	Oid			text_ioparam;
	Oid			binary_ioparam;
	Oid			type;
	int32		typmod;
} PpaColumnInput;

typedef struct PpaLocalRel
{
	/* hash key */
	uint32		remote_relid;
	Oid			reloid;

	bool		valid;
	MemoryContext cxt;			/* of all below; reset when built anew */
	const PpaRemoteRel *remote;
	uint32		ready_at;		/* ppa_sync_generation at which it was READY, or 0 */

	int			natts;
	int		   *column;			/* local column, from 0, to remote column or -1 */
	PpaColumnInput *input;		/* by local column, from 0 */
	TupleDesc	desc;			/* own copy without reference count, for the slots */

	bool		partitioned;
	bool		updatable;		/* the replica identity suffices for UPDATE, DELETE */
	Oid			identity_index; /* replica identity index or primary key */
	bool		lookup_planned; /* lookup_index is set */
	Oid			lookup_index;	/* for REPLICA IDENTITY FULL; invalid: scan */
	BlockNumber scan_start;		/* where the last scan found its row; a hint */

	PpaFiring	firing;
	bool		has_generated;
	bool		has_missing;	/* columns that the publisher does not send */
	bool		plain;			/* nothing runs here that could look at other rows */
	bool		ordered;		/* to be evaluated after all earlier transactions; see PpaTraits */
	bool		evaluates;		/* likewise */

	/*
	 * Apply a remote transaction that touches this in a local transaction of
	 * its own: what runs here could see that others share it.
	 */
	bool		solo;
	bool		solo_for_leaf;	/* only because of a leaf: until any relation changes */

	TupleTableSlot *search_slot;
	TupleTableSlot *new_slot;
	MemoryContext batch_slots_cxt;	/* of the slots below */
	int			nbatch_slots;
	TupleTableSlot **batch_slots;	/* rows of a run of INSERTs */
} PpaLocalRel;

/*
 * Counts, from 1, the changes of pg_subscription_rel that this process has
 * heard of: what was READY then need not be looked up again until it moves.
 */
extern uint32 ppa_sync_generation;

/* The local relations of one apply process. */
typedef struct PpaLocalRels PpaLocalRels;

/* One per process: registers cache callbacks, which stay for ever. */
extern PpaLocalRels *ppa_localrels_create(MemoryContext parent);

/*
 * The valid entry of the remote relation's own target, or NULL if there is
 * none (any more).  Takes no lock: a hint unless the relation is locked.
 */
extern PpaLocalRel *ppa_localrel_peek(PpaLocalRels *rels, uint32 remote_relid);

/*
 * Open and lock the target of a remote relation, by name where it has to be
 * built anew, and return its valid entry.  The caller closes *rel.
 * ERROR: no such relation, unsupported kind, columns missing.
 */
extern PpaLocalRel *ppa_localrel_open(PpaLocalRels *rels, const PpaRemoteRel *remote,
									  int lockmode, Relation *rel);

/* The valid entry of an open and locked leaf partition below a target. */
extern PpaLocalRel *ppa_localrel_leaf(PpaLocalRels *rels, const PpaRemoteRel *remote,
									  Relation leaf);

/* The description of a remote relation has changed: forget what came of it. */
extern void ppa_localrels_forget(PpaLocalRels *rels, uint32 remote_relid);

/* All of them, as after a rewind of the relation map. */
extern void ppa_localrels_forget_all(PpaLocalRels *rels);

/* i-th slot for a run of INSERTs; made on demand. */
extern TupleTableSlot *ppa_localrel_batch_slot(PpaLocalRels *rels, PpaLocalRel *lrel, int i);

/* A target is closed: give back slots if all relations together keep too many. */
extern void ppa_localrel_trim(PpaLocalRels *rels, PpaLocalRel *lrel);

#endif							/* PPA_SERVER_LOCALREL_H */
