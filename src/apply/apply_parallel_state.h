/*-------------------------------------------------------------------------
 *
 * apply_parallel_state.h
 *	  State of an apply worker of parallel apply; for apply_parallel*.c only.
 *
 * apply_parallel.c			the process: its loop, errors
 * apply_parallel_run.c		a group: its attempts, its commit
 * apply_parallel_place.c	its place among the groups: the leader's orders, waiting
 * apply_parallel_input.c	what comes from the leader: groups and their bytes
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_APPLY_PARALLEL_STATE_H
#define PPA_APPLY_PARALLEL_STATE_H

#include "postgres.h"

#include "apply/apply_order.h"
#include "apply/apply_worker.h"
#include "dispatch/dispatch_pool.h"
#include "report/report_workers.h"
#include "server/server_batch.h"

/* Thrown where the group has to give way to an earlier one, or all is to end. */
#define PPA_ERRCODE_GIVE_WAY MAKE_SQLSTATE('X', 'P', 'A', '0', '2')

/* A group that this worker was given. */
typedef struct PpaHeldGroup
{
	uint64		number;
	PpaBatch   *batch;
	bool		complete;		/* all of it is here */
	bool		alone;			/* nothing later is being applied meanwhile */
	bool		failed;			/* waits for RETRY */
	uint32		retries_seen;	/* RETRYs obeyed; from the first on its members are applied one
								 * by one */
	TimestampTz not_before;		/* the pause before that retry ends; 0: none */
	int			done;			/* members that have committed, in such a retry ... */
	XLogRecPtr	local_lsn;		/* ... where the last of them that wrote something ends */
	int			cancels;		/* attempts that were cancelled without an order */
	int			unretain_at;	/* at this byte forget what was before; -1: nowhere */
	bool		unretained;
} PpaHeldGroup;

typedef struct PpaProcess
{
	MemoryContext cxt;
	PpaPoolMember *pool;
	PpaShared  *shared;
	PpaSharedWorker *mine;
	PpaWorker  *w;
	PpaWorkerSlot *report;
	StringInfoData event;
	PpaHeldGroup *groups;		/* as many as can be in flight; number 0: free */
	uint32		groups_end;		/* all behind are free */
	PpaHeldGroup *current;		/* the one being executed */
	bool		turn_waited;	/* it was executed before its turn */
	TimestampTz slept;			/* microseconds in which it waited for other groups, or for input */
	int			idle;			/* steps of waiting for a group; see wait_for_group() */
	int			owed_groups;	/* committed and not flushed, where the subscription wants it ... */
	XLogRecPtr	owed_lsn;		/* ... up to here */
	int			lock_timeout;	/* as configured; what is speculative has none */
} PpaProcess;

/* ---------- apply_parallel.c ---------- */

/* Take over changed settings; outside of a transaction. */
extern void ppa_process_reload(PpaProcess *p);

/* ---------- apply_parallel_input.c ---------- */

/* The group with the lowest number, or NULL. */
extern PpaHeldGroup *ppa_held_lowest(PpaProcess *p);

extern void ppa_held_drop(PpaProcess *p, PpaHeldGroup *g);

/* Read what is there.  Returns whether there was something. */
extern bool ppa_held_read(PpaProcess *p);

/* The group leaves this worker: what its messages say of relations stays true. */
extern void ppa_held_keep_relations(PpaProcess *p, const PpaHeldGroup *g);

/* ---------- apply_parallel_place.c ---------- */

/* For PpaWorker.order. */
extern PpaOrder ppa_place_order;

extern bool ppa_place_is_stopping(const PpaProcess *p);
extern uint64 ppa_place_start_after(const PpaProcess *p, const PpaHeldGroup *g);
extern bool ppa_place_is_first(const PpaProcess *p);

/* Between groups: no local transaction is open, so there is nothing to do but to say so. */
extern void ppa_place_obey_outside(PpaProcess *p);

/* In the middle of a group; throws PPA_ERRCODE_GIVE_WAY if it has to. */
extern void ppa_place_obey_slow(PpaProcess *p, uint32 seq);

static inline void
ppa_place_obey_inside(PpaProcess *p)
{
	uint32		seq = pg_atomic_read_u32(&p->mine->abort_seq);

	if (unlikely(seq != pg_atomic_read_u32(&p->mine->abort_ack) || ppa_place_is_stopping(p)))
		ppa_place_obey_slow(p, seq);
}

/* In the middle of a group: until all groups up to "threshold" have committed. */
extern void ppa_place_wait(PpaProcess *p, uint64 threshold, PpaWorkerWait reason);

/* The same for a change, with nothing held that others could wait for. */
extern void ppa_place_wait_dependency(PpaProcess *p, uint64 threshold);

/* In the middle of a group that is still arriving: until there is more of it. */
extern void ppa_place_wait_input(PpaProcess *p);

/* ---------- apply_parallel_run.c ---------- */

/* The group in one local transaction; or, after an error, its members one by one, row by row. */
extern void ppa_run_together(PpaProcess *p, PpaHeldGroup *g);
extern void ppa_run_one_by_one(PpaProcess *p, PpaHeldGroup *g);

/* Flush what was committed and, while there was more to do, left unflushed. */
extern void ppa_run_flush_owed(PpaProcess *p);

#endif							/* PPA_APPLY_PARALLEL_STATE_H */
