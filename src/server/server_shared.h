/*-------------------------------------------------------------------------
 *
 * server_shared.h
 *	  Memory that the leader of a subscription shares with its apply workers.
 *
 * One dynamic shared memory segment per leader, made outside of transactions
 * so that it lives as long as the processes.  The queues of the workers lie
 * behind what is described here (dispatch_pool.c).
 *
 * Who writes what:
 *	committed		the worker that has the commit turn, and only upwards
 *	leader fields	the leader
 *	worker fields	the worker that they belong to
 *	group fields	the leader, and "local_lsn" then the worker that has it
 *
 * Nobody takes a lock.  Whoever waits for a number to move announces what it
 * waits for, passes a memory barrier and looks again before it sleeps on its
 * latch; whoever moves the number passes a barrier before it looks who waits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_SERVER_SHARED_H
#define PPA_SERVER_SHARED_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "port/atomics.h"
#include "replication/origin.h"
#include "storage/latch.h"
#include "storage/proc.h"

/* For a worker's own line of the cache. */
#define PPA_CACHE_LINE 64

/* A group in flight; its place is its number modulo PpaShared.ngroups. */
typedef struct PpaSharedGroup
{
	pg_atomic_uint64 start_after;	/* no local transaction before this has committed; goes up */
	pg_atomic_uint32 retries;	/* RETRYs given; the two fields below are those of the last */
	uint32		retry_delay_ms;
	bool		retry_alone;
	XLogRecPtr	local_lsn;		/* end of its last local commit, or invalid if that has
								 * written nothing; set before it is committed */
} PpaSharedGroup;

typedef struct PpaSharedWorker
{
	PGPROC	   *volatile proc;	/* NULL: not attached, or gone */
	pg_atomic_uint32 attached;	/* it was, and may have committed something */
	pg_atomic_uint64 waits_for; /* wake it when this has committed; 0: it does not wait */
	pg_atomic_uint64 running;	/* group whose local transaction is open; 0: none */
	pg_atomic_uint64 progress;	/* moves with every change */
	pg_atomic_uint64 busy_us;	/* what it has spent on its groups, but for waits for others ... */
	pg_atomic_uint64 attempts;	/* ... and how many there were */
	pg_atomic_uint64 durable;	/* its groups up to this are as durable as the subscription
								 * asks for */
	pg_atomic_uint32 abort_seq; /* the leader has raised a start_after of its groups ... */
	pg_atomic_uint32 abort_ack; /* ... and up to here it obeys all of them */
	pg_atomic_uint32 leave;		/* it is to end, having no group */
	char		pad[PPA_CACHE_LINE];
} PpaSharedWorker;

typedef struct PpaShared
{
	Oid			subid;
	Oid			dbid;
	Oid			owner;
	RepOriginId origin;
	PGPROC	   *leader;
	uint32		nworkers;		/* places for workers */
	uint32		ngroups;		/* places for groups in flight, a power of two */
	uint32		queue_size;		/* bytes of a queue from leader to worker */
	uint32		event_size;		/* bytes of a queue from worker to leader */
	bool		flush_at_once;	/* somebody on the publisher waits for our flush */
	pg_atomic_uint32 stop;		/* all workers are to end now */
	pg_atomic_uint32 events;	/* counts what the workers have sent to the leader */

	char		pad1[PPA_CACHE_LINE];
	pg_atomic_uint64 committed; /* all groups up to this have committed, and are visible */
	XLogRecPtr	progress;		/* of the origin; by whoever has the commit turn */
	char		pad2[PPA_CACHE_LINE];
	pg_atomic_uint64 leader_waits_for;	/* wake it when this has committed; 0: it does not wait */

	PpaSharedWorker workers[FLEXIBLE_ARRAY_MEMBER];
	/* behind: PpaSharedGroup[ngroups], then the queues */
} PpaShared;

static inline PpaSharedGroup *
ppa_shared_group(PpaShared *shared, uint64 number)
{
	PpaSharedGroup *groups = (PpaSharedGroup *)
		((char *) shared + MAXALIGN(offsetof(PpaShared, workers) +
									sizeof(PpaSharedWorker) * shared->nworkers));

	return &groups[number & (shared->ngroups - 1)];
}

static inline uint64
ppa_shared_committed(PpaShared *shared)
{
	return pg_atomic_read_u64(&shared->committed);
}

/* Has a process that waits for "waits_for" to be woken? */
static inline bool
ppa_shared_is_reached(pg_atomic_uint64 *waits_for, uint64 committed)
{
	uint64		threshold = pg_atomic_read_u64(waits_for);

	return threshold != 0 && threshold <= committed;
}

#endif							/* PPA_SERVER_SHARED_H */
