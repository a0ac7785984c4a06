/*-------------------------------------------------------------------------
 *
 * schedule_watch.c
 *	  What the head of the line waits for.
 *
 * Runs in:	the leader.
 * Memory:	a context of its own per call.
 * Locks:	pg_blocking_pids() takes the partition locks of the lock manager for
 *			a moment; so it is asked only while a worker does wait.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "schedule/schedule_watch.h"

/* More sessions than that in one chain are not followed; the backstop ends such a wait. */
#define MAX_PIDS 64

bool
ppa_watch_waits(const PpaSharedWorker *worker)
{
	PGPROC	   *proc = worker->proc;

	return proc != NULL &&
		(*(volatile uint32 *) &proc->wait_event_info & 0xFF000000U) == PG_WAIT_LOCK;
}

/* The group later than "head" that the process has a transaction open for, or 0. */
static uint64
later_group_of(PpaShared *shared, int pid, uint64 head)
{
	for (uint32 i = 0; i < shared->nworkers; i++)
	{
		PpaSharedWorker *worker = &shared->workers[i];
		uint64		running = pg_atomic_read_u64(&worker->running);
		PGPROC	   *proc = worker->proc;

		if (proc != NULL && proc->pid == pid && running > head)
			return running;
	}
	return 0;
}

/* Add those who block "pid" to the list, each once; returns the new length. */
static int
add_blockers(int *pids, int npids, int pid)
{
	ArrayType  *array = DatumGetArrayTypeP(DirectFunctionCall1(pg_blocking_pids,
															   Int32GetDatum(pid)));
	int		   *blockers = (int *) ARR_DATA_PTR(array);
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));

	for (int i = 0; i < n && npids < MAX_PIDS; i++)
	{
		bool		known = (blockers[i] == 0);	/* a prepared transaction waits for nobody */

		for (int j = 0; j < npids && !known; j++)
			known = (pids[j] == blockers[i]);
		if (!known)
			pids[npids++] = blockers[i];
	}
	return npids;
}

uint64
ppa_watch_blocker(PpaShared *shared, const PpaSharedWorker *worker, uint64 head)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_parallel_apply watch",
											  ALLOCSET_SMALL_SIZES);
	MemoryContext oldcxt = MemoryContextSwitchTo(cxt);
	int			pids[MAX_PIDS];
	int			npids = 1;
	uint64		found = 0;
	PGPROC	   *proc = worker->proc;

	pids[0] = proc != NULL ? proc->pid : 0;
	for (int i = 0; i < npids && found == 0; i++)
	{
		if (i > 0)
			found = later_group_of(shared, pids[i], head);
		if (found == 0)
			npids = add_blockers(pids, npids, pids[i]);
	}
	MemoryContextSwitchTo(oldcxt);
	MemoryContextDelete(cxt);
	return found;
}
