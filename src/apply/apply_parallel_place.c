/*-------------------------------------------------------------------------
 *
 * apply_parallel_place.c
 *	  A worker's place among the groups: the leader's orders, waiting.
 *
 * Waits are on the latch only: for input, for a number of the commit counter,
 * for the leader's orders.  In all of them the worker holds no pin and no
 * snapshot, and looks for orders each time it is woken.
 *
 * Runs in:	the apply workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"

#include "apply/apply_parallel_state.h"
#include "commit/commit_turn.h"
#include "dispatch/dispatch_event.h"

/* ---------- orders of the leader ---------- */

uint64
ppa_place_start_after(const PpaProcess *p, const PpaHeldGroup *g)
{
	return pg_atomic_read_u64(&ppa_shared_group(p->shared, g->number)->start_after);
}

bool
ppa_place_is_stopping(const PpaProcess *p)
{
	return pg_atomic_read_u32(&p->shared->stop) != 0;
}

/* All start_afters that were raised up to "seq" are obeyed from now on. */
static void
acknowledge(PpaProcess *p, uint32 seq)
{
	pg_memory_barrier();
	pg_atomic_write_u32(&p->mine->abort_ack, seq);
	pg_atomic_fetch_add_u32(&p->shared->events, 1);
	SetLatch(&p->shared->leader->procLatch);
}

void
ppa_place_obey_outside(PpaProcess *p)
{
	uint32		seq = pg_atomic_read_u32(&p->mine->abort_seq);

	if (seq != pg_atomic_read_u32(&p->mine->abort_ack))
		acknowledge(p, seq);
}

static void
give_way(void)
{
	ereport(ERROR,
			(errcode(PPA_ERRCODE_GIVE_WAY),
			 errmsg_internal("remote transaction gives way to an earlier one")));
}

void
ppa_place_obey_slow(PpaProcess *p, uint32 seq)
{
	if (ppa_place_is_stopping(p))
		give_way();
	pg_read_barrier();
	if (ppa_place_start_after(p, p->current) > ppa_shared_committed(p->shared))
		give_way();
	acknowledge(p, seq);
}

/* ---------- waiting ---------- */

/* Such waits are no work of the group's. */
static void
sleep_until(PpaProcess *p, uint64 threshold)
{
	TimestampTz begin = GetCurrentTimestamp();

	ppa_turn_sleep(p->shared, &p->mine->waits_for, threshold, -1);
	p->slept += GetCurrentTimestamp() - begin;
}

void
ppa_place_wait(PpaProcess *p, uint64 threshold, PpaWorkerWait reason)
{
	while (ppa_shared_committed(p->shared) < threshold)
	{
		ppa_place_obey_inside(p);
		CHECK_FOR_INTERRUPTS();
		ppa_report_worker_wait(p->report, reason, threshold);
		sleep_until(p, threshold);
	}
	/* what was written before the counter moved is to be seen */
	pg_read_barrier();
	ppa_report_worker_state(p->report, PPA_WORKER_EXECUTING);
}

void
ppa_place_wait_dependency(PpaProcess *p, uint64 threshold)
{
	ppa_order_relax(p->w);
	ppa_place_wait(p, threshold, PPA_WAIT_DEPENDENCY);
	ppa_order_resume(p->w);
}

void
ppa_place_wait_input(PpaProcess *p)
{
	ppa_order_relax(p->w);
	while (!ppa_held_read(p))
	{
		ppa_place_obey_inside(p);
		CHECK_FOR_INTERRUPTS();
		ppa_report_worker_wait(p->report, PPA_WAIT_QUEUE, 0);
		sleep_until(p, 0);
	}
	ppa_report_worker_state(p->report, PPA_WORKER_EXECUTING);
	ppa_order_resume(p->w);
}

/* ---------- what apply asks of its place among the groups ---------- */

bool
ppa_place_is_first(const PpaProcess *p)
{
	return ppa_shared_committed(p->shared) >= p->current->number - 1;
}

static bool
is_first(void *arg)
{
	return ppa_place_is_first(arg);
}

static void
await_first(void *arg, uint32 relation, bool missing)
{
	PpaProcess *p = arg;

	if (missing)
	{
		PpaWorkerEvent event = {
			.type = PPA_EVENT_MISSED,
			.group = p->current->number,
			.relation = relation
		};

		ppa_event_write(&p->event, &event, NULL);
		(void) ppa_pool_tell(p->pool, p->event.data, p->event.len);
	}
	ppa_place_wait(p, p->current->number - 1, PPA_WAIT_DEPENDENCY);
}

static bool
is_later(void *arg, TransactionId xid)
{
	PpaProcess *p = arg;

	/* we are the first: all others are later */
	for (uint32 i = 0; i < p->shared->nworkers; i++)
	{
		PGPROC	   *proc = p->shared->workers[i].proc;

		if (proc != NULL && proc != MyProc && TransactionIdEquals(proc->xid, xid))
			return true;
	}
	return false;
}

PpaOrder	ppa_place_order = {
	.is_first = is_first,
	.await_first = await_first,
	.is_later = is_later
};
