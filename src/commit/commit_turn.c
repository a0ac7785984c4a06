/*-------------------------------------------------------------------------
 *
 * commit_turn.c
 *	  The order of commits: one counter, and whom to wake when it moves.
 *
 * Runs in:	the apply workers; the leader reads the counter.
 * Locks:	none; see server_shared.h for the order of writing and looking.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"

#include "commit/commit_turn.h"

bool
ppa_turn_sleep(PpaShared *shared, pg_atomic_uint64 *waits_for, uint64 threshold, long timeout_ms)
{
	int			wake = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (timeout_ms >= 0 ? WL_TIMEOUT : 0);

	int			events = 0;

	pg_atomic_write_u64(waits_for, threshold);
	pg_memory_barrier();
	if (threshold == 0 || ppa_shared_committed(shared) < threshold)
	{
		events = WaitLatch(MyLatch, wake, timeout_ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	pg_atomic_write_u64(waits_for, 0);
	return (events & WL_TIMEOUT) == 0;
}

void
ppa_turn_publish(PpaShared *shared, uint64 number, XLogRecPtr local_lsn)
{
	Assert(InterruptHoldoffCount > 0);
	Assert(ppa_shared_committed(shared) == number - 1);
	ppa_shared_group(shared, number)->local_lsn = local_lsn;
	pg_write_barrier();
	pg_atomic_write_u64(&shared->committed, number);
	pg_memory_barrier();
	for (uint32 i = 0; i < shared->nworkers; i++)
	{
		PpaSharedWorker *worker = &shared->workers[i];
		PGPROC	   *proc = worker->proc;

		if (proc != NULL && ppa_shared_is_reached(&worker->waits_for, number))
			SetLatch(&proc->procLatch);
	}
}

void
ppa_turn_tell_leader(PpaShared *shared, uint64 number)
{
	if (ppa_shared_is_reached(&shared->leader_waits_for, number))
		SetLatch(&shared->leader->procLatch);
}
