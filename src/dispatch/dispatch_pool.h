/*-------------------------------------------------------------------------
 *
 * dispatch_pool.h
 *	  The apply workers of a subscription, and the memory shared with them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PPA_DISPATCH_POOL_H
#define PPA_DISPATCH_POOL_H

#include "postgres.h"

#include "postmaster/bgworker.h"
#include "storage/dsm.h"
#include "storage/shm_mq.h"

#include "dispatch/dispatch_queue.h"
#include "server/server_shared.h"

/* ---------- the leader's side ---------- */

typedef enum PpaPoolState
{
	PPA_POOL_DOWN,
	PPA_POOL_STARTING,			/* registered, not attached yet */
	PPA_POOL_UP,
	PPA_POOL_LEAVING,			/* asked to end */
	PPA_POOL_DIED,				/* ended without being asked to */
} PpaPoolState;

typedef struct PpaPoolWorker
{
	PpaPoolState state;
	BackgroundWorkerHandle *handle;
	PpaOutbox	out;
	shm_mq_handle *events;
	uint64		committed;		/* the last group that the leader has seen it commit */
	bool		flushing;		/* as the scheduler was told last */
} PpaPoolWorker;

typedef struct PpaPool
{
	MemoryContext cxt;
	dsm_segment *segment;
	PpaShared  *shared;
	int			nworkers;
	PpaPoolWorker *workers;
} PpaPool;

/*
 * Make the shared memory for "nworkers" workers and "ngroups" groups in
 * flight.  No worker is started.  Outside of a transaction.
 */
extern PpaPool *ppa_pool_create(MemoryContext parent, int nworkers, int ngroups);

/* Start worker i; false: the server has no background worker to spare. */
extern bool ppa_pool_start(PpaPool *pool, int i);

/*
 * What has become of worker i?  STARTING turns into UP, or into DOWN when it
 * could not start; UP into DIED; LEAVING into DOWN.
 */
extern PpaPoolState ppa_pool_check(PpaPool *pool, int i);

/* Ask worker i, which has no group, to end. */
extern void ppa_pool_leave(PpaPool *pool, int i);

/* Let worker i look at its orders, wherever it is: also in a wait for a lock if "interrupt". */
extern void ppa_pool_wake(PpaPool *pool, int i, bool interrupt);

/*
 * End all workers and wait until they are gone.  For exit callbacks and error
 * handling too: throws nothing, takes no heavyweight lock, reads no catalog.
 */
extern void ppa_pool_stop(PpaPool *pool);

/* After ppa_pool_stop(): give back the memory. */
extern void ppa_pool_destroy(PpaPool *pool);

/* ---------- the worker's side ---------- */

typedef struct PpaPoolMember
{
	dsm_segment *segment;
	PpaShared  *shared;
	int			number;
	PpaSharedWorker *mine;
	shm_mq_handle *queue;		/* from the leader */
	shm_mq_handle *events;		/* to the leader */
} PpaPoolMember;

/* Attach this process to the pool that it was started for; NULL: it is gone. */
extern PpaPoolMember *ppa_pool_attach(Datum main_arg);

/* This process is ready for groups: for the leader it is UP from now on. */
extern void ppa_pool_ready(PpaPoolMember *member);

/* Tell the leader; waits while its queue is full.  False: it is not interested any more. */
extern bool ppa_pool_tell(PpaPoolMember *member, const char *message, Size len);

#endif							/* PPA_DISPATCH_POOL_H */
