/*-------------------------------------------------------------------------
 *
 * apply_state.h
 *	  State of the process that applies changes.
 *
 * PpaWorker is the process, PpaTarget a table that the running local
 * transaction writes.  A target's relation references, scans and executor
 * state belong to the local transaction: they are closed before it commits,
 * and forgotten when it aborts (the server's resource owner releases them).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_STATE_H
#define PPA_APPLY_STATE_H

#include "postgres.h"

#include <signal.h>

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "executor/execPartition.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "utils/typcache.h"

#include "report/report_counters.h"
#include "report/report_workers.h"
#include "server/server_localrel.h"
#include "server/server_relmap.h"
#include "wire/wire_message.h"

/* Where a row is that this local transaction has written; see apply_own_rows.h. */
typedef struct PpaOwnRow
{
	uint32		hash;			/* of its key; 0: none */
	ItemPointerData tid;
} PpaOwnRow;

#define PPA_OWN_ROWS 64

/* How the rows of a target are found. */
typedef struct PpaLookup
{
	Relation	index;			/* NULL: scan the table */
	IndexScanDesc scan;			/* made once, rescanned for every key */
	int			nkeys;
	ScanKeyData key[INDEX_MAX_KEYS];
	AttrNumber	attno[INDEX_MAX_KEYS];	/* table column of each key */
	bool		exact;			/* the key identifies the row: no need to compare it */
	TypeCacheEntry **eq;		/* equality by column, filled on demand */
	uint32		search_hash;	/* of the key searched for last */
	PpaOwnRow	own[PPA_OWN_ROWS];
} PpaLookup;

typedef struct PpaTarget
{
	dlist_node	node;			/* in PpaWorker.targets, or in root->leaves */
	PpaLocalRel *lrel;
	Relation	rel;
	struct PpaTarget *root;		/* of a leaf: the partitioned target */

	EState	   *estate;			/* a leaf shares that of its root */
	ResultRelInfo *rri;
	Bitmapset  *all_updated;	/* updated columns if the publisher sent all */
	bool		may_insert;		/* privileges and replica identity checked */
	bool		may_select;
	bool		may_update;
	bool		may_delete;

	int			ndefaults;		/* of columns that the publisher does not send */
	int		   *default_att;
	ExprState **default_expr;

	PpaLookup  *lookup;			/* NULL until the first UPDATE or DELETE */
	TupleTableSlot *found;		/* the row that was looked up */
	Size		row_size;		/* of the longest row found; 0: none yet */

	ModifyTableState *mtstate;	/* of a partitioned target */
	PartitionTupleRouting *proute;
	dlist_head	leaves;

	dlist_node	batch_node;		/* in PpaWorker.batches while nbatch > 0 */
	int			nbatch;			/* rows of a run of INSERTs, not yet in the table */
	size_t		batch_bytes;
	MemoryContext batch_cxt;
} PpaTarget;

/* Targets are found by remote OID without a hash search if they are few. */
#define PPA_TARGET_MEMO 64

struct PpaWorkerHooks;
struct PpaOrder;

typedef struct PpaWorker
{
	MemoryContext cxt;			/* process */
	MemoryContext txn_cxt;		/* local transaction */
	MemoryContext change_cxt;	/* one change */
	PpaRelMap  *relmap;
	PpaLocalRels *lrels;

	/* the local transaction */
	bool		in_txn;
	int			members;		/* remote transactions in it, with the one being applied */
	bool		solo;			/* the one being applied must be alone in it */
	bool		batched;		/* a row was kept back for a run of INSERTs */
	dlist_head	targets;		/* oldest first */
	int			ntargets;
	dlist_head	batches;
	PpaTarget  *looked_up;		/* whose lookup may hold buffer pins, or NULL */
	PpaTarget  *memo[PPA_TARGET_MEMO];
	PpaChangeCounts counts;		/* of the local transaction */

	/* the remote transaction */
	XLogRecPtr	final_lsn;
	bool		skipping;		/* ALTER SUBSCRIPTION ... SKIP */
	bool		alone;			/* no later transaction is being applied meanwhile */
	bool		may_fire;		/* triggers are fired in this process, if it is alone */
	bool		sync_decided;	/* somebody else decides which tables are synchronised */
	bool		row_by_row;		/* no runs: each change is complete when it returns */

	/* the message */
	PpaChange  *change;
	int			message_len;
	char	   *scratch;		/* copy of the message, for ppa_wire_terminate() */
	int			scratch_size;	/* allocated */

	const struct PpaWorkerHooks *hooks;
	const struct PpaOrder *order;	/* NULL: nothing is applied besides */
	PpaSubSlot *slot;			/* may be NULL */
	PpaWorkerSlot *report;		/* what it is at, for the views; may be NULL */
} PpaWorker;

/* Thrown where a remote transaction turns out to need a local one of its own, or to be alone. */
#define PPA_ERRCODE_REGROUP MAKE_SQLSTATE('X', 'P', 'A', '0', '1')

/* Set by the leader's timer; see ppa_worker_tick(). */
extern volatile sig_atomic_t ppa_tick_due;

/* Give w->scratch another size; its content is lost. */
extern void ppa_worker_resize_scratch(PpaWorker *w, int size);

extern void ppa_worker_call_tick(PpaWorker *w);

/* Between changes, and in long scans: call the tick hook if it is due. */
static inline void
ppa_worker_tick(PpaWorker *w)
{
	if (unlikely(ppa_tick_due))
		ppa_worker_call_tick(w);
}

#endif							/* PPA_APPLY_STATE_H */
